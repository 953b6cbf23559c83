"""How often each of several tasks is shown: by its size, up to a limit, made more alike.

Paper: Raffel et al. 2020 (T5), section 3.5.2; Arivazhagan et al. 2019 (temperature).
The idea: a task with e items has the weight min(e, limit) ** (1 / temperature). An epoch is as long
as all tasks together, each up to the limit; each task has its share of it, to the example, and goes
through its items in random order, on and on over epochs, before one comes again.
Where paper and code differ: the paper's code draws a task for each example; here shares are kept
exactly, so no task is lucky. The loader shuffles the examples of an epoch.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.rng import RandomStream
from clozeworks.spec import FINITE, AtLeast, PositiveInt, spec

_PASSES = 64  # orders of items that are held


@spec
class Mixture:
    """How tasks are mixed."""

    limit: PositiveInt | None = None
    """A task counts as if it had at most so many items; no limit if not given."""
    temperature: Annotated[float, FINITE, AtLeast(1)] = 1.0
    """1 shows tasks by their size; the higher, the more alike."""

    def limited(self, sizes: Sequence[int]) -> list[int]:
        """How many items each task counts for."""
        return [size if self.limit is None else min(size, self.limit) for size in sizes]

    def rates(self, sizes: Sequence[int]) -> list[float]:
        """The fraction of each task: first the limit, then the power."""
        weights = [math.exp(math.log(size) / self.temperature) for size in self.limited(sizes)]
        return [weight / sum(weights) for weight in weights]


class Mixed:
    """Which item each example of an epoch is: a pure function of seed, epoch and number.

    Args:
        tasks: The task of each item, in the order of the items.
        mixture: How tasks are mixed.
        seed: Decides the order of the items of each task.

    Attributes:
        names: The tasks, in the order they are first met.
        size: Examples of an epoch.
        counts: How many of them each task has.
    """

    def __init__(self, tasks: Sequence[str], mixture: Mixture, seed: int) -> None:
        positions: dict[str, list[int]] = {}
        for index, name in enumerate(tasks):
            positions.setdefault(name, []).append(index)
        self.names = tuple(positions)
        self._items = [np.array(indices, np.int64) for indices in positions.values()]
        sizes = list(map(len, self._items))
        self.size = sum(mixture.limited(sizes))
        ends = np.rint(np.cumsum(mixture.rates(sizes)) * self.size).astype(np.int64)
        self._begins = np.concatenate([[0], ends[:-1]])
        self.counts: Int64Array = np.diff(np.concatenate([[0], ends]))
        rng = RandomStream(seed, "mixture")
        self._order = lru_cache(_PASSES)(
            lambda task, number: rng.stream(self.names[task]).permutation(
                number, len(self._items[task])
            )
        )

    def task_of(self, indices: Int64Array) -> Int64Array:
        """The task of each example of any epoch, (B,)."""
        return np.searchsorted(self._begins, indices, side="right") - 1

    def chosen(self, epoch: int, indices: Int64Array) -> Int64Array:
        """The item of each example of an epoch, (B,)."""
        items = np.empty(len(indices), np.int64)
        for position, (task, index) in enumerate(
            zip(self.task_of(indices).tolist(), indices.tolist(), strict=True)
        ):
            shown = epoch * int(self.counts[task]) + index - int(self._begins[task])
            number, at = divmod(shown, len(self._items[task]))
            items[position] = self._items[task][self._order(task, number)[at]]
        return items
