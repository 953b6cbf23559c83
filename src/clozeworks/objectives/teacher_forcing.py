"""What an answer costs, token by token, each told all the right ones before it.

Paper: Williams & Zipser 1989 (the name); Sutskever et al. 2014.
The idea: an encoder-decoder is shown a text and the answer moved one place to the right, so all
tokens of the answer are asked for in one pass. A model without an encoder reads text and answer as
one, and is asked from the end of the text on.
Used by: every objective and task whose answers are texts.

Shapes: N tokens, n tokens of all answers, B texts, W width.
"""

from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.context import AttentionSource
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.layout import Layout
from clozeworks.core.loss import Loss
from clozeworks.core.model import Model
from clozeworks.objectives.batch import ANSWERS, BatchTensors, TargetArrays
from clozeworks.objectives.objective import Objective

DECODER = "decoder"
# The tokens that answers are named from, and how many each text has: in all, and in a row.
READ, LENGTHS, RUNS = "read", "lengths", "runs"


class TeacherForced(Objective):
    """Slot: answers are texts, each of their tokens asked for with all before it known.

    Its part holds `read`, the token just before each answer, and `lengths`, the answers of each
    text; where a text is asked in several positions, as in a chat, also `runs`, the answers of each
    place. What is read may be replaced by others, but for the first of a run; what is asked stays.
    """

    is_slot: ClassVar[bool] = True

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A vocabulary head, and a decoder where the family has one."""
        return frozenset({HEAD} | ({DECODER} & set(available)))

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """What each answer is named from, (n, W).

        Args:
            model: The model.
            tensors: The batch.
            read: The token just before each answer, (n,).
        """
        raise NotImplementedError

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One forward pass, and what it costs."""
        part = tensors.targets[self.name]
        x = self.vectors(model, tensors, part[READ])  # (n, W)
        return Loss({self.name: model.vocabulary.loss(x, part[ANSWERS])})


def answer_part(answers: Int64Array, lengths: Int64Array, start: int) -> TargetArrays:
    """What is asked, and what the decoder reads: the start, then the answer but for its last token.

    Args:
        answers: The tokens of all answers, one answer after the other, (n,).
        lengths: How many tokens each answer has, at least one, (B,).
        start: What every answer begins with; T5 takes its padding token.
    """
    read = np.empty_like(answers)
    read[1:] = answers[:-1]
    read[np.cumsum(lengths) - lengths] = start
    return {ANSWERS: answers, READ: read, LENGTHS: lengths}


def decoded(
    model: Model, tensors: BatchTensors, part: Mapping[str, Tensor], read: Tensor | None = None
) -> Tensor:
    """The decoder's vectors of all tokens of the answers, (n, W).

    Args:
        model: A model with a decoder.
        tensors: The texts.
        part: What is asked.
        read: What the decoder reads instead of the right answers, (n,).
    """
    encoded = AttentionSource(model(tensors.ids, tensors.layout, tensors.types), tensors.layout)
    read = part[READ] if read is None else read
    return model.decode(read, Layout(part[LENGTHS].tolist()), encoded)


def continued(
    model: Model, tensors: BatchTensors, part: Mapping[str, Tensor], read: Tensor | None = None
) -> Tensor:
    """The vectors that all tokens of the answers are named from, where they go on with the text.

    The first is named from the last token of the text, so a text has at least one.

    Args:
        model: A model that writes, without a decoder.
        tensors: The texts.
        part: What is asked.
        read: What is read instead of the right answers, (n,).

    Returns:
        A vector for each, (n, W).
    """
    device, lengths = tensors.ids.device, part[LENGTHS].tolist()
    answers = Layout(lengths)
    both = Layout([a + b - 1 for a, b in zip(tensors.layout.lengths, lengths, strict=True)])
    positions, before = both.positions(device), tensors.layout.sizes(device)[both.rows(device)]
    ids = torch.empty(both.total, dtype=tensors.ids.dtype, device=device)
    ids[positions < before] = tensors.ids
    read = part[READ] if read is None else read
    # What an encoder-decoder begins with is the text's last token here.
    ids[positions >= before] = read[answers.positions(device) > 0]
    hidden_states: Tensor = model(ids, both, torch.zeros_like(ids))
    return hidden_states[positions >= before - 1]
