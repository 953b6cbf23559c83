"""How often each label is predicted, right, and both, and what follows from that.

Shapes: n items, C labels, D draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.labels.names import shown
from clozeworks.tasks.metrics.bootstrap import check_lengths, ratio

_NAMED = 5  # labels a note names before it only counts them


@dataclass(frozen=True)
class LabelScores:
    """How well one label is known."""

    label: str
    precision: float
    """The fraction of its predictions that are correct; 0 if there are none."""
    recall: float
    """The fraction of its gold occurrences that were predicted; 0 if there are none."""
    f1: float
    """The harmonic mean of the two."""
    support: int
    """How often it occurs in the gold labels."""


@dataclass(frozen=True)
class Tallies:
    """How often each label occurs; (C,), or (D, C) for several draws at once."""

    correct: Float64Array
    """How often it was predicted and is right."""
    predicted: Float64Array
    """How often it was predicted."""
    gold: Float64Array
    """How often it is right."""

    @property
    def f1(self) -> Float64Array:
        """The harmonic mean of precision and recall."""
        return ratio(2 * self.correct, self.predicted + self.gold)

    @property
    def occurs(self) -> NDArray[np.bool_]:
        """Whether the label was predicted or is right at all."""
        occurs: NDArray[np.bool_] = (self.predicted + self.gold) > 0
        return occurs

    def macro_f1(self, absent: int = 0) -> Float64Array:
        """The mean F1 of the labels that occur, and of so many absent ones, which count as 0."""
        return ratio(self.f1.sum(axis=-1), self.occurs.sum(axis=-1) + float(absent))

    def micro_f1(self) -> Float64Array:
        """The F1 of all labels together."""
        total = self.predicted.sum(axis=-1) + self.gold.sum(axis=-1)
        return ratio(2 * self.correct.sum(axis=-1), total)

    def by_label(self, labels: Sequence[str]) -> tuple[LabelScores, ...]:
        """Precision, recall and F1 of each label, where the tallies are (C,)."""
        precision, recall = ratio(self.correct, self.predicted), ratio(self.correct, self.gold)
        columns = (precision, recall, self.f1, self.gold.astype(np.int64))
        return tuple(map(LabelScores, labels, *(column.tolist() for column in columns)))


@dataclass(frozen=True)
class KnownLabels:
    """How well each label, tag or type of entity is known."""

    what: str = "label"
    """What a label is called: label, tag or type."""
    labels: tuple[LabelScores, ...] = ()
    """Precision, recall and F1 of each; none where there are no labels."""
    confusion: tuple[tuple[int, ...], ...] = ()
    """How often each label was taken for each other one, (gold, predicted); empty where it makes no
    sense."""


def numbered_labels(
    gold: NDArray[Any], predicted: NDArray[Any], labels: Sequence[str], what: str
) -> KnownLabels:
    """How well labels are known that are stated by number, (n,); `what` is what one is called."""
    table = confusion(gold, predicted, labels).tolist()
    return KnownLabels(what, per_label(gold, predicted, labels), tuple(map(tuple, table)))


def per_label(
    gold: NDArray[np.generic], predicted: NDArray[np.generic], labels: Sequence[str]
) -> tuple[LabelScores, ...]:
    """How well each label is known.

    Args:
        gold: The number of the right label, (n,), or whether each label holds, (n, C).
        predicted: The same as the model predicts it.
        labels: The names of the labels.

    Raises:
        InputError: If the two do not fit each other or the labels.
    """
    if np.ndim(gold) == 2:
        right, predictions = check_held(gold, predicted, labels)
        parts = (right & predictions, predictions, right)
        tallies = Tallies(*(part.sum(axis=0, dtype=np.float64) for part in parts))
    else:
        table = confusion(gold, predicted, labels).astype(np.float64)
        tallies = Tallies(table.diagonal(), table.sum(axis=0), table.sum(axis=1))
    return tallies.by_label(labels)


def confusion(
    gold: NDArray[np.generic], predicted: NDArray[np.generic], labels: Sequence[str]
) -> NDArray[np.int64]:
    """How often each label was taken for each other one, (gold, predicted), from numbers, (n,).

    Raises:
        InputError: If the two do not fit each other or the labels.
    """
    right, predictions = check_numbers(gold, predicted, labels)
    size = len(labels)
    return np.bincount(right * size + predictions, minlength=size * size).reshape(size, size)


def check_numbers(
    gold: Sequence[int] | NDArray[np.generic],
    predicted: Sequence[int] | NDArray[np.generic],
    labels: Sequence[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Insists on a known label for each item.

    Raises:
        InputError: If an item has no label, or one without a name.
    """
    check_lengths(len(gold), len(predicted))
    for name, numbers in (("gold", np.asarray(gold)), ("predicted", np.asarray(predicted))):
        if wrong := np.flatnonzero((numbers < 0) | (numbers >= len(labels))).tolist():
            raise InputError(
                f"{name}, item {wrong[0] + 1:,}, is {numbers[wrong[0]]}; there are {len(labels):,} "
                "labels, and their numbers begin with 0; give the number of a label."
            )
    return np.asarray(gold).astype(np.int64), np.asarray(predicted).astype(np.int64)


def check_held(
    gold: NDArray[np.generic], predicted: NDArray[np.generic], labels: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Insists on a yes or no for each item and label.

    Raises:
        InputError: If the shapes do not fit.
    """
    check_lengths(len(gold), len(predicted))
    shape = (len(gold), len(labels))
    for name, held in (("gold", gold), ("predicted", predicted)):
        if np.shape(held) != shape:
            raise InputError(
                f"{name} has the shape {np.shape(held)}; for {shape[0]:,} items and {shape[1]:,} "
                f"labels it must be {shape}; say of each item whether each label holds."
            )
    return np.asarray(gold, dtype=np.bool_), np.asarray(predicted, dtype=np.bool_)


def label_notes(tallies: Tallies, labels: Sequence[str], *, absent_count: bool) -> list[str]:
    """What a reader must know of labels that have no precision or no recall.

    With `absent_count` a label that occurs nowhere counts as 0 in the macro F1.
    """
    predicted, gold = tallies.predicted > 0, tallies.gold > 0
    absent = "counts as 0" if absent_count else "does not count"
    cases = (
        (~predicted & gold, "never predicted, so precision and F1 are 0"),
        (predicted & ~gold, "never right, so recall and F1 are 0"),
        (~predicted & ~gold, f"neither right nor predicted anywhere, so it {absent} in macro F1"),
    )
    names = np.array(labels, dtype=object)
    return [
        f"{text}: {shown(names[which].tolist(), _NAMED)}." for which, text in cases if which.any()
    ]
