"""Exact search: the k largest dot products of a query with any number of vectors.

The idea: a rough product and its proven error are enough to rule nearly all vectors out, and a
processor that has bfloat16 makes it in half the time. Vectors are multiplied block by block, each
worker its own blocks. k vectors whose rough scores, less the error, are at least f prove that the
k-th best score is at least f; so what stays below f with the error added is never looked at again.
What is left, a few times k vectors, is scored in float64. So results depend neither on the number
of queries nor on that of threads, and not on the block a vector lies in.

In a block, vectors are found in two steps: every vector belongs to a group, whose best score costs
one pass that the processor does many numbers at a time; only groups that reach f are looked into.

Of equal scores the one with the smaller key comes first, also where they begin to be left out, so
that results do not depend on how vectors lie on disk.

Shapes: Q queries, W width, B vectors of a block, G groups of a block, k results.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch

from clozeworks.arrays import BoolArray, Float32Array, Int64Array
from clozeworks.errors import InputError
from clozeworks.runtime.workers import WorkerPool, workers

GROUP = 32
# Queries that are multiplied at once.
QUERIES = 256
# More candidates for each result than this: the products are too rough for these vectors.
_ROUGH = 16
# Candidates that wait to be scored, and those that are scored at a time.
_WAITING, _SCORED = 1 << 20, 1 << 10
# Vectors that are rounded at a time: they stay in a processor's cache until they are multiplied.
_ROUNDED = 1 << 11
# What decides among equal scores: a value for each position.
TieKeys = Callable[[Int64Array], Sequence[Any]]


@cache
def rough_dtype() -> torch.dtype:
    """The number type in which this processor multiplies fastest."""
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return torch.bfloat16 if known.get("avx512_bf16") else torch.float32


class SearchBlock(ABC):
    """Some vectors one after the other.

    Attributes:
        exact: Whether its rough scores are the scores, which only float32 can hold.
        first: The position of the first one.
        kept: Which of them count, (B,); None for all.
    """

    exact: ClassVar[bool] = False
    first: int
    kept: BoolArray | None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rough(self, queries: "RoughQueries", scores: torch.Tensor) -> torch.Tensor:
        """Fills in scores, (B, Q), in the queries' number type; returns their error, (Q,).

        The rounding of the scores themselves is not part of the error.
        """

    @abstractmethod
    def scores(self, queries: Float32Array, rows: Int64Array, rough: Float32Array) -> Float32Array:
        """The scores of pairs: queries (N, W), rows (N,) of this block, rough scores (N,)."""


@dataclass(frozen=True)
class VectorBlock(SearchBlock):
    """Vectors as they are.

    Attributes:
        first: The position of the first one.
        vectors: (B, W).
        longest: The length of the longest.
        kept: Which of them count, (B,); None for all.
        check: Is called before vectors are read.
    """

    first: int
    vectors: Float32Array
    longest: float
    kept: BoolArray | None = None
    check: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self.vectors)

    def rough(self, queries: "RoughQueries", scores: torch.Tensor) -> torch.Tensor:
        """Dot products of rounded vectors."""
        self.check()
        vectors, columns = torch.from_numpy(self.vectors), queries.vectors.T
        for begin in range(0, len(vectors), _ROUNDED):
            some = slice(begin, begin + _ROUNDED)
            torch.mm(queries.rounded(vectors[some]), columns, out=scores[some])
        return queries.error.mul(self.longest)

    def scores(self, queries: Float32Array, rows: Int64Array, rough: Float32Array) -> Float32Array:
        """Dot products."""
        self.check()
        found = np.empty(len(rows), np.float32)
        for begin in range(0, len(rows), _SCORED):
            some = slice(begin, begin + _SCORED)
            pair = queries[some].astype(np.float64), self.vectors[rows[some]].astype(np.float64)
            found[some] = np.einsum("nw,nw->n", *pair)
        return found


@dataclass(frozen=True)
class ScoredBlock(SearchBlock):
    """Vectors of which only scores are known.

    Attributes:
        first: The position of the first one.
        size: How many there are.
        of: From queries (Q, W) to their scores (Q, B).
        kept: Which of them count, (B,); None for all.
    """

    exact: ClassVar[bool] = True
    first: int
    size: int
    of: Callable[[torch.Tensor], torch.Tensor]
    kept: BoolArray | None = None

    def __len__(self) -> int:
        return self.size

    def rough(self, queries: "RoughQueries", scores: torch.Tensor) -> torch.Tensor:
        """The scores, without an error."""
        scores.copy_(self.of(queries.vectors).T)
        return torch.zeros(len(queries.vectors))

    def scores(self, queries: Float32Array, rows: Int64Array, rough: Float32Array) -> Float32Array:
        """The same ones."""
        return rough


class RoughQueries:
    """Queries in a number type, and the error of their products with vectors of length 1.

    For q rounded to q' and x to x', |q x - q' x'| <= |q - q'| |x| + |q'| |x - x'|. Rounding changes
    a number by at most `unit` of itself; sums in float32 add W roundings.

    Args:
        queries: (Q, W).
        dtype: The number type.
    """

    def __init__(self, queries: torch.Tensor, dtype: torch.dtype) -> None:
        self.vectors = queries.to(dtype)
        self.unit = torch.finfo(dtype).eps / 2
        kept = self.vectors.float()
        sums = 2 * queries.shape[1] * torch.finfo(torch.float32).eps
        self.error: torch.Tensor = torch.linalg.vector_norm(queries - kept, dim=1)
        self.error += torch.linalg.vector_norm(kept, dim=1) * (self.unit + sums)
        self._room = torch.empty(0, dtype=dtype)

    def rounded(self, vectors: torch.Tensor) -> torch.Tensor:
        """Vectors in the same number type, until the next ones are."""
        if vectors.dtype == self.vectors.dtype:
            return vectors
        if self._room.numel() < vectors.numel():
            self._room = torch.empty(vectors.numel(), dtype=self.vectors.dtype)
        return self._room[: vectors.numel()].view(vectors.shape).copy_(vectors)


def longest(vectors: Float32Array) -> float:
    """The length of the longest vector, (B, W); a little more, for it is rounded."""
    return 1.001 * float(torch.linalg.vector_norm(torch.from_numpy(vectors), dim=1).max())


def top_k(
    queries: Float32Array, blocks: Iterable[SearchBlock], k: int, keys: TieKeys
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
    k = max(1, min(k, sum(map(len, listed))))  # room is taken for as many as there can be
    device = torch.device("cpu")
    count = max(1, min(workers(device), len(listed)))
    results: list[tuple[Int64Array, Float32Array]] = []
    with WorkerPool(device, count) as pool, pool.alone(0):
        for begin in range(0, len(queries), QUERIES):
            some = np.ascontiguousarray(queries[begin : begin + QUERIES])
            best = [_Best(some, k, keys) for _ in range(count)]

            def search(worker: int, block: SearchBlock, best: list[_Best] = best) -> None:
                with torch.inference_mode():
                    best[worker].look(block)

            pool.run(search, listed)
            results += _Best.joined(best)
    return results


@dataclass(frozen=True)
class _Candidates:
    """Pairs of a query and a vector of a block, (N,) each, with the most that they may score."""

    block: SearchBlock
    queries: Int64Array
    rows: Int64Array
    rough: Float32Array
    most: Float32Array


class _Best:
    """The best so far of each query."""

    def __init__(self, queries: Float32Array, k: int, keys: TieKeys) -> None:
        self.k = k
        self._keys = keys
        self._queries = queries
        self._rough = RoughQueries(torch.from_numpy(queries), rough_dtype())
        self._room = torch.empty(0)
        # What k different vectors score at least, and so the k-th best does.
        self._least = torch.full((len(queries), k), -torch.inf)
        self._waiting: list[_Candidates] = []
        nothing = np.zeros(0, np.int64), np.zeros(0, np.float32)
        self._scored: list[tuple[Int64Array, Float32Array]] = [nothing] * len(queries)

    def look(self, block: SearchBlock) -> None:
        """Takes what may be among the best of a block."""
        if block.exact:
            self._use(torch.float32)
        while not self._take(block):
            self._use(torch.float32)

    def _take(self, block: SearchBlock) -> bool:
        """The same; False, and nothing is taken, if rough products rule too little out."""
        count = len(self._queries)
        members = GROUP if len(block) >= 4 * self.k * GROUP else 1
        groups = -(-len(block) // members)
        # Vector n is in group n % groups, so that one pass over rows of numbers gives all the best.
        scores = self._scores(groups * members)
        error = block.rough(self._rough, scores[: len(block)]).unsqueeze(1)
        scores[len(block) :] = -torch.inf
        if block.kept is not None:
            scores[: len(block)][torch.from_numpy(~block.kept)] = -torch.inf
        peaks = scores.view(members, groups * count).amax(0).view(groups, count).T.float()
        if not bool((peaks + error < torch.inf).all()):  # NaN is not below it either
            raise InputError(
                "a score is not a finite number; the vectors are damaged; build the index again "
                "with --overwrite."
            )
        lowest = peaks - error - self._rough.unit * peaks.abs()
        least = torch.topk(torch.cat([self._least, lowest], dim=1), self.k).values
        query, group = (self._most(peaks, error) >= least[:, -1:]).nonzero(as_tuple=True)
        if len(query) > _ROUGH * self.k * count and self._rough.vectors.dtype != torch.float32:
            return False
        # Trap: not before, or the same vectors would count twice among the k.
        self._least = least
        if not len(query):
            return True
        places = (group * count + query).unsqueeze(1) + groups * count * torch.arange(members)
        rough = scores.view(-1)[places].float()
        most = self._most(rough, error[query])
        hit, member = (most >= least[query, -1:]).nonzero(as_tuple=True)
        found = query[hit], group[hit] + groups * member, rough[hit, member], most[hit, member]
        self._waiting.append(_Candidates(block, *(each.numpy() for each in found)))
        if sum(len(each.rows) for each in self._waiting) > _WAITING:
            self._settle()
        return True

    def _most(self, rough: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        """The most that scores may be; NaN, which reaches nothing, for those that do not count."""
        return rough + error + self._rough.unit * rough.abs()

    def _use(self, dtype: torch.dtype) -> None:
        """Goes over to another number type."""
        if self._rough.vectors.dtype != dtype:
            self._rough = RoughQueries(torch.from_numpy(self._queries), dtype)

    def _scores(self, rows: int) -> torch.Tensor:
        """Room for the scores of a block, (rows, Q)."""
        size, dtype = rows * len(self._queries), self._rough.vectors.dtype
        if self._room.numel() < size or self._room.dtype != dtype:
            self._room = torch.empty(size, dtype=dtype)
        return self._room[:size].view(rows, len(self._queries))

    @staticmethod
    def joined(several: "Sequence[_Best]") -> list[tuple[Int64Array, Float32Array]]:
        """The best of what several workers found, in order."""
        first, *others = several
        least = torch.cat([each._least for each in several], dim=1)
        first._least = torch.topk(least, first.k).values
        for other in others:
            first._waiting += other._waiting
            first._scored = [
                (np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]]))
                for a, b in zip(first._scored, other._scored, strict=True)
            ]
        first._settle()
        return first._scored

    def _settle(self) -> None:
        """Scores what has waited, and keeps the best k of each query, in order."""
        floor = self._least[:, -1].numpy()
        counts = [len(positions) for positions, _ in self._scored]
        queries = [np.repeat(np.arange(len(counts)), counts)]
        positions = [each for each, _ in self._scored]
        scores = [each for _, each in self._scored]
        for each in self._waiting:
            left = each.most >= floor[each.queries]
            query, rows = each.queries[left], each.rows[left]
            queries.append(query)
            positions.append(rows + each.block.first)
            scores.append(each.block.scores(self._queries[query], rows, each.rough[left]))
        self._waiting = []
        query, position = np.concatenate(queries), np.concatenate(positions)
        score = np.concatenate(scores)
        order = np.lexsort((-score, query))
        ends = np.cumsum(np.bincount(query, minlength=len(counts)))[:-1]
        self._scored = [
            self._first(*each)
            for each in zip(
                np.split(position[order], ends), np.split(score[order], ends), strict=True
            )
        ]

    def _first(
        self, positions: Int64Array, scores: Float32Array
    ) -> tuple[Int64Array, Float32Array]:
        """The best k of those of a query, which are sorted by score: keys decide where it ties."""
        if (scores[1 : self.k + 1] == scores[: self.k][: len(scores) - 1]).any():
            tied = scores >= scores[min(self.k, len(scores)) - 1]
            positions, scores = positions[tied], scores[tied]
            keys = self._keys(positions)
            order = sorted(range(len(scores)), key=lambda index: (-scores[index], keys[index]))
            positions, scores = positions[order], scores[order]
        return positions[: self.k], scores[: self.k]
