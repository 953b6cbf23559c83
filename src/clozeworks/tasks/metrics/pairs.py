"""How well similar pairs are told from others: average precision, and the best thresholds.

The idea: pairs are sorted by their score, and a threshold cuts the row in two. Pairs of equal score
are on the same side of every threshold, and "none is similar" is a threshold, too. Average
precision needs none and comes first. The best accuracy and the best F1 have their thresholds chosen
on the pairs they are measured on and are a little too good; a threshold from other pairs is not.

Shapes: n pairs, g different scores, D draws.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import BoolArray, Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import (
    Values,
    check_lengths,
    measured_from_counts,
    ratio,
)
from clozeworks.tasks.metrics.correlation import finite
from clozeworks.tasks.metrics.measured import Measured


def similar_pairs(
    gold: Sequence[int] | NDArray[np.generic],
    scores: Sequence[float] | NDArray[np.generic],
    *,
    threshold: float | None = None,
    intervals: bool = False,
) -> Measured:
    """Average precision, the best accuracy and F1, and those at a threshold from elsewhere.

    Args:
        gold: Whether the texts of each pair are similar, (n,), 0 or 1.
        scores: How similar the model says they are, (n,).
        threshold: Pairs of at least this score count as similar; chosen on other pairs.
        intervals: Whether intervals are wanted, by resampling pairs; the best thresholds are chosen
            anew in each draw.

    Raises:
        InputError: If they are not as many, there are none, a label is neither 0 nor 1, or a score
            is not a number.
    """
    check_lengths(len(gold), len(scores))
    sorted_pairs = _Sorted(_labels(gold), finite("scores", scores))
    measured = measured_from_counts(
        len(gold),
        lambda counts: sorted_pairs.values(counts, threshold),
        "average_precision",
        intervals=intervals,
        notes=sorted_pairs.notes(),
    )
    accuracy, f1 = sorted_pairs.best_thresholds()
    measured.values.update(best_accuracy_threshold=accuracy, best_f1_threshold=f1)
    if threshold is not None:
        measured.values["threshold"] = threshold
    return measured


class _Sorted:
    """Pairs by falling score, in groups of equal scores."""

    def __init__(self, gold: BoolArray, scores: Float64Array) -> None:
        self._order = np.argsort(-scores, kind="stable")
        self._scores, begins = np.unique(-scores[self._order], return_index=True)
        self._scores = -self._scores  # falling, (g,)
        self._begins = begins
        self._gold = gold[self._order]

    def values(self, counts: Float64Array, threshold: float | None) -> Values:
        """From how often each pair came, (D, n), to the values."""
        true, taken, similar, total = self._curve(counts)
        recall = ratio(true, similar[:, None])
        gained = np.diff(recall, axis=1, prepend=0.0)
        values = {
            "average_precision": (gained * ratio(true, taken)).sum(axis=1),
            "best_accuracy": self._accuracies(counts).max(axis=1),
            "best_f1": ratio(2 * true, taken + similar[:, None]).max(axis=1),
        }
        if threshold is not None:
            above = int((self._scores >= threshold).sum())
            nothing = np.zeros(len(counts))
            hits, found = (true[:, above - 1], taken[:, above - 1]) if above else (nothing, nothing)
            values["accuracy"] = (total - similar - found + 2 * hits) / total
            values["f1"] = ratio(2 * hits, found + similar)
            values["precision"] = ratio(hits, found)
            values["recall"] = ratio(hits, similar)
        return values

    def best_thresholds(self) -> tuple[float, float]:
        """Where accuracy and where F1 are best; of equally good thresholds the highest."""
        once = np.ones((1, len(self._gold)))
        true, taken, similar, _ = self._curve(once)
        f1 = ratio(2 * true, taken + similar[:, None])[0]
        best = int(f1.argmax())
        above = best + 1 if f1[best] > 0 else 0
        return self._border(int(self._accuracies(once)[0].argmax())), self._border(above)

    def notes(self) -> list[str]:
        """What cannot be told from pairs of one kind."""
        if self._gold.all():
            return ["all pairs are similar, so nothing is told apart; add pairs that are not."]
        if not self._gold.any():
            return ["no pair is similar, so average precision and F1 are 0; add pairs that are."]
        return []

    def _curve(
        self, counts: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
        """Of pairs at or above each score: similar ones and all, (D, g); and of all pairs, (D,)."""
        drawn = counts[:, self._order]
        true = np.add.reduceat(drawn * self._gold, self._begins, axis=1).cumsum(axis=1)
        taken = np.add.reduceat(drawn, self._begins, axis=1).cumsum(axis=1)
        return true, taken, true[:, -1], taken[:, -1]

    def _accuracies(self, counts: Float64Array) -> Float64Array:
        """The accuracy if none counts as similar, and then for each score, (D, g + 1)."""
        true, taken, similar, total = self._curve(counts)
        right = np.concatenate([np.zeros((len(counts), 1)), 2 * true - taken], axis=1)
        fractions: Float64Array = (right + (total - similar)[:, None]) / total[:, None]
        return fractions

    def _border(self, above: int) -> float:
        """A threshold with so many scores at or above it: in the middle between two."""
        if above == 0:
            return float(np.nextafter(self._scores[0], np.inf))
        if above == len(self._scores):
            return float(self._scores[-1])
        high, low = self._scores[above - 1], self._scores[above]
        middle = low + (high - low) / 2
        return float(middle if middle > low else high)


def _labels(gold: Sequence[int] | NDArray[np.generic]) -> BoolArray:
    labels = np.asarray(gold)
    if wrong := np.flatnonzero((labels != 0) & (labels != 1)).tolist():
        raise InputError(
            f"gold, item {wrong[0] + 1:,}, is {labels[wrong[0]]}; it must be 0 or 1; fix it, or "
            "measure numbers by their correlation."
        )
    similar: BoolArray = labels == 1
    return similar
