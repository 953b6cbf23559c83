"""Smaller vectors for the first look: 8 bits or 1 bit for each number.

The best candidates by codes are scored again with the vectors themselves, so that codes decide only
which ones are looked at. Equal vectors have equal codes, and of codes that fit equally well all are
looked at or none: so codes leave it to the ids which of equal vectors come first.

int8: per dimension code = floor((x - low) / step), step = (high - low) / 255, with low and high of
the vectors of the index. Trap: a product of codes, or of a query with codes, weighs each dimension
by 1 / step; so the steps are folded into the query.

binary: one bit for each number, whether it is above the mean of its dimension; candidates are those
with the fewest different bits.

Paper: Shakir, Aarsen and Lee 2024 (both with rescoring).

Shapes: N vectors, W width, Q queries.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from clozeworks.arrays import Float32Array, Int64Array
from clozeworks.errors import InputError, UnknownName
from clozeworks.runtime.workers import WorkerPool, workers
from clozeworks.search.top_k import QUERIES, ScoredBlock

CodeKind = Literal["int8", "binary"]
Codes = NDArray[np.uint8]
# How many of 16 bits are set.
_ONES = np.array([number.bit_count() for number in range(1 << 16)], np.uint8)
_WORD = 16


@dataclass(frozen=True)
class Coding(ABC):
    """A way to write vectors with fewer bits."""

    kind: ClassVar[CodeKind]
    oversampling: ClassVar[int]
    """How many candidates are scored again, for each result that is wanted."""

    @classmethod
    @abstractmethod
    def fit(cls, sample: Float32Array) -> "Coding":
        """Chooses it for vectors like these, (N, W)."""

    @abstractmethod
    def width(self) -> int:
        """Bytes of a code."""

    @abstractmethod
    def encode(self, vectors: Float32Array) -> Codes:
        """The codes of vectors, (N, width)."""

    @abstractmethod
    def scores(self, queries: torch.Tensor, codes: Codes) -> torch.Tensor:
        """How well vectors with codes fit queries, (Q, N): more is better."""

    @abstractmethod
    def rounding(self, queries: torch.Tensor) -> torch.Tensor:
        """How far apart the scores of two equal codes may be, (Q,)."""

    @abstractmethod
    def numbers(self) -> dict[str, tuple[float, ...]]:
        """What a file must hold to decode."""


@dataclass(frozen=True)
class Int8(Coding):
    """One byte for each number."""

    low: Float32Array
    step: Float32Array
    kind: ClassVar[CodeKind] = "int8"
    oversampling: ClassVar[int] = 4

    @classmethod
    def fit(cls, sample: Float32Array) -> "Int8":
        """Covers what the dimensions of a sample reach."""
        low, high = sample.min(axis=0), sample.max(axis=0)
        step = np.maximum((high - low) / 255, np.finfo(np.float32).tiny)
        return cls(low.astype(np.float32), step.astype(np.float32))

    def width(self) -> int:
        """As many as a vector has numbers."""
        return len(self.low)

    def encode(self, vectors: Float32Array) -> Codes:
        """Rounded down; what is outside the range becomes its end."""
        codes: Codes = np.clip((vectors - self.low) / self.step, 0, 255).astype(np.uint8)
        return codes

    def decode(self, codes: Codes) -> Float32Array:
        """Vectors whose numbers are the middles of their steps."""
        middle: Float32Array = self.low + (codes.astype(np.float32) + np.float32(0.5)) * self.step
        return middle

    def scores(self, queries: torch.Tensor, codes: Codes) -> torch.Tensor:
        """Dot products with the decoded vectors; the steps are folded into the queries."""
        low, step = torch.from_numpy(self.low), torch.from_numpy(self.step)
        shift = queries @ (low + 0.5 * step)
        product = (queries * step) @ torch.from_numpy(codes).float().T
        return product + shift.unsqueeze(1)

    def rounding(self, queries: torch.Tensor) -> torch.Tensor:
        """A product of matrices sums the last rows otherwise than the first.

        Roundings of a sum of W numbers add up to about the root of W of them.
        """
        weights: torch.Tensor
        weights = torch.linalg.vector_norm(queries * torch.from_numpy(self.step), dim=1)
        longest = 255 * len(self.step) ** 0.5
        return weights.mul(2 * len(self.step) ** 0.5 * torch.finfo(torch.float32).eps * longest)

    def numbers(self) -> dict[str, tuple[float, ...]]:
        """The range of each dimension."""
        return {"low": tuple(self.low.tolist()), "step": tuple(self.step.tolist())}


@dataclass(frozen=True)
class Binary(Coding):
    """One bit for each number."""

    mean: Float32Array
    kind: ClassVar[CodeKind] = "binary"
    oversampling: ClassVar[int] = 10

    @classmethod
    def fit(cls, sample: Float32Array) -> "Binary":
        """Halves each dimension at its mean."""
        return cls(sample.mean(axis=0, dtype=np.float64).astype(np.float32))

    def width(self) -> int:
        """An even number of bytes."""
        return -(-len(self.mean) // _WORD) * 2

    def encode(self, vectors: Float32Array) -> Codes:
        """Bits, the first of each byte for its first number; 0 where there are none left."""
        bits = np.packbits(vectors > self.mean, axis=1)
        return np.pad(bits, ((0, 0), (0, self.width() - bits.shape[1])))

    def bits(self, codes: Codes) -> NDArray[np.bool_]:
        """Which numbers are above their mean, (N, W)."""
        return np.unpackbits(codes, axis=1, count=len(self.mean)).astype(np.bool_)

    def scores(self, queries: torch.Tensor, codes: Codes) -> torch.Tensor:
        """The number of different bits, negative."""
        wanted = self.encode(queries.numpy()).view(np.uint16)
        stored = np.ascontiguousarray(codes).view(np.uint16)
        different = np.empty((len(wanted), len(stored)), np.float32)
        for row, query in enumerate(wanted):
            different[row] = _ONES[stored ^ query].sum(axis=1, dtype=np.uint32)
        return torch.from_numpy(-different)

    def rounding(self, queries: torch.Tensor) -> torch.Tensor:
        """Numbers of bits are whole."""
        return torch.zeros(len(queries))

    def numbers(self) -> dict[str, tuple[float, ...]]:
        """The mean of each dimension."""
        return {"mean": tuple(self.mean.tolist())}


CODINGS: dict[str, type[Int8] | type[Binary]] = {"int8": Int8, "binary": Binary}


def coding_class(kind: str) -> type[Int8] | type[Binary]:
    """The class of a kind of codes.

    Raises:
        UnknownName: If there is none.
    """
    if kind not in CODINGS:
        raise UnknownName("codes", kind, CODINGS)
    return CODINGS[kind]


def best_by_codes(
    coding: Coding, queries: Float32Array, blocks: Iterable[ScoredBlock], count: int
) -> list[Int64Array]:
    """The positions whose codes fit each query best, and all that fit as well as the last of them.

    Args:
        coding: How the codes were made.
        queries: (Q, W).
        blocks: All codes.
        count: How many positions; at least 1.

    Raises:
        InputError: If a score is not a finite number.
    """
    listed = list(blocks)
    device = torch.device("cpu")
    several = max(1, min(workers(device), len(listed)))
    found: list[Int64Array] = []
    with WorkerPool(device, several) as pool, pool.alone(0):
        for begin in range(0, len(queries), QUERIES):
            some = torch.from_numpy(np.ascontiguousarray(queries[begin : begin + QUERIES]))
            best = [_Candidates(coding, some, count) for _ in range(several)]

            def look(worker: int, block: ScoredBlock, best: list[_Candidates] = best) -> None:
                with torch.inference_mode():
                    best[worker].look(block)

            pool.run(look, listed)
            found += _Candidates.joined(best)
    return found


class _Candidates:
    """The best so far of each query, and all that fit as well as the last of them."""

    def __init__(self, coding: Coding, queries: torch.Tensor, count: int) -> None:
        self._queries = queries
        self._count = count
        self._rounding = coding.rounding(queries).numpy()
        # What the last one of each query has, when there are enough.
        self._floor = np.full(len(queries), -np.inf, np.float32)
        self._positions = [np.zeros(0, np.int64)] * len(queries)
        self._scores = [np.zeros(0, np.float32)] * len(queries)

    def look(self, block: ScoredBlock) -> None:
        """Takes what may be among the best of a block."""
        scores = block.of(self._queries).numpy()
        rows = np.arange(len(block))
        if block.kept is not None:
            rows = np.flatnonzero(block.kept)
            scores = scores[:, rows]
        if not np.isfinite(scores).all():
            raise InputError(
                "a score is not a finite number; the codes are damaged; build the index again "
                "with --overwrite."
            )
        for query, floor in enumerate(self._floor.tolist()):
            reached = np.flatnonzero(scores[query] >= floor)
            if len(reached):
                self._take(query, block.first + rows[reached], scores[query, reached])

    def _take(self, query: int, positions: Int64Array, scores: Float32Array) -> None:
        positions = np.concatenate([self._positions[query], positions])
        scores = np.concatenate([self._scores[query], scores])
        if (others := len(scores) - self._count) > 0:
            floor = np.partition(scores, others)[others] - self._rounding[query]
            kept = scores >= floor
            positions, scores = positions[kept], scores[kept]
            self._floor[query] = floor
        self._positions[query], self._scores[query] = positions, scores

    @staticmethod
    def joined(several: "Sequence[_Candidates]") -> list[Int64Array]:
        """The best of what several workers found."""
        first, *others = several
        for other in others:
            for query in range(len(first._positions)):
                first._take(query, other._positions[query], other._scores[query])
        return first._positions
