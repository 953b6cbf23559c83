"""Span corruption: mask spans, show a sentinel for each, predict all of them with a decoder.

Paper: Raffel et al. 2020 (T5); Xue et al. 2021 (mT5); Xue et al. 2022 (ByT5).
Data: any text, usually `blocks` across documents. For inputs of 512 tokens a block has 568 tokens
of text and the end token: `length = 569`.
Masks and predicts: `hide` chooses tokens (15 % in spans of 3). In the input a sentinel stands for
each masked run, `<extra_id_0>` for the first; the target has the masked runs, a sentinel for each
kept run between them, and the end token. What the template added is never masked.
Loss: -log p(token) at every token of the target, sentinels and the end among them, summed.
Relations: `MaskedLM` predicts single tokens with an encoder, each as if it were alone; here a
decoder writes them, and its inputs are shorter than the text. `Denoisers` mixes several of these.
`PrefixLM` masks the end of a text, and no sentinel stands for it.
Where paper and code differ: the paper's figure closes its answer with a sentinel; see
`noise/sentinels.py`. The code cuts documents to 65,536 tokens and joins 128 at random before it
cuts blocks; here blocks follow the corpus, whose documents stand in random order if it was built
so.
Example: `SpanCorruption(examples=Blocks(length=569))`, or in a recipe
`{kind = "span_corruption", hide = {kind = "alternating_spans", fraction = 0.15, mean = 3.0}}`.

Shapes: n tokens of all targets, W width.
"""

from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.model import Model
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.alternating_spans import AlternatingSpans
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.sentinels import Corrupted, corrupt
from clozeworks.objectives.objective import StatesExamples
from clozeworks.objectives.teacher_forcing import TeacherForced, answer_part, decoded
from clozeworks.rng import RandomStream
from clozeworks.spec import spec

Sentinels = Literal["named", "bytes"]
# ByT5's ids are those of bytes, 3 higher; its sentinels are the last hundred of them.
LAST_BYTE, OF_BYTES = 258, 100
# How many spans too many an example has, for those who look before a run.
MERGED = "merged"


class CorruptedSpans(TeacherForced):
    """Slot: an encoder reads texts with masked spans, and a decoder predicts what stood there."""

    is_slot: ClassVar[bool] = True
    # The texts are rewritten, and the decoder predicts.
    owns_forward: ClassVar[bool] = True

    @property
    def sentinels(self) -> Sentinels:
        """What stands for a masked span."""
        return "named"

    @property
    def notes(self) -> dict[str, str]:
        """What stood for a masked span."""
        return {"sentinels": self.sentinels}

    def rewrite(
        self, builder: BatchBuilder, masked: Int64Array, texts: Corrupted, source: Vocabularies
    ) -> None:
        """Replaces the texts of a batch by corrupted ones, and states the targets."""
        builder.rewrite(texts.inputs, texts.input_lengths)
        builder.masked_positions = masked
        builder.targets[self.name] = {
            **answer_part(texts.targets, texts.target_lengths, source.start()),
            MERGED: texts.merged,
        }

    def check(self, blueprint: Blueprint) -> None:
        """Complains about a model without a decoder."""
        if blueprint.decoder is None:
            raise SettingError(
                "objective.kind",
                self.name,
                "it shows a text to an encoder and lets a decoder predict what is masked, and the "
                "model has no decoder",
                "choose a family that has both, such as t5",
            )
        super().check(blueprint)

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """The decoder's hidden states, (n, W)."""
        return decoded(model, tensors, tensors.targets[self.name], read)


@spec
class SpanCorruption(StatesExamples, CorruptedSpans):
    """Masks spans and predicts them with a decoder."""

    paper: ClassVar[str] = "Raffel et al. 2020"

    hide: ChoiceSpec = AlternatingSpans()
    """Which tokens, and how many."""
    sentinels: Sentinels = "named"
    """What stands for a span: the tokens `<extra_id_0>` and so on, or, as in ByT5, the ids 258,
    257 and so on, which are bytes that hardly occur."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Rewrites the texts; `answers` are the tokens of the targets."""
        clean = builder.clean
        positions = self.hide.positions(clean, Draws.of(clean, rng.stream(self.name)))
        sentinels = sentinel_ids(self.sentinels, source)
        texts = corrupt(clean, positions, sentinels, source.end())
        self.rewrite(builder, positions, texts, source)


def sentinel_ids(kind: Sentinels, source: Vocabularies) -> Int64Array:
    """The ids of the sentinels, the first to be used first.

    Raises:
        SettingError: If the ids of the tokenizer are not those of bytes.
    """
    if kind == "named":
        return source.sentinels
    if source.vocabulary <= LAST_BYTE:
        raise SettingError(
            "sentinels",
            kind,
            f"the first sentinel is {LAST_BYTE}, and the tokenizer has {source.vocabulary} tokens",
            "use a tokenizer of bytes, or set `sentinels` to 'named'",
        )
    return np.arange(LAST_BYTE, LAST_BYTE - OF_BYTES, -1)
