"""Steps in which no text stands twice.

In-batch negatives are other rows' texts; an equal text among them is none. Rows are taken in the
order of the epoch's shuffle; a row that shares a text with the step under construction waits for
the next one that it fits into. What fits into no whole step of the epoch is left out of it; another
epoch leaves out others.
"""

from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import Int64Array


@dataclass(frozen=True)
class DistinctOrder:
    """The rows of an epoch in an order that is cut into steps."""

    order: Int64Array
    """Row numbers; as many as whole steps have."""
    moved: int
    """How many rows had to wait for a later step."""
    left_out: int
    """How many rows are in no step of this epoch."""
    rest: int
    """How many of these would make one more step, a smaller one."""


def distinct_order(
    texts: Sequence[Collection[Hashable]], shuffled: Int64Array, batch_size: int
) -> DistinctOrder:
    """Orders rows so that every `batch_size` of them share no text.

    Args:
        texts: The texts of each row, or what stands for them.
        shuffled: All row numbers in the order of the epoch.
        batch_size: Rows of a step.
    """
    chosen: list[int] = []
    fresh = iter(shuffled.tolist())
    waiting: deque[int] = deque()  # in the order they came
    moved: set[int] = set()
    exhausted = False
    while True:
        step: list[int] = []
        seen: set[Hashable] = set()
        still: deque[int] = deque()
        while waiting and len(step) < batch_size:
            row = waiting.popleft()
            if seen.isdisjoint(texts[row]):
                step.append(row)
                seen.update(texts[row])
            else:
                still.append(row)
        waiting = deque([*still, *waiting])
        while len(step) < batch_size and not exhausted:
            row = next(fresh, -1)
            if row < 0:
                exhausted = True
            elif seen.isdisjoint(texts[row]):
                step.append(row)
                seen.update(texts[row])
            else:
                waiting.append(row)
                moved.add(row)
        if len(step) < batch_size:
            left = len(step) + len(waiting)
            placed = moved.intersection(chosen) if moved else moved
            return DistinctOrder(np.array(chosen, np.int64), len(placed), left, len(step))
        chosen += step
