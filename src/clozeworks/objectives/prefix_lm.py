"""Prefix language modelling: show the beginning of a text, predict the rest.

Paper: Liu et al. 2018; Raffel et al. 2020 (T5 compares it).
Data: any text of two tokens or more.
Masks and predicts: a text is cut in two, every cut equally likely, at least one token on each side.
The first half is shown; the second is predicted, and the end token after it.
Loss: -log p(token) at every token of the second half and at the end, summed.
Relations: an encoder-decoder reads the first half with its encoder and writes the second. A model
without an encoder reads both as one text, and its attention stays causal: also in the first half no
token sees a later one, unlike the network of the paper with that name. `CausalLM` predicts the
first half, too. `SpanCorruption` has shorter targets, with text on both sides of each mask.
Where paper and code differ: T5's code draws the cut for windows of one length; here each text has
its own.
Example: `PrefixLM()`, or in a recipe
`{kind = "prefix_lm", examples = {kind = "blocks", length = 513}}`.

Shapes: n tokens of all targets, B examples, W width.
"""

from typing import ClassVar

import numpy as np
from torch import Tensor

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.model import Model
from clozeworks.objectives.batch import BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.causal_lm import check_writes
from clozeworks.objectives.noise.sentinels import between_texts
from clozeworks.objectives.noise.words import pieces_of_examples
from clozeworks.objectives.objective import StatesExamples
from clozeworks.objectives.teacher_forcing import TeacherForced, answer_part, continued, decoded
from clozeworks.rng import RandomStream, below
from clozeworks.spec import spec


@spec
class PrefixLM(StatesExamples, TeacherForced):
    """Shows the beginning of a text and predicts the rest."""

    paper: ClassVar[str] = "Liu et al. 2018"
    # The texts are cut, and their second half is read by the decoder.
    owns_forward: ClassVar[bool] = True

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Shows the first half; `answers` are the second."""
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
        sizes = np.bincount(rows[masked], minlength=len(clean))
        answers = np.insert(clean.ids[masked], np.cumsum(sizes), source.end())
        shown, start = ~masked, source.start_id
        if start is None:
            # A tokenizer without padding belongs to models without an encoder: they read no start,
            # and an end after the first half would stand in the middle of the text.
            start = source.end()
            shown &= inner | (before < of_row)
        builder.rewrite(clean.ids[shown], np.bincount(rows[shown], minlength=len(clean)))
        builder.masked_positions = np.flatnonzero(masked)
        builder.targets[self.name] = answer_part(answers, sizes + 1, start)

    def check(self, blueprint: Blueprint) -> None:
        """Complains about a model that cannot generate."""
        if blueprint.decoder is None:
            check_writes(blueprint, self.name)
        super().check(blueprint)

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """The hidden states targets are predicted from, (n, W)."""
        forward = continued if model.decoder is None else decoded
        return forward(model, tensors, tensors.targets[self.name], read)
