"""Shortens two texts until both fit, a token at a time from the longer one, at random ends.

Paper: Devlin et al. 2019, in the official code only (`truncate_seq_pair`).
The idea: while the two are too long together, drop a token of the longer (of the second if they are
equally long), from its front or its back with equal chance, so that no end is favoured.
What is computed here instead: the lengths that remain follow from the lengths before, and how many
tokens fall off the front of a text that loses r is the number of heads in r tosses of a coin, which
is counted from r random bits. The outcome is exactly as likely as with the loop.

Shapes: n pairs.
"""

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.rng import RandomStream

_BITS = np.array([bin(number).count("1") for number in range(256)], dtype=np.uint8)
_WORD = 32
_BLOCK = 4
"""Words that the generator makes at once."""
_TOGETHER = 1 << 18
"""Words drawn in one go; it bounds memory and does not change the result."""


def remaining(first: Int64Array, second: Int64Array, room: int) -> tuple[Int64Array, Int64Array]:
    """The lengths of two texts after cutting, (n,) each.

    Args:
        first: Lengths of the first texts, (n,).
        second: Lengths of the second texts, (n,).
        room: The most tokens of both together.
    """
    # The shorter one keeps its length as long as the other can stay the longer one. When both are
    # cut they end equally long; an odd token goes to the first, because a tie shortens the second.
    half = (room + 1) // 2
    kept = np.minimum(first, np.maximum(half, room - second))
    fits = first + second <= room
    return np.where(fits, first, kept), np.where(fits, second, room - kept)


def heads(rng: RandomStream, copy: int, positions: Int64Array, tosses: Int64Array) -> Int64Array:
    """How many of a number of fair tosses come up heads, (n,).

    Args:
        rng: Where random bits come from.
        copy: The copy they are for.
        positions: The position of the random numbers of each pair, (n,).
        tosses: How many tosses, (n,).
    """
    counts = np.zeros(len(tosses), dtype=np.int64)
    # Few texts lose many tokens: bits are drawn by size, so that one giant does not make all pay.
    blocks = -(-tosses // (_WORD * _BLOCK))
    words = np.where(blocks > 0, _BLOCK << np.ceil(np.log2(np.maximum(blocks, 1))).astype(int), 0)
    for count in np.unique(words[words > 0]).tolist():
        every = np.flatnonzero(words == count)
        rows = max(_TOGETHER // count, 1)
        for begin in range(0, len(every), rows):
            chosen = every[begin : begin + rows]
            bits = rng.words(copy, positions[chosen], count).astype(np.uint64)  # (rows, count)
            wanted = np.clip(tosses[chosen, None] - _WORD * np.arange(count), 0, _WORD)
            bits &= (np.uint64(1) << wanted.astype(np.uint64)) - np.uint64(1)
            counts[chosen] = _BITS[bits.view(np.uint8)].sum(axis=1, dtype=np.int64)
    return counts
