"""What a wrong label costs: some labels more than others, and never a wish for certainty.

Papers: Szegedy et al. 2016 (label smoothing); King & Zeng 2001 (weights for rare events).
The idea: smoothing asks for the right label with 1 - s and for all labels alike with the rest, so
that scores need not grow without end. Weights let rare labels count more.
Where it differs from torch: `cross_entropy(weight=..., reduction="mean")` divides by the sum of the
weights in the batch, so that what an item costs depends on its neighbours. Here a loss is a sum and
a count of items. Balanced weights have a mean of 1 over the training items, so that over an epoch
the two are the same; the numbers of a table are taken as they are.

Shapes: n questions, K labels.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.core.ops.linear_cross_entropy import count_correct
from clozeworks.errors import SettingError, UnknownName
from clozeworks.spec import spec

WHERE = "task.label_loss"
NONE, BALANCED = "none", "balanced"


@spec
class LabelLoss:
    """How much each label counts, and how sure a model should be of it."""

    smoothing: float = 0.0
    """The share that is spread evenly over all labels instead of asked of the right one."""
    weights: Any = NONE
    """none; balanced, by how rare labels are in the training items; or a number for each label,
    such as {spam = 3.0}: those not named count 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise SettingError(
                f"{WHERE}.smoothing is {self.smoothing}; it must be at least 0 and below 1."
            )
        if self.weights in (NONE, BALANCED):
            return
        if not isinstance(self.weights, dict):
            raise SettingError(
                f"{WHERE}.weights is {self.weights!r}; it must be 'none', 'balanced' or a table "
                "with a number for each label."
            )
        for label, weight in self.weights.items():
            if type(weight) not in (int, float) or not math.isfinite(weight) or weight <= 0:
                raise SettingError(
                    f"{WHERE}.weights.{label} is {weight!r}; it must be a number above 0."
                )

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but -log softmax."""
        return not self.smoothing and self.weights == NONE

    def refuse_unless_plain(self, reason: str) -> None:
        """Complains if it is set where it would have no effect.

        Args:
            reason: Why it would have none.

        Raises:
            SettingError: It is set.
        """
        if not self.is_plain:
            raise SettingError(f"{WHERE} is set and {reason}; it has no effect then; leave it out.")

    def settled(self, labels: Sequence[str], given: Iterable[str]) -> "LabelLoss":
        """The same with every weight a number.

        Args:
            labels: All labels.
            given: The label of each training item.

        Raises:
            UnknownName: A weight is that of a label nobody knows.
        """
        if self.weights == NONE:
            return self
        if self.weights != BALANCED:
            numbers = self.numbers(labels)
            return replace(self, weights=dict(zip(labels, numbers, strict=True)))
        counts = Counter(given)
        # A label that never occurs is never asked; it must not make the others count less.
        share = counts.total() / max(len(counts), 1)
        found = {label: share / counts[label] if counts[label] else 1.0 for label in labels}
        return replace(self, weights=found)

    def numbers(self, labels: Sequence[str]) -> list[float]:
        """The weight of each label.

        Raises:
            UnknownName: A weight is that of a label nobody knows.
            SettingError: The weights are still to be found.
        """
        if self.weights == BALANCED:
            raise SettingError(
                f"{WHERE}.weights is 'balanced'; a cost needs numbers; settle it with the training "
                "items first: task.settled(items)."
            )
        table = {} if self.weights == NONE else self.weights
        for label in table:
            if label not in labels:
                raise UnknownName(f"A label of {WHERE}.weights", label, labels)
        return [float(table.get(label, 1.0)) for label in labels]

    def cost(self, scores: Tensor, answers: Tensor, labels: Sequence[str]) -> LossTerm:
        """What naming the right labels costs.

        Args:
            scores: A score for every label, (n, K).
            answers: The right ones, (n,).
            labels: Their names.
        """
        if self.is_plain:
            return LossTerm.of(scores, answers)
        # Trap: half precision has three digits; a sum over thousands of questions needs more.
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        total = F.cross_entropy(
            scores,
            answers,
            weight=scores.new_tensor(self.numbers(labels)),
            label_smoothing=self.smoothing,
            reduction="sum",
        )
        return LossTerm(total, len(answers), count_correct(scores, answers))
