"""How sure a value is: percentile intervals from resampled items.

Paper: Efron 1979.
The idea: draw as many items as there are, with replacement, measure again, and repeat a thousand
times; the middle 95 % of what comes out is the interval. A draw is written as how often each item
came, so that a value which follows from sums over items costs one product for many draws.

Shapes: n items, g kinds of items, D draws, k sums.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.rng import RandomStream, below
from clozeworks.tasks.metrics.measured import Measured

DRAWS = 1000
_ENDS = (0.025, 0.975)
# Numbers in work at a time. Small blocks mean many small products, and on a busy machine each of
# them waits for the threads of the one before.
_BLOCK = 2**20

Values = Mapping[str, Float64Array]
Intervals = dict[str, tuple[float, float]]


def resampled(
    size: int, *, kinds: NDArray[np.int64] | None = None, draws: int = DRAWS, seed: int = 0
) -> Iterator[Float64Array]:
    """Draws items with replacement, as many as there are, again and again.

    Args:
        size: How many items there are.
        kinds: The kind of each item, (n,), from 0 on; without it each is a kind of its own.
        draws: How many times.
        seed: Decides the draws, and nothing else does.

    Yields:
        How often each kind came, (D, g), for a few draws at a time.
    """
    rng = RandomStream(seed, "bootstrap")
    count = size if kinds is None else int(kinds.max()) + 1
    step = max(1, _BLOCK // max(size, count))
    for begin in range(0, draws, step):
        numbers = np.arange(begin, min(begin + step, draws))
        drawn = below(rng.words(0, numbers, size), size)  # (D, n)
        drawn = drawn if kinds is None else kinds[drawn]
        drawn += np.arange(len(numbers))[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=len(numbers) * count)
        yield counts.reshape(len(numbers), count).astype(np.float64)  # (D, g)


def intervals_from_counts(
    size: int,
    values: Callable[[Float64Array], Values],
    *,
    kinds: NDArray[np.int64] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Intervals:
    """The intervals of values that follow from how often each item came.

    Args:
        size: How many items there are.
        values: From counts (D, g) to the values by name, (D,) each.
        kinds: The kind of each item, if many are alike; see `resampled`.
        draws: How many times items are drawn.
        seed: Decides the draws.
    """
    blocks = [values(counts) for counts in resampled(size, kinds=kinds, draws=draws, seed=seed)]
    found: Intervals = {}
    for name in blocks[0]:
        low, high = np.quantile(np.concatenate([block[name] for block in blocks]), _ENDS)
        found[name] = float(low), float(high)
    return found


def intervals_from_sums(
    statistics: NDArray[Any],
    values: Callable[[Float64Array], Values],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Intervals:
    """The intervals of values that follow from sums over items.

    Args:
        statistics: What is summed, (n, k).
        values: From sums (D, k) to the values by name, (D,) each.
        draws: How many times items are drawn.
        seed: Decides the draws.
    """
    return intervals_from_counts(
        len(statistics),
        lambda counts: values((counts.astype(statistics.dtype) @ statistics).astype(np.float64)),
        draws=draws,
        seed=seed,
    )


def intervals_of(
    function: Callable[[NDArray[np.int64]], float],
    name: str,
    size: int,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Intervals:
    """The interval of any value, however it is computed; slower, as it is asked for each draw.

    Args:
        function: From the numbers of the drawn items, (n,), to the value.
        name: What the value is called.
        size: How many items there are.
        draws: How many times items are drawn.
        seed: Decides the draws.
    """
    items = np.arange(size)

    def values(counts: Float64Array) -> Values:
        drawn = (np.repeat(items, row) for row in counts.astype(np.int64))
        return {name: np.array([function(positions) for positions in drawn], dtype=np.float64)}

    return intervals_from_counts(size, values, draws=draws, seed=seed)


def ratio(part: Float64Array, whole: Float64Array) -> Float64Array:
    """A part of a whole, 0 where there is no whole."""
    shares: Float64Array = np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole != 0)
    return shares


def f1_from_counts(
    counts: NDArray[np.int64], *, intervals: bool = False, seed: int = 0
) -> Measured:
    """Precision, recall and F1 of things found in texts, such as entities.

    Texts are what is resampled: the things found in one text are not independent of each other.

    Args:
        counts: For each text how many were found rightly, how many were found, and how many there
            are, (n, 3).
        intervals: Whether to say how sure the values are.
        seed: Decides the draws.

    Raises:
        InputError: There are no texts.
    """
    statistics = np.asarray(counts, dtype=np.float64).reshape(-1, 3)
    check_any(len(statistics))
    total = statistics.sum(axis=0)
    notes = []
    if total[1] == 0:
        notes.append("nothing was found; precision and F1 are 0.")
    if total[2] == 0:
        notes.append("there was nothing to find; recall and F1 are 0.")
    return Measured(
        values={name: float(value[0]) for name, value in _f1(total[None]).items()},
        primary="f1",
        higher_is_better=True,
        count=len(statistics),
        intervals=intervals_from_sums(statistics, _f1, seed=seed) if intervals else {},
        notes=tuple(notes),
    )


def _f1(sums: Float64Array) -> Values:
    right, found, there = sums.T
    return {
        "precision": ratio(right, found),
        "recall": ratio(right, there),
        "f1": ratio(2 * right, found + there),
    }


def check_any(size: int) -> None:
    """Insists that there is something to measure.

    Raises:
        InputError: There are no items.
    """
    if size == 0:
        raise InputError("there are no items to measure; give at least one.")


def check_lengths(gold: int, predicted: int) -> None:
    """Insists on one answer for each item, and on at least one item.

    Args:
        gold: How many right answers there are.
        predicted: How many answers were given.

    Raises:
        InputError: They are not as many, or there are none.
    """
    if gold != predicted:
        raise InputError(
            f"predicted holds {predicted:,} answers and gold {gold:,}; each item needs one of "
            "both; give them for the same items in the same order."
        )
    check_any(gold)
