"""Random numbers as a function of where they are needed.

Paper: Salmon, Moraes, Dror, Shaw 2011 (Philox4x32-10).
The idea: a counter-based generator has no state. The number for (seed, stream, epoch, index, draw)
is computed when it is asked for, so neither the order of asking, nor the number of workers, nor a
restart can change it.

Shapes: B positions where numbers are needed, n numbers at each.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike

from clozeworks.arrays import Float64Array, Int64Array, Uint32Array

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(
    counter: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], key: tuple[int, int]
) -> Uint32Array:
    """Philox4x32-10: four words of 32 random bits for each counter.

    Args:
        counter: Four arrays of 32-bit words that broadcast to one shape.
        key: Two 32-bit words.

    Returns:
        The words, with one more dimension of four.
    """
    shape = np.broadcast(*counter).shape
    state = np.empty((6, *shape), dtype=np.uint64)
    for position, word in enumerate(counter):
        state[position] = word
    # The rows are overwritten in place: for a batch of examples the cost is that of calling numpy,
    # and memory that is taken anew each time would be a third of it.
    a, b, c, d, left, right = state.reshape(6, -1)
    for step in range(_ROUNDS):
        first = np.uint64((key[0] + step * _STEPS[0]) & 0xFFFFFFFF)
        second = np.uint64((key[1] + step * _STEPS[1]) & 0xFFFFFFFF)
        np.multiply(a, _MULTIPLIERS[0], out=left)
        np.multiply(c, _MULTIPLIERS[1], out=right)
        np.right_shift(right, _HALF, out=a)
        np.bitwise_xor(a, b, out=a)
        np.bitwise_xor(a, first, out=a)
        np.right_shift(left, _HALF, out=c)
        np.bitwise_xor(c, d, out=c)
        np.bitwise_xor(c, second, out=c)
        np.bitwise_and(right, _LOW, out=b)
        np.bitwise_and(left, _LOW, out=d)
    words = np.empty((*shape, 4), dtype=np.uint32)
    for position in range(4):
        words[..., position] = state[position]
    return words


class RandomStream:
    """One named stream of random numbers.

    Epochs and indices say where numbers are needed; both may be single numbers or arrays of B.
    """

    def __init__(self, seed: int, stream: str) -> None:
        self.seed = seed
        self.name = stream
        digest = blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
        self._key = (int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little"))

    def stream(self, name: str) -> "RandomStream":
        """A stream of its own under this one."""
        return RandomStream(self.seed, f"{self.name}/{name}")

    def words(self, epochs: ArrayLike, indices: ArrayLike, count: int) -> Uint32Array:
        """32 random bits for each draw, (B, n)."""
        epochs = np.asarray(epochs, dtype=np.uint64).reshape(-1, 1)
        indices = np.asarray(indices, dtype=np.uint64).reshape(-1, 1)
        blocks = np.arange(-(-count // 4), dtype=np.uint64)
        words = philox((blocks, indices & _LOW, indices >> _HALF, epochs), self._key)
        return words.reshape(len(words), 4 * len(blocks))[:, :count]

    def four(self, epochs: ArrayLike, indices: ArrayLike, blocks: ArrayLike) -> Uint32Array:
        """Four draws for each place, (B, 4): those that `words` has from 4 * block on."""
        epochs, indices, blocks = (
            np.asarray(numbers, dtype=np.uint64).reshape(-1)
            for numbers in (epochs, indices, blocks)
        )
        return philox((blocks, indices & _LOW, indices >> _HALF, epochs), self._key)

    def uniform(self, epochs: ArrayLike, indices: ArrayLike, count: int) -> Float64Array:
        """Numbers from 0 up to but not 1, (B, n)."""
        return uniforms(self.words(epochs, indices, count))

    def permutation(self, epoch: int, size: int) -> Int64Array:
        """The numbers 0 to size - 1 in random order."""
        return order(self.words(epoch, 0, size)[0])


def uniforms(words: Uint32Array) -> Float64Array:
    """Words as numbers from 0 up to but not 1."""
    return words.astype(np.float64) * 2.0**-32


def below(words: Uint32Array, limit: ArrayLike) -> Int64Array:
    """Words as whole numbers from 0 to limit - 1; the limits broadcast, up to 2^32 each.

    No number is likelier than another by more than limit / 2^32 of its share.
    """
    scaled = words.astype(np.uint64) * np.asarray(limit).astype(np.uint64)
    return (scaled >> _HALF).astype(np.int64)


def fine_uniforms(words: Uint32Array) -> Float64Array:
    """Pairs of words (..., 2) as numbers from 0 up to but not 1, all 52 digits random."""
    uniforms: Float64Array = words[..., 0] * 2.0**-32 + (words[..., 1] >> np.uint32(12)) * 2.0**-52
    return uniforms


def far_below(words: Uint32Array, limit: ArrayLike) -> Int64Array:
    """Pairs of words (..., 2) as whole numbers from 0 to limit - 1, for limits up to 2^52."""
    limits = np.asarray(limit, dtype=np.int64)
    return np.minimum((fine_uniforms(words) * limits).astype(np.int64), limits - 1)


def order(words: Uint32Array) -> Int64Array:
    """The positions 0 to n - 1 along the last dimension, in the order of the words."""
    # The place in the low half breaks ties, and sorting whole numbers is faster than argsort.
    positions = np.arange(words.shape[-1], dtype=np.uint64)
    keyed = (words.astype(np.uint64) << _HALF) | positions
    keyed.sort(axis=-1)
    return (keyed & _LOW).astype(np.int64)
