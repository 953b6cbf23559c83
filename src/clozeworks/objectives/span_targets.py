"""What span corruption and its relatives share: a text with gaps is shown, a decoder fills them.

Used by: `SpanCorruption`, `Denoisers`.

Shapes: n tokens of all answers, B examples, W width.
"""

from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.model import Model
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise.sentinels import Corrupted
from clozeworks.objectives.teacher_forcing import TeacherForced, answer_part, decoded

Sentinels = Literal["named", "bytes"]
# ByT5's ids are those of bytes, 3 higher; its sentinels are the last hundred of them.
LAST_BYTE, OF_BYTES = 258, 100
# How many spans too many an example has, for those who look before a run.
MERGED = "merged"


class CorruptedSpans(TeacherForced):
    """Slot: an encoder reads texts with gaps, and a decoder is asked for what stood there."""

    is_slot: ClassVar[bool] = True

    @property
    def sentinels(self) -> Sentinels:
        """What stands for a gap."""
        return "named"

    @property
    def owns_forward(self) -> bool:
        """The texts are rewritten, and the decoder is asked."""
        return True

    @property
    def notes(self) -> dict[str, str]:
        """What stood for a gap."""
        return {"sentinels": self.sentinels}

    def ask(
        self, builder: BatchBuilder, masked: Int64Array, found: Corrupted, source: Vocabularies
    ) -> None:
        """Rewrites the texts; asks for `answers`.

        Args:
            builder: The batch in the making.
            masked: The hidden tokens in ascending order.
            found: What is shown for the texts, and what is asked.
            source: What may be looked up.
        """
        builder.rewrite(found.inputs, found.input_lengths)
        builder.masked_positions = masked
        builder.targets[self.name] = {
            **answer_part(found.targets, found.target_lengths, source.start()),
            MERGED: found.merged,
        }

    def check(self, blueprint: Blueprint) -> None:
        """Complains about a model without a decoder.

        Raises:
            SettingError: If the model has no decoder.
        """
        if blueprint.decoder is None:
            raise SettingError(
                "objective.kind",
                self.name,
                "it shows a text to an encoder and asks a decoder for the answer, and the model "
                "has no decoder",
                "choose a family that has both, such as t5",
            )
        super().check(blueprint)

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """What each answer is named from, (n, W)."""
        return decoded(model, tensors, tensors.targets[self.name], read)


def sentinel_ids(kind: Sentinels, source: Vocabularies) -> Int64Array:
    """The ids of the sentinels, the first to be used first.

    Raises:
        TokenizerError: If the tokenizer has no sentinels.
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
