"""How sure a value is: percentile intervals from resampled items.

Paper: Efron 1979.
The idea: draw as many items as there are, with replacement, measure again, and repeat a thousand
times; the middle 95 % of what comes out is the interval. A draw is written as how often each item
came, so that a value which follows from sums over items costs one product for many draws.

Shapes: n items, g kinds of items, D draws, k sums.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
Resamples = dict[str, Float64Array]
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


def resamples_from_counts(
    size: int,
    values: Callable[[Float64Array], Values],
    *,
    kinds: NDArray[np.int64] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Resamples:
    """Values that follow from how often each item came, in every draw.

    Args:
        size: How many items there are.
        values: From counts (D, g) to the values by name, (D,) each.
        kinds: The kind of each item, if many are alike.
        draws: How many times items are drawn.
        seed: Decides the draws.
    """
    blocks = [values(counts) for counts in resampled(size, kinds=kinds, draws=draws, seed=seed)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def resamples_from_sums(
    statistics: NDArray[Any],
    values: Callable[[Float64Array], Values],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Resamples:
    """Values that follow from sums over items, of `statistics`, (n, k), in every draw."""
    return resamples_from_counts(
        len(statistics),
        lambda counts: values((counts.astype(statistics.dtype) @ statistics).astype(np.float64)),
        draws=draws,
        seed=seed,
    )


def intervals_of(resamples: Resamples) -> Intervals:
    """Where the middle 95 % of the draws lie, for each value."""
    intervals: Intervals = {}
    for name, drawn in resamples.items():
        low, high = np.quantile(drawn, _ENDS)
        intervals[name] = float(low), float(high)
    return intervals


def ratio(part: Float64Array, whole: Float64Array) -> Float64Array:
    """A part of a whole, 0 where there is no whole."""
    fractions: Float64Array = np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole != 0)
    return fractions


def measured_from_sums(
    statistics: NDArray[Any],
    values: Callable[[Float64Array], Values],
    primary: str,
    *,
    intervals: bool,
    notes: Sequence[str] = (),
) -> Measured:
    """What is measured where every value follows from sums over items, and more is better.

    Args:
        statistics: What is summed, (n, k).
        values: From sums (D, k) to the values by name, (D,) each.
        primary: The name of the value that decides.
        intervals: Whether intervals are wanted.
        notes: What a reader must know about the values.
    """
    total = values(statistics.sum(axis=0, dtype=np.float64)[None])
    drawn = resamples_from_sums(statistics, values) if intervals else {}
    return measured_from_draws(total, drawn, primary, len(statistics), notes)


def measured_from_counts(
    size: int,
    values: Callable[[Float64Array], Values],
    primary: str,
    *,
    intervals: bool,
    notes: Sequence[str] = (),
) -> Measured:
    """What is measured where values follow from how often each item came, and more is better.

    Args:
        size: How many items there are.
        values: From counts (D, n) to the values by name, (D,) each.
        primary: The name of the value that decides.
        intervals: Whether intervals are wanted.
        notes: What a reader must know about the values.
    """
    drawn = resamples_from_counts(size, values) if intervals else {}
    return measured_from_draws(values(np.ones((1, size))), drawn, primary, size, notes)


def measured_from_draws(
    total: Values, drawn: Resamples, primary: str, count: int, notes: Sequence[str] = ()
) -> Measured:
    """What is measured, from the values of all items, (1,) each, and those of every draw."""
    return Measured(
        values={name: float(value[0]) for name, value in total.items()},
        primary=primary,
        higher_is_better=True,
        count=count,
        intervals=intervals_of(drawn),
        notes=tuple(notes),
        resamples=drawn,
    )


def check_lengths(gold: int, predicted: int) -> None:
    """Insists on one prediction for each item, and on at least one item.

    Raises:
        InputError: If there are not as many gold labels as predictions, or none at all.
    """
    if gold != predicted:
        raise InputError(
            f"predicted holds {predicted:,} answers and gold {gold:,}; each item needs one of "
            "both; give them for the same items in the same order."
        )
    if gold == 0:
        raise InputError("there are no items to measure; give at least one.")
