"""How well labels are predicted: one for each item, or several.

The values are those of scikit-learn, with 0 and a note where it warns of a division by zero.

Shapes: n items, C labels, g pairs of a right and a predicted label, D draws.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import (
    Values,
    intervals_of,
    measured_from_sums,
    ratio,
    resamples_from_counts,
    resamples_from_sums,
)
from clozeworks.tasks.metrics.calibration import calibration_bins, calibration_error
from clozeworks.tasks.metrics.labels import Tallies, check_held, check_numbers, label_notes
from clozeworks.tasks.metrics.measured import Measured

_TOLERANCE = 1e-3  # how far probabilities of single precision may be from adding up to 1


def one_label(
    gold: Sequence[int] | NDArray[np.generic],
    predicted: Sequence[int] | NDArray[np.generic],
    labels: Sequence[str],
    *,
    probabilities: NDArray[np.floating] | None = None,
    unnamed: NDArray[np.bool_] | None = None,
    intervals: bool = False,
) -> Measured:
    """Accuracy, F1 and Matthews correlation where each item has one label.

    For two labels `f1` is that of the second one, and `accuracy_and_f1` the mean of the two.
    Macro F1 is the mean over the labels that occur. The calibration error (15 bins of equal width)
    has no interval: resampling makes it larger, so that the interval would not hold the value.

    Args:
        gold: The number of the right label, (n,).
        predicted: The number of the predicted one, (n,).
        labels: The names of the labels.
        probabilities: The probabilities, (n, C), for log loss and calibration.
        unnamed: Which predicted numbers stand for something that is not a label, (n,); Matthews
            correlation counts that as one more label.
        intervals: Whether intervals are wanted.

    Raises:
        InputError: If the numbers do not fit each other or the labels.
    """
    right, predictions = check_numbers(gold, predicted, labels)
    named = predictions if unnamed is None else np.where(unnamed, len(labels), predictions)
    pairs = _Pairs(right, predictions, named, len(labels))
    values = {name: float(value[0]) for name, value in pairs.values(pairs.counts).items()}
    drawn = resamples_from_counts(len(right), pairs.values, kinds=pairs.kinds) if intervals else {}
    if probabilities is not None:
        sure = _checked(probabilities, len(right), len(labels))
        losses = _losses(right, sure)
        values["log_loss"] = float(losses.mean())
        values["calibration_error"] = calibration_error(
            calibration_bins(right == predictions, sure[np.arange(len(predictions)), predictions])
        )
        if intervals:
            drawn |= resamples_from_sums(
                losses[:, None], lambda sums: {"log_loss": sums[:, 0] / len(right)}
            )
    tallies = pairs.tallies(pairs.counts)
    once = Tallies(tallies.correct[0], tallies.predicted[0], tallies.gold[0])
    notes = label_notes(once, labels, absent_count=False)
    for name, numbers in (("right", right), ("predicted", named)):
        if (numbers == numbers[0]).all():
            notes.append(f"all {name} labels are the same, so Matthews is 0.")
    ends = intervals_of(drawn)
    return Measured(values, "accuracy", True, len(right), ends, tuple(notes), drawn)


def several_labels(
    gold: NDArray[np.generic],
    predicted: NDArray[np.generic],
    labels: Sequence[str],
    *,
    intervals: bool = False,
) -> Measured:
    """F1 and exact match where each item has any number of labels.

    Macro F1 is the mean over all labels.

    Args:
        gold: Whether each label holds, (n, C).
        predicted: Whether the model predicts it, (n, C).
        labels: The names of the labels.
        intervals: Whether intervals are wanted.

    Raises:
        InputError: If the two do not fit each other or the labels.
    """
    right, predictions = check_held(gold, predicted, labels)
    count, size = right.shape
    exact = (right == predictions).all(axis=1)
    # Single precision holds sums of ones exactly up to 16 million, and is half the memory.
    statistics = np.column_stack([right & predictions, predictions, right, exact]).astype(
        np.float32
    )
    total = statistics.sum(axis=0, dtype=np.float64)
    absent = size - int(_split(total, size).occurs.sum())

    def values(sums: Float64Array) -> Values:
        tallies = _split(sums, size)
        return {
            "micro_f1": tallies.micro_f1(),
            # A rare label that is missing from a draw only does not count there.
            "macro_f1": tallies.macro_f1(absent),
            "exact_match": sums[:, -1] / count,
        }

    notes = label_notes(_split(total, size), labels, absent_count=True)
    return measured_from_sums(statistics, values, "micro_f1", intervals=intervals, notes=notes)


class _Pairs:
    """The pairs of right and predicted label that occur; items of the same pair are alike."""

    def __init__(
        self,
        gold: NDArray[np.int64],
        predicted: NDArray[np.int64],
        named: NDArray[np.int64],
        size: int,
    ) -> None:
        self.size = size
        wide = size + 1  # what is not a label is one more
        pairs, kinds, counts = np.unique(
            (gold * size + predicted) * wide + named, return_inverse=True, return_counts=True
        )
        self.kinds: NDArray[np.int64] = kinds
        self.counts: Float64Array = counts[None].astype(np.float64)  # (1, g)
        pairs, self.named = pairs // wide, pairs % wide  # (g,)
        self.gold, self.predicted = pairs // size, pairs % size  # (g,)

    def tallies(self, counts: Float64Array) -> Tallies:
        """From how often each pair came, (D, g), to what is known about each label, (D, C)."""
        return self._tallied(counts, self.predicted, self.size)

    def _tallied(self, counts: Float64Array, predicted: NDArray[np.int64], size: int) -> Tallies:
        correct = counts * (self.gold == predicted)
        parts = ((correct, self.gold), (counts, predicted), (counts, self.gold))
        return Tallies(*(self._by_label(part, labels, size) for part, labels in parts))

    def _by_label(self, counts: Float64Array, labels: NDArray[np.int64], size: int) -> Float64Array:
        order = np.argsort(labels, kind="stable")
        present, begins = np.unique(labels[order], return_index=True)
        sums = np.zeros((len(counts), size))
        sums[:, present] = np.add.reduceat(counts[:, order], begins, axis=1)
        return sums

    def values(self, counts: Float64Array) -> Values:
        """From how often each pair came, (D, g), to the values."""
        tallies = self.tallies(counts)
        total = tallies.gold.sum(axis=1)
        accuracy = tallies.correct.sum(axis=1) / total
        values = {
            "accuracy": accuracy,
            "macro_f1": tallies.macro_f1(),
            "micro_f1": tallies.micro_f1(),
            "weighted_f1": (tallies.f1 * tallies.gold).sum(axis=1) / total,
            "matthews": _matthews(self._tallied(counts, self.named, self.size + 1)),
        }
        if self.size == 2:
            values["f1"] = tallies.f1[:, 1]
            values["accuracy_and_f1"] = (accuracy + values["f1"]) / 2
        return values


def _matthews(tallies: Tallies) -> Float64Array:
    """The correlation of right and predicted labels, 0 where one of the two is constant."""
    gold, predicted = tallies.gold, tallies.predicted
    total = gold.sum(axis=1)
    shared = tallies.correct.sum(axis=1) * total - (gold * predicted).sum(axis=1)
    spread = [total**2 - (part**2).sum(axis=1) for part in (gold, predicted)]
    return ratio(shared, np.sqrt(spread[0]) * np.sqrt(spread[1]))


def _split(sums: Float64Array, size: int) -> Tallies:
    parts = (sums[..., begin : begin + size] for begin in range(0, 3 * size, size))
    return Tallies(*parts)


def _checked(probabilities: NDArray[np.floating], count: int, size: int) -> Float64Array:
    if np.shape(probabilities) != (count, size):
        raise InputError(
            f"probabilities has the shape {np.shape(probabilities)}; for {count:,} items and "
            f"{size:,} labels it must be {(count, size)}; give the probability of each label."
        )
    sure = np.asarray(probabilities, dtype=np.float64)
    total = sure.sum(axis=1)
    fine = (sure >= 0).all(axis=1) & (np.abs(total - 1) <= _TOLERANCE)
    if not fine.all():
        index = int(fine.argmin())
        raise InputError(
            f"probabilities, item {index + 1:,}, are {sure[index].tolist()}; none may be below 0, "
            "and they must add up to 1; give probabilities, not scores."
        )
    return sure


def _losses(gold: NDArray[np.int64], sure: Float64Array) -> Float64Array:
    """What the right labels cost; no more than a probability of the smallest step from 0 to 1."""
    epsilon = np.finfo(np.float64).eps
    losses: Float64Array = -np.log(np.clip(sure[np.arange(len(gold)), gold], epsilon, 1 - epsilon))
    return losses
