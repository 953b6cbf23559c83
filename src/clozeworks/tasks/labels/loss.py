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
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.core.ops.linear_cross_entropy import count_correct
from clozeworks.errors import SET, SettingError, UnknownName
from clozeworks.spec import AtLeast, Below, spec

WHERE = "task.label_loss"
NONE, BALANCED = "none", "balanced"


@spec
class LabelLoss:
    """How much each label counts, and how sure a model should be of it."""

    smoothing: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """The fraction that is spread evenly over all labels instead of asked of the right one."""
    weights: Any = NONE
    """none; balanced, by how rare labels are in the training items; or a number for each label,
    such as {spam = 3.0}: those not named count 1."""

    def __post_init__(self) -> None:
        if self.weights in (NONE, BALANCED):
            return
        if not isinstance(self.weights, dict):
            rule = "it must be 'none', 'balanced' or a table with a number for each label"
            raise SettingError("weights", self.weights, rule)
        for label, weight in self.weights.items():
            if type(weight) not in (int, float) or not math.isfinite(weight) or weight <= 0:
                raise SettingError(f"weights.{label}", weight, "it must be a number above 0")

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but -log softmax."""
        return not self.smoothing and self.weights == NONE

    def refuse_unless_plain(self, reason: str) -> None:
        """Complains if it is set where, for a stated reason, it would have no effect.

        Raises:
            SettingError: If it is set.
        """
        if not self.is_plain:
            raise SettingError(
                "label_loss", SET, f"{reason}; it has no effect then", "leave it out"
            )

    def settled(self, labels: Sequence[str], gold: Iterable[str]) -> "LabelLoss":
        """The same with every weight a number, by the labels of the training items.

        Raises:
            UnknownName: If a weight is for an unknown label.
        """
        if self.weights == NONE:
            return self
        if self.weights != BALANCED:
            return replace(self, weights=dict(zip(labels, self.numbers(labels), strict=True)))
        counts = Counter(gold)
        # A label that never occurs is never a target; it must not make the others count less.
        mean = counts.total() / max(len(counts), 1)
        weights = {label: mean / counts[label] if counts[label] else 1.0 for label in labels}
        return replace(self, weights=weights)

    def numbers(self, labels: Sequence[str]) -> list[float]:
        """The weight of each label.

        Raises:
            UnknownName: If a weight is for an unknown label.
            SettingError: If the weights are not settled yet.
        """
        if self.weights == BALANCED:
            advice = "settle it with the training items first: task.settled(items)"
            raise SettingError(f"{WHERE}.weights", BALANCED, "a loss needs numbers", advice)
        table = {} if self.weights == NONE else self.weights
        for label in table:
            if label not in labels:
                raise UnknownName(f"A label of {WHERE}.weights", label, labels)
        return [float(table.get(label, 1.0)) for label in labels]

    def cost(self, logits: Tensor, answers: Tensor, labels: Sequence[str]) -> LossTerm:
        """What predicting the right labels costs, from logits (n, K) and their numbers (n,)."""
        if self.is_plain:
            return LossTerm.of(logits, answers)
        # Trap: half precision has three digits; a sum over thousands of questions needs more.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total = F.cross_entropy(
            logits,
            answers,
            weight=logits.new_tensor(self.numbers(labels)),
            label_smoothing=self.smoothing,
            reduction="sum",
        )
        return LossTerm(total, len(answers), count_correct(logits, answers))
