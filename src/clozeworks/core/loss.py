"""A loss is a sum and a count; the mean is taken once, where the step is made.

`Loss.value(counts)` divides each part's sum by the number of its questions in the whole step. Given
the counts of all micro-batches of all ranks, the values of the micro-batches add up to the value of
one big batch, and so do their gradients.

Shapes: n questions, C possible answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clozeworks.core.ops.linear_cross_entropy import count_correct, linear_cross_entropy


@dataclass(frozen=True)
class LossTerm:
    """What one part of an objective costs.

    Attributes:
        total: The sum over its questions, a number with a gradient.
        count: How many questions there are.
        correct: How many of them were answered right.
        weight: How much the part counts.
    """

    total: Tensor
    count: int
    correct: Tensor
    weight: float = 1.0

    @classmethod
    def of(cls, logits: Tensor, targets: Tensor) -> "LossTerm":
        """Cross-entropy: -log softmax(logits)[target].

        Args:
            logits: A logit for every possible answer, (n, C).
            targets: The right ones, (n,).
        """
        # Trap: half precision has three digits; a sum over thousands of questions needs more.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total = F.cross_entropy(logits, targets, reduction="sum")
        return cls(total, len(targets), count_correct(logits, targets))

    @classmethod
    def of_linear(cls, x: Tensor, decoder: nn.Linear, targets: Tensor) -> "LossTerm":
        """Cross-entropy of a projection to a vocabulary: the same, without keeping the logits.

        Args:
            x: What the decoder reads, (n, E).
            decoder: Makes a logit for every entry.
            targets: The right entries, (n,).
        """
        total, correct = linear_cross_entropy(x, decoder.weight, decoder.bias, targets)
        return cls(total, len(targets), correct)


@dataclass(frozen=True)
class Loss:
    """What a batch costs, part by part."""

    terms: Mapping[str, LossTerm]

    def value(self, counts: Mapping[str, float] | None = None) -> Tensor:
        """The number to take the gradient of: the weighted means of the parts, added up.

        Args:
            counts: Questions of each part in the whole step, over all micro-batches and ranks;
                those of this batch if not given.

        Returns:
            The value. A part without questions adds exactly 0, and zero gradients.
        """
        values = []
        for name, cost in self.terms.items():
            count = cost.count if counts is None else counts[name]
            values.append(cost.total * (cost.weight / count if count else 0.0))
        return torch.stack(values).sum()

    def means(self) -> dict[str, float]:
        """The mean cost of a question, for each part that has any; waits for the device."""
        asked = {name: cost for name, cost in self.terms.items() if cost.count}
        return {name: cost.total.item() / cost.count for name, cost in asked.items()}

    def accuracies(self) -> dict[str, float]:
        """The share of questions answered right, for each part that has any."""
        asked = {name: cost for name, cost in self.terms.items() if cost.count}
        return {name: cost.correct.item() / cost.count for name, cost in asked.items()}
