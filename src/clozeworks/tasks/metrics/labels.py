"""How often each label was right, given and due, and what follows from that.

Shapes: n items, C labels, D draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import check_lengths, ratio

_NAMED = 5  # labels a note names before it only counts them


@dataclass(frozen=True)
class Tallies:
    """What is known about each label; (C,), or (D, C) for several draws at once.

    Attributes:
        right: How often it was given and due.
        given: How often it was given.
        due: How often it was due.
    """

    right: Float64Array
    given: Float64Array
    due: Float64Array

    @property
    def precision(self) -> Float64Array:
        """The share of what was given that was due."""
        return ratio(self.right, self.given)

    @property
    def recall(self) -> Float64Array:
        """The share of what was due that was given."""
        return ratio(self.right, self.due)

    @property
    def f1(self) -> Float64Array:
        """The harmonic mean of the two."""
        return ratio(2 * self.right, self.given + self.due)

    @property
    def occurs(self) -> NDArray[np.bool_]:
        """Whether the label was given or due at all."""
        occurs: NDArray[np.bool_] = (self.given + self.due) > 0
        return occurs

    def macro_f1(self, absent: int = 0) -> Float64Array:
        """The mean F1 of the labels that occur.

        Args:
            absent: How many labels that occur nowhere count as 0 beside them.
        """
        return ratio(self.f1.sum(axis=-1), self.occurs.sum(axis=-1) + float(absent))

    def micro_f1(self) -> Float64Array:
        """The F1 of all labels together."""
        due, given = self.due.sum(axis=-1), self.given.sum(axis=-1)
        return ratio(2 * self.right.sum(axis=-1), given + due)


@dataclass(frozen=True)
class LabelScores:
    """How well one label is known.

    Attributes:
        label: Its name.
        precision: The share of what was given that was due; 0 if it was never given.
        recall: The share of what was due that was given; 0 if it was never due.
        f1: The harmonic mean of the two.
        support: How often it was due.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class KnownLabels:
    """How well each label, tag or type of entity is known.

    Attributes:
        what: What a label is called: label, tag or type.
        labels: Precision, recall and F1 of each; none where there are no labels.
        confusion: How often each label was taken for each other one, (gold, predicted); empty where
            it makes no sense.
    """

    what: str = "label"
    labels: tuple[LabelScores, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()


def numbered_labels(
    gold: NDArray[Any], predicted: NDArray[Any], labels: Sequence[str], what: str
) -> KnownLabels:
    """How well labels are known that are given by number.

    Args:
        gold: The number of the right label, (n,).
        predicted: The same as the model says it.
        labels: The names of the labels.
        what: What a label is called.
    """
    table = confusion(gold, predicted, labels).tolist()
    return KnownLabels(what, per_label(gold, predicted, labels), tuple(map(tuple, table)))


def per_label(
    gold: NDArray[np.generic], predicted: NDArray[np.generic], labels: Sequence[str]
) -> tuple[LabelScores, ...]:
    """How well each label is known.

    Args:
        gold: The number of the right label, (n,), or whether each label holds, (n, C).
        predicted: The same as the model says it.
        labels: The names of the labels.

    Raises:
        InputError: The two do not fit each other or the labels.
    """
    if np.ndim(gold) == 2:
        held, said = check_held(gold, predicted, labels)
        tallies = Tallies(
            *(part.sum(axis=0, dtype=np.float64) for part in (held & said, said, held))
        )
    else:
        table = confusion(gold, predicted, labels).astype(np.float64)
        tallies = Tallies(table.diagonal(), table.sum(axis=0), table.sum(axis=1))
    columns = (tallies.precision, tallies.recall, tallies.f1, tallies.due.astype(np.int64))
    return tuple(
        LabelScores(label, *(column[index].item() for column in columns))
        for index, label in enumerate(labels)
    )


def confusion(
    gold: NDArray[np.generic], predicted: NDArray[np.generic], labels: Sequence[str]
) -> NDArray[np.int64]:
    """How often each label was taken for each other one: (right label, given label).

    Args:
        gold: The number of the right label, (n,).
        predicted: The number of the given one, (n,).
        labels: The names of the labels.

    Raises:
        InputError: The two do not fit each other or the labels.
    """
    due, given = check_numbers(gold, predicted, labels)
    size = len(labels)
    return np.bincount(due * size + given, minlength=size * size).reshape(size, size)


def check_numbers(
    gold: Sequence[int] | NDArray[np.generic],
    predicted: Sequence[int] | NDArray[np.generic],
    labels: Sequence[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Insists on a known label for each item.

    Raises:
        InputError: There is none, or one that has no name.
    """
    check_lengths(len(gold), len(predicted))
    found = []
    for name, numbers in (("gold", np.asarray(gold)), ("predicted", np.asarray(predicted))):
        if wrong := np.flatnonzero((numbers < 0) | (numbers >= len(labels))).tolist():
            raise InputError(
                f"{name}, item {wrong[0] + 1:,}, is {numbers[wrong[0]]}; there are {len(labels):,} "
                "labels, and their numbers begin with 0; give the number of a label."
            )
        found.append(numbers.astype(np.int64))
    return found[0], found[1]


def check_held(
    gold: NDArray[np.generic], predicted: NDArray[np.generic], labels: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Insists on a yes or no for each item and label.

    Raises:
        InputError: The shapes do not fit.
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

    Args:
        tallies: What is known about each label, (C,).
        labels: Their names.
        absent_count: Whether a label that occurs nowhere counts as 0 in the macro F1.
    """
    given, due = tallies.given > 0, tallies.due > 0
    absent = "counts as 0" if absent_count else "does not count"
    cases = (
        (~given & due, "never predicted, so precision and F1 are 0"),
        (given & ~due, "never right, so recall and F1 are 0"),
        (~given & ~due, f"neither right nor predicted anywhere, so it {absent} in macro F1"),
    )
    return [f"{text}: {_named(which, labels)}." for which, text in cases if which.any()]


def _named(which: NDArray[np.bool_], labels: Sequence[str]) -> str:
    names = [labels[index] for index in np.flatnonzero(which).tolist()]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
