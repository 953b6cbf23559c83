"""Correlations of two rows of numbers, for any number of draws at once: Pearson and Spearman.

The values are those of scipy, and 0 where a correlation is not defined.

Shapes: n items, g different numbers, D draws.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, ratio

# What rounding leaves of the spread of equal numbers, beside their squares.
_NO_SPREAD = 1e-12


class Correlations:
    """Right and predicted numbers, ready for any number of draws.

    Args:
        gold: The right numbers, (n,).
        predicted: The predicted ones, (n,).

    Raises:
        InputError: If they are not as many, there are none, or one is not a number.
    """

    def __init__(
        self,
        gold: Sequence[float] | NDArray[np.generic],
        predicted: Sequence[float] | NDArray[np.generic],
    ) -> None:
        check_lengths(len(gold), len(predicted))
        self.gold, self.predicted = finite("gold", gold), finite("predicted", predicted)
        x, y = _centred(self.gold), _centred(self.predicted)
        self._sums = np.column_stack([x, y, x * x, y * y, x * y])
        self._gold_ranks, self._predicted_ranks = _Ranks(self.gold), _Ranks(self.predicted)

    def values(self, counts: Float64Array) -> Values:
        """From how often each item came, (D, n), to both correlations."""
        return {"spearman": self._spearman(counts), "pearson": self._pearson(counts)}

    def notes(self) -> list[str]:
        """Why correlations are 0, if they are not defined."""
        rows = (("right", self.gold), ("predicted", self.predicted))
        return [
            f"all {name} numbers are the same, so the correlations are 0."
            for name, values in rows
            if (values == values[0]).all()
        ]

    def _pearson(self, counts: Float64Array) -> Float64Array:
        x, y, xx, yy, xy = (counts @ self._sums / counts.shape[1]).T
        return _correlation(xy - x * y, xx - x * x, yy - y * y, xx, yy)

    def _spearman(self, counts: Float64Array) -> Float64Array:
        x, xx = self._gold_ranks.ranks(counts)
        y, yy = self._predicted_ranks.ranks(counts)
        shared = np.einsum("dn,dn,dn->d", counts, x, y)
        whole = np.full(len(counts), counts.shape[1] ** 3 / 12)
        return _correlation(shared, xx, yy, whole, whole)


class _Ranks:
    """Where each number stands among all of them, in any draw."""

    def __init__(self, numbers: Float64Array) -> None:
        self.order = np.argsort(numbers, kind="stable")
        _, self.begins, self.group = np.unique(
            numbers[self.order], return_index=True, return_inverse=True
        )
        self.group_of = np.empty(len(numbers), dtype=np.int64)
        self.group_of[self.order] = self.group

    def ranks(self, counts: Float64Array) -> tuple[Float64Array, Float64Array]:
        """The rank of each item less the mean rank, (D, n), and the sum of their squares, (D,)."""
        times = np.add.reduceat(counts[:, self.order], self.begins, axis=1)  # (D, g)
        # Those before it, and the middle of its equals; the mean of all ranks is (n + 1) / 2.
        ranks = np.cumsum(times, axis=1) - times / 2 - counts.shape[1] / 2
        squares: Float64Array = np.einsum("dg,dg,dg->d", times, ranks, ranks)
        return ranks[:, self.group_of], squares


def _correlation(
    shared: Float64Array, xx: Float64Array, yy: Float64Array, x: Float64Array, y: Float64Array
) -> Float64Array:
    """A correlation from spreads, 0 where one of them is no more than rounding leaves of x or y."""
    spread = (xx > _NO_SPREAD * x) & (yy > _NO_SPREAD * y)
    whole = np.sqrt(np.where(spread, xx, 0)) * np.sqrt(np.where(spread, yy, 0))
    return np.clip(ratio(shared, whole), -1, 1)


def _centred(numbers: Float64Array) -> Float64Array:
    """Numbers around 0 and at most 1, which changes no correlation and keeps squares finite."""
    centred = numbers - numbers.mean()
    largest = np.abs(centred).max()
    scaled: Float64Array = centred / largest if largest else centred
    return scaled


def finite(name: str, numbers: Sequence[float] | NDArray[np.generic]) -> Float64Array:
    """Insists on finite numbers.

    Raises:
        InputError: If one is not.
    """
    values = np.asarray(numbers, dtype=np.float64)
    if wrong := np.flatnonzero(~np.isfinite(values)).tolist():
        raise InputError(
            f"{name}, item {wrong[0] + 1:,}, is {values[wrong[0]]}; it must be a finite number; "
            "fix it, or leave the item out."
        )
    return values
