"""Prefix language modelling: show the beginning of a text, ask for the rest.

Paper: Liu et al. 2018; Raffel et al. 2020 (T5 compares it).
Data: any text of two tokens or more.
Hides and asks: a text is cut in two, every place to cut equally likely, at least one token on each
side. The first half is shown; the second is asked for, and the end token after it.
Loss: -log p(token) at every token of the second half and at the end, summed.
Relations: an encoder-decoder reads the first half with its encoder and writes the second. A model
without an encoder reads both as one text, and its attention stays causal: also in the first half no
token sees a later one, unlike the network of the paper with that name. `CausalLM` asks for the
first half, too. `SpanCorruption` asks for shorter answers, with text on both sides of each gap.
Where paper and code differ: T5's code draws the cut for windows of one length; here each text has
its own.
Example: `PrefixLM()`, or in a recipe
`{kind = "prefix_lm", examples = {kind = "blocks", length = 513}}`.

Shapes: n tokens of all answers, B examples, W width.
"""

from typing import ClassVar

import numpy as np
from torch import Tensor

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.objectives.batch import BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.causal_lm import check_writes
from clozeworks.objectives.noise.sentinels import between_texts
from clozeworks.objectives.noise.words import pieces_of_examples
from clozeworks.objectives.teacher_forcing import TeacherForced, answer_part, continued, decoded
from clozeworks.rng import RandomStream, below
from clozeworks.spec import spec


@spec
class PrefixLM(TeacherForced):
    """Shows the beginning of a text and asks for the rest."""

    paper: ClassVar[str] = "Liu et al. 2018"

    examples: ExamplesSpec | None = None
    """What stands side by side."""

    @property
    def owns_forward(self) -> bool:
        """The texts are cut, and their second half is read by the decoder."""
        return True

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Shows the first half; asks for `answers`."""
        clean = builder.clean
        words = rng.stream(self.name).words(clean.epochs, clean.indices, 1)[:, 0]
        pieces = pieces_of_examples(clean)
        kept = 1 + below(words, np.maximum(pieces - 1, 1))  # 1 to pieces - 1
        before = np.cumsum(~clean.special) - 1  # tokens of text before each
        of_row = np.repeat(np.cumsum(pieces) - pieces, clean.lengths)
        rows = np.repeat(np.arange(len(clean)), clean.lengths)
        # What stands between two documents belongs to the half it stands in.
        inner = between_texts(clean, rows)
        masked = inner & (before - of_row >= np.repeat(kept, clean.lengths))
        asked = np.bincount(rows[masked], minlength=len(clean))
        answers = np.insert(clean.ids[masked], np.cumsum(asked), source.end())
        shown, start = ~masked, source.start_id
        if start is None:
            # A tokenizer without padding belongs to models without an encoder: they read no start,
            # and an end after the first half would stand in the middle of the text.
            start = source.end()
            shown &= inner | (before < of_row)
        builder.rewrite(clean.ids[shown], np.bincount(rows[shown], minlength=len(clean)))
        builder.masked_positions = np.flatnonzero(masked)
        builder.targets[self.name] = answer_part(answers, asked + 1, start)

    def check(self, blueprint: Blueprint) -> None:
        """Complains about a model that cannot write.

        Raises:
            SettingError: If tokens of the model see later ones.
        """
        if blueprint.decoder is None:
            check_writes(blueprint, self.name)
        super().check(blueprint)

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """What each answer is named from, (n, W)."""
        forward = continued if model.decoder is None else decoded
        return forward(model, tensors, tensors.targets[self.name], read)
