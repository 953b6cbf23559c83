"""A loss is a sum and a count; the mean is taken once, where the step is made.

`Loss.value(counts)` divides each term's sum by the number of its targets in the whole step. Given
the counts of all micro-batches of all ranks, the values of the micro-batches add up to the value of
one big batch, and so do their gradients.

Shapes: n targets, C classes, E width of the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clozeworks.core.ops.linear_cross_entropy import count_correct, linear_cross_entropy


@dataclass(frozen=True)
class LossTerm:
    """One term of a loss."""

    total: Tensor
    """The sum over its targets, a number with a gradient."""
    count: int
    """How many targets there are."""
    correct: Tensor | None = None
    """How many of them were predicted correctly; None if no target can be."""
    weight: float = 1.0
    """How much the term counts."""

    @classmethod
    def of(cls, logits: Tensor, targets: Tensor) -> "LossTerm":
        """The cross-entropy of logits (n, C) with the right classes (n,)."""
        # Trap: half precision has three digits; a sum over thousands of targets needs more.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total = F.cross_entropy(logits, targets, reduction="sum")
        return cls(total, len(targets), count_correct(logits, targets))

    @classmethod
    def of_linear(cls, x: Tensor, decoder: nn.Linear, targets: Tensor) -> "LossTerm":
        """The same for the projection of vectors (n, E) to a vocabulary; logits are not kept."""
        total, correct = linear_cross_entropy(x, decoder.weight, decoder.bias, targets)
        return cls(total, len(targets), correct)


LossTerms = dict[str, LossTerm]


@dataclass(frozen=True)
class Loss:
    """The loss of a batch, term by term."""

    terms: Mapping[str, LossTerm]

    def value(self, counts: Mapping[str, float] | None = None) -> Tensor:
        """The number to take the gradient of: the weighted means of the terms, added up.

        A term without targets adds exactly 0, and zero gradients.

        Args:
            counts: Targets of each term in the whole step, over all micro-batches and ranks; those
                of this batch if not given.
        """
        values = []
        for name, term in self.terms.items():
            count = term.count if counts is None else counts[name]
            values.append(term.total * (term.weight / count if count else 0.0))
        return torch.stack(values).sum()

    def means(self) -> dict[str, float]:
        """The mean loss of each term that has targets; waits for the device."""
        return {n: term.total.item() / term.count for n, term in self.terms.items() if term.count}

    def accuracies(self) -> dict[str, float]:
        """The fraction of targets predicted correctly, for each term that has any that can be."""
        return {
            name: term.correct.item() / term.count
            for name, term in self.terms.items()
            if term.count and term.correct is not None
        }
