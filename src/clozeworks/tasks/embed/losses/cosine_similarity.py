"""Cosine: the cosine of two texts is their score.

Paper: Reimers & Gurevych 2019 (the regression objective).
Data: pairs of texts with a number, or with 0 or 1. Numbers of another range than 0 to 1 are moved
into it, by the range of the training rows.
Loss: the squared difference, summed over rows.
Relations: `Cosent` asks for the order alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.errors import SettingError
from clozeworks.spec import spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, cosines, pairs, summed


@spec
class CosineSimilarity(EmbeddingLoss):
    """The cosine is the score."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019"
    takes: ClassVar[frozenset[str]] = frozenset({"scores", "judged"})

    lowest: float | None = None
    """The score of texts that have nothing in common; the lowest of the rows if not given."""
    highest: float | None = None
    """The score of texts that mean the same; the highest of the rows if not given."""

    def settled_by(self, items: Sequence[Any]) -> "CosineSimilarity":
        """With the range of the scores; that of 0 to 1 if they are within it."""
        scores = [float(item.label) for item in items]
        low, high = min(scores), max(scores)
        inside = low >= 0 and high <= 1
        lowest = self.lowest if self.lowest is not None else 0.0 if inside else low
        highest = self.highest if self.highest is not None else 1.0 if inside else high
        if highest <= lowest:
            raise SettingError("loss.highest", highest, f"the lowest score is {lowest:g}")
        if low < lowest or high > highest:
            wrong = low if low < lowest else high
            rule = f"scores are from {lowest:g} to {highest:g}, and a row has {wrong:g}"
            raise SettingError("loss.lowest", lowest, rule, "correct the row, or the range")
        return replace(self, lowest=lowest, highest=highest)

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """The squared difference of each row."""
        found, scores = cosines(*pairs(vectors, texts)), texts.scores
        if self.lowest is not None and self.highest is not None:
            scores = (scores - self.lowest) / (self.highest - self.lowest)
        return summed((found - scores.to(found.dtype)) ** 2)
