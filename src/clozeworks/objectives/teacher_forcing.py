"""Teacher forcing: each token of a target text is predicted with the right ones before it known.

Paper: Williams & Zipser 1989 (the name); Sutskever et al. 2014.
The idea: an encoder-decoder is shown a text and the target moved one position to the right, so all
tokens of the target are predicted in one pass. A model without an encoder reads text and target as
one, and predicts from the end of the text on.
Used by: every objective and task whose targets are texts.

Shapes: N tokens, n tokens of all targets, B texts, W width.
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
# The tokens that targets are predicted from, and how many each text has: in all, and in a row.
READ, LENGTHS, RUNS = "read", "lengths", "runs"


class TeacherForced(Objective):
    """Slot: targets are texts, each of their tokens predicted with all before it known.

    Its targets hold `read`, the token just before each of them, and `lengths`, how many each text
    has; where a text has several runs of targets, as in a chat, also `runs`, how many each run has.
    What is read may be replaced by others, but for the first of a run; the targets stay.
    """

    is_slot: ClassVar[bool] = True

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A vocabulary head, and a decoder where the family has one."""
        return frozenset({HEAD} | ({DECODER} & set(available)))

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """The hidden states targets are predicted from, (n, W), given the tokens before them."""
        raise NotImplementedError

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One forward pass, and its loss."""
        targets = tensors.targets[self.name]
        x = self.vectors(model, tensors, targets[READ])  # (n, W)
        return Loss({self.name: model.vocabulary.loss(x, targets[ANSWERS])})


def answer_part(answers: Int64Array, lengths: Int64Array, start: int) -> TargetArrays:
    """The targets, and what the decoder reads: the start, then the target but for its last token.

    Args:
        answers: The tokens of all targets, one target after the other, (n,).
        lengths: How many tokens each target has, at least one, (B,).
        start: What every target begins with; T5 takes its padding token.
    """
    read = np.empty_like(answers)
    read[1:] = answers[:-1]
    read[np.cumsum(lengths) - lengths] = start
    return {ANSWERS: answers, READ: read, LENGTHS: lengths}


def decoded(
    model: Model, tensors: BatchTensors, part: Mapping[str, Tensor], read: Tensor
) -> Tensor:
    """The decoder's hidden states at all tokens of the targets, (n, W), where it reads `read`."""
    encoded = AttentionSource(model(tensors.ids, tensors.layout, tensors.types), tensors.layout)
    return model.decode(read, Layout(part[LENGTHS].tolist()), encoded)


def continued(
    model: Model, tensors: BatchTensors, part: Mapping[str, Tensor], read: Tensor
) -> Tensor:
    """The same of a model without a decoder, where targets continue the text, (n, W).

    The first is predicted from the last token of the text, so a text has at least one.
    """
    device, lengths = tensors.ids.device, part[LENGTHS].tolist()
    answers = Layout(lengths)
    both = Layout([a + b - 1 for a, b in zip(tensors.layout.lengths, lengths, strict=True)])
    positions, before = both.positions(device), tensors.layout.sizes(device)[both.rows(device)]
    ids = torch.empty(both.total, dtype=tensors.ids.dtype, device=device)
    ids[positions < before] = tensors.ids
    # What an encoder-decoder begins with is the text's last token here.
    ids[positions >= before] = read[answers.positions(device) > 0]
    hidden_states: Tensor = model(ids, both, torch.zeros_like(ids))
    return hidden_states[positions >= before - 1]
