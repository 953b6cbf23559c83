"""How well labels are given: one for each item, or several.

The values are those of scikit-learn, with 0 and a note where it warns of a division by zero.

Shapes: n items, C labels, g pairs of a right and a given label, D draws.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.metrics.bootstrap import (
    Values,
    intervals_from_counts,
    intervals_from_sums,
    ratio,
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
    positive: str | None = None,
    unnamed: NDArray[np.bool_] | None = None,
    intervals: bool = False,
    seed: int = 0,
) -> Measured:
    """Accuracy, F1 and Matthews correlation where each item has one label.

    For two labels `f1` is that of the positive one, and `accuracy_and_f1` the mean of the two.
    Macro F1 is the mean over the labels that occur. The calibration error (15 bins of equal width)
    has no interval: resampling makes it larger, so that the interval would not hold the value.

    Args:
        gold: The number of the right label, (n,).
        predicted: The number of the given one, (n,).
        labels: The names of the labels.
        probabilities: The probabilities, (n, C), for log loss and calibration.
        positive: Which of two labels is the positive one; the last if not given.
        unnamed: Which of the given labels stand for something that is none, (n,); Matthews
            correlation counts that as one more label.
        intervals: Whether to say how sure the values are.
        seed: Decides the draws.

    Raises:
        InputError: The numbers do not fit each other or the labels.
        UnknownName: The positive label is not one of two.
    """
    due, given = check_numbers(gold, predicted, labels)
    sure = None if probabilities is None else _checked(probabilities, len(due), len(labels))
    named = given if unnamed is None else np.where(unnamed, len(labels), given)
    pairs = _Pairs(due, given, named, labels, _positive(labels, positive))
    tallies = pairs.tallies(pairs.counts)
    values = {name: float(value[0]) for name, value in pairs.values(pairs.counts).items()}
    found = (
        intervals_from_counts(len(due), pairs.values, kinds=pairs.kinds, seed=seed)
        if intervals
        else {}
    )
    if sure is not None:
        losses = _losses(due, sure)
        values["log_loss"] = float(losses.mean())
        values["calibration_error"] = calibration_error(
            calibration_bins(due == given, sure[np.arange(len(given)), given])
        )
        if intervals:
            found |= intervals_from_sums(
                losses[:, None], lambda sums: {"log_loss": sums[:, 0] / len(due)}, seed=seed
            )
    notes = label_notes(
        Tallies(tallies.right[0], tallies.given[0], tallies.due[0]), labels, absent_count=False
    )
    for name, numbers in (("right", due), ("predicted", named)):
        if (numbers == numbers[0]).all():
            notes.append(f"all {name} labels are the same, so Matthews is 0.")
    return Measured(values, "accuracy", True, len(due), found, tuple(notes))


def several_labels(
    gold: NDArray[np.generic],
    predicted: NDArray[np.generic],
    labels: Sequence[str],
    *,
    intervals: bool = False,
    seed: int = 0,
) -> Measured:
    """F1 and exact match where each item has any number of labels.

    Macro F1 is the mean over all labels.

    Args:
        gold: Whether each label holds, (n, C).
        predicted: Whether the model says so, (n, C).
        labels: The names of the labels.
        intervals: Whether to say how sure the values are.
        seed: Decides the draws.

    Raises:
        InputError: The two do not fit each other or the labels.
    """
    held, said = check_held(gold, predicted, labels)
    count, size = held.shape
    exact = (held == said).all(axis=1)
    # Single precision holds sums of ones exactly up to 16 million, and is half the memory.
    statistics = np.column_stack([held & said, said, held, exact]).astype(np.float32)
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

    return Measured(
        values={name: float(value[0]) for name, value in values(total[None]).items()},
        primary="micro_f1",
        higher_is_better=True,
        count=count,
        intervals=intervals_from_sums(statistics, values, seed=seed) if intervals else {},
        notes=tuple(label_notes(_split(total, size), labels, absent_count=True)),
    )


class _Pairs:
    """The pairs of right and given label that occur; items of the same pair are alike."""

    def __init__(
        self,
        due: NDArray[np.int64],
        given: NDArray[np.int64],
        named: NDArray[np.int64],
        labels: Sequence[str],
        positive: int | None,
    ) -> None:
        self.size = len(labels)
        self.positive = positive
        wide = self.size + 1  # what is no label is one more
        pairs, kinds, counts = np.unique(
            (due * self.size + given) * wide + named, return_inverse=True, return_counts=True
        )
        self.kinds: NDArray[np.int64] = kinds
        self.counts: Float64Array = counts[None].astype(np.float64)  # (1, g)
        pairs, self.named = pairs // wide, pairs % wide  # (g,)
        self.due, self.given = pairs // self.size, pairs % self.size  # (g,)

    def tallies(self, counts: Float64Array) -> Tallies:
        """From how often each pair came, (D, g), to what is known about each label, (D, C)."""
        return self._tallied(counts, self.given, self.size)

    def _tallied(self, counts: Float64Array, given: NDArray[np.int64], size: int) -> Tallies:
        right = counts * (self.due == given)
        parts = ((right, self.due), (counts, given), (counts, self.due))
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
        total = tallies.due.sum(axis=1)
        accuracy = tallies.right.sum(axis=1) / total
        found = {
            "accuracy": accuracy,
            "macro_f1": tallies.macro_f1(),
            "micro_f1": tallies.micro_f1(),
            "weighted_f1": (tallies.f1 * tallies.due).sum(axis=1) / total,
            "matthews": _matthews(self._tallied(counts, self.named, self.size + 1)),
        }
        if self.positive is not None:
            found["f1"] = tallies.f1[:, self.positive]
            found["accuracy_and_f1"] = (accuracy + found["f1"]) / 2
        return found


def _matthews(tallies: Tallies) -> Float64Array:
    """The correlation of right and given labels, 0 where one of the two is constant."""
    total = tallies.due.sum(axis=1)
    shared = tallies.right.sum(axis=1) * total - (tallies.due * tallies.given).sum(axis=1)
    spread = [total**2 - (part**2).sum(axis=1) for part in (tallies.due, tallies.given)]
    return ratio(shared, np.sqrt(spread[0]) * np.sqrt(spread[1]))


def _split(sums: Float64Array, size: int) -> Tallies:
    parts = (sums[..., begin : begin + size] for begin in range(0, 3 * size, size))
    return Tallies(*parts)


def _positive(labels: Sequence[str], positive: str | None) -> int | None:
    if positive is None:
        return 1 if len(labels) == 2 else None
    if len(labels) != 2:
        raise InputError(
            f"positive is {positive!r} and there are {len(labels):,} labels; only one of two can "
            "be the positive one; leave it out, and see macro_f1."
        )
    if positive not in labels:
        raise UnknownName("positive", positive, labels)
    return list(labels).index(positive)


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


def _losses(due: NDArray[np.int64], sure: Float64Array) -> Float64Array:
    """What the right labels cost; no more than a probability of the smallest step from 0 to 1."""
    least = np.finfo(np.float64).eps
    right = sure[np.arange(len(due)), due]
    losses: Float64Array = -np.log(np.clip(right, least, 1 - least))
    return losses
