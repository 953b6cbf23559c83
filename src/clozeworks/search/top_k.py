"""Exact search: the k largest dot products of a query with any number of vectors.

The idea: vectors are multiplied block by block, each worker its own blocks, and of each block only
the k best are kept. In a block the best are found in two steps: every vector belongs to a group,
whose best score costs one pass that the processor does several numbers at a time; the k best are in
the k best groups, so only those are looked into.

Of equal scores the one with the smaller key comes first, also where they begin to be left out, so
that results do not depend on how vectors lie on disk.

Shapes: Q queries, W width, B vectors of a block, k results.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from clozeworks.arrays import BoolArray, Float32Array, Int64Array
from clozeworks.errors import InputError
from clozeworks.runtime.workers import WorkerPool, workers

GROUP = 32
# Queries that are multiplied at once: their scores of a block stay in a processor's cache.
QUERIES = 128
# What decides among equal scores: a value for each position.
TieKeys = Callable[[Int64Array], Sequence[Any]]


@dataclass(frozen=True)
class VectorBlock:
    """Some vectors one after the other.

    Attributes:
        first: The position of the first one.
        scores: From queries (Q, W) to their scores (Q, B).
        kept: Which of them count, (B,); None for all.
    """

    first: int
    scores: Callable[[torch.Tensor], torch.Tensor]
    kept: BoolArray | None = None


def dot_products(vectors: Float32Array) -> Callable[[torch.Tensor], torch.Tensor]:
    """The scores of a block of plain vectors."""
    matrix = torch.from_numpy(vectors)
    return lambda queries: queries @ matrix.T


def top_k(
    queries: Float32Array, blocks: Iterable[VectorBlock], k: int, keys: TieKeys
) -> list[tuple[Int64Array, Float32Array]]:
    """The k best positions of each query, the best first, and their scores; fewer if fewer count.

    Args:
        queries: (Q, W).
        blocks: All vectors.
        k: How many; at least 1.
        keys: What decides among equal scores.

    Raises:
        InputError: If a score is not a finite number.
    """
    listed = list(blocks)
    device = torch.device("cpu")
    count = max(1, min(workers(device), len(listed)))
    results: list[tuple[Int64Array, Float32Array]] = []
    with WorkerPool(device, count) as pool:
        for begin in range(0, len(queries), QUERIES):
            some = torch.from_numpy(np.ascontiguousarray(queries[begin : begin + QUERIES]))
            best = [_Best(len(some), k, keys) for _ in range(count)]

            def search(
                worker: int,
                block: VectorBlock,
                some: torch.Tensor = some,
                best: list[_Best] = best,
            ) -> None:
                with torch.inference_mode():
                    scores = block.scores(some)
                    if block.kept is not None:
                        scores[:, torch.from_numpy(~block.kept)] = -torch.inf
                    best[worker].add(block.first, scores)

            pool.run(search, listed)
            results += _Best.joined(best).results()
    return results


class _Best:
    """The best so far of each query; their order among themselves is settled at the end."""

    def __init__(self, count: int, k: int, keys: TieKeys) -> None:
        self.k = k
        self._keys = keys
        self._scores = torch.empty(count, 0)
        self._positions = torch.empty(count, 0, dtype=torch.int64)

    def add(self, first: int, scores: torch.Tensor) -> None:
        """Takes the best of the scores of a block, (Q, B)."""
        values, indices = largest(scores, self.k + 1)
        if not bool((values < torch.inf).all()):  # NaN is not below it either
            raise InputError(
                "a score is not a finite number; the vectors are damaged; build the index again "
                "with --overwrite."
            )
        # Trap: of equal scores at the end, which were taken is chance: keys must decide.
        for row in _ties(values, self.k):
            equal = torch.nonzero(scores[row] >= values[row, self.k - 1]).flatten()
            chosen = self._chosen(scores[row, equal], equal + first)
            values[row, : self.k], indices[row, : self.k] = (
                scores[row, equal[chosen]],
                equal[chosen],
            )
        self._merge(values[:, : self.k], indices[:, : self.k] + first)

    @staticmethod
    def joined(several: "Sequence[_Best]") -> "_Best":
        """The best of what several workers found."""
        first, *others = several
        with torch.inference_mode():
            for other in others:
                first._merge(other._scores, other._positions)
        return first

    def _merge(self, scores: torch.Tensor, positions: torch.Tensor) -> None:
        scores = torch.cat([self._scores, scores], dim=1)
        positions = torch.cat([self._positions, positions], dim=1)
        if scores.shape[1] > self.k:
            values, indices = torch.topk(scores, self.k + 1)
            for row in _ties(values, self.k):
                indices[row, : self.k] = self._chosen(scores[row], positions[row])
            indices = indices[:, : self.k]
            scores, positions = scores.gather(1, indices), positions.gather(1, indices)
        self._scores, self._positions = scores, positions

    def _chosen(self, scores: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The indices of the k best of a query, the keys deciding."""
        return torch.from_numpy(self._order(scores.numpy(), positions.numpy())[: self.k])

    def _order(self, scores: Float32Array, positions: Int64Array) -> Int64Array:
        keys = self._keys(positions)
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], keys[index]))
        return np.array(order, np.int64)

    def results(self) -> list[tuple[Int64Array, Float32Array]]:
        """What is left, in order."""
        found = []
        for values, numbers in zip(self._scores.numpy(), self._positions.numpy(), strict=True):
            real = values > -np.inf
            scores, positions = values[real], numbers[real]
            order = np.argsort(-scores, kind="stable")
            if (np.diff(scores[order]) == 0).any():
                order = self._order(scores, positions)
            found.append((positions[order], scores[order]))
        return found


def _ties(values: torch.Tensor, k: int) -> list[int]:
    """The queries whose k-th best score is not better than the next one."""
    if values.shape[1] <= k:
        return []
    last = values[:, k - 1]
    rows: list[int] = torch.nonzero((last == values[:, k]) & (last > -torch.inf)).flatten().tolist()
    return rows


def largest(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest of each row and where they are; all if there are fewer. (Q, B) to (Q, k)."""
    rows, size = scores.shape
    groups = size // GROUP
    if groups < 4 * k:
        return torch.topk(scores, min(k, size))
    whole = groups * GROUP
    # Number n is in group n % groups, so that one pass over rows of numbers gives all the best.
    grouped = scores[:, :whole].reshape(rows, GROUP, groups)
    best = torch.topk(grouped.amax(1), k, sorted=False).indices
    members = best.unsqueeze(1) + groups * torch.arange(GROUP).view(1, GROUP, 1)
    rest = torch.arange(whole, size).expand(rows, -1)
    candidates = torch.cat([members.flatten(1), rest], dim=1)
    values, indices = torch.topk(scores.gather(1, candidates), k)
    return values, candidates.gather(1, indices)
