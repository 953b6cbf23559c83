"""Smaller vectors for the first look: 8 bits or 1 bit for each number.

The best candidates by codes are scored again with the vectors themselves, so that codes decide only
which ones are looked at.

int8: per dimension code = floor((x - low) / step), step = (high - low) / 255, with low and high of
the vectors of the index. Trap: a product of codes, or of a query with codes, weighs each dimension
by 1 / step; so the steps are folded into the query.

binary: one bit for each number, whether it is above the mean of its dimension; candidates are those
with the fewest different bits.

Paper: Shakir, Aarsen and Lee 2024 (both with rescoring).

Shapes: N vectors, W width, Q queries.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from clozeworks.arrays import Float32Array
from clozeworks.errors import UnknownName

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
