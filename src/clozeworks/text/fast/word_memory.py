"""The ids of words that were seen before."""

from collections.abc import Iterable, Sequence
from itertools import chain, count, repeat

import numpy as np

from clozeworks.arrays import Int64Array, Uint32Array, Uint64Array, ranges

# Words that are remembered; when there are more, the rarer half is forgotten.
MOST_WORDS = 200_000
# Longer ones, such as a whole text, hardly come again.
_LONGEST_WORD = 40
# Characters of a word that room is reckoned with.
_MEAN_WORD = 20


class WordMemory:
    """Words by number, and the ids of each number as a range of one flat array."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._table = _Table()
        self._flat = np.zeros(0, np.uint32)
        self._offsets = np.zeros(1, np.int64)
        self._uses = np.zeros(0, np.int64)
        self._characters = 0

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, word: str) -> bool:
        return word in self._strings

    def codes_of(self, words: Sequence[str]) -> Int64Array:
        """The number of each word, -1 for those not known."""
        codes = map(self._strings.get, words, repeat(-1))
        return np.fromiter(codes, np.int64, len(words))

    def codes_of_pairs(self, first: Uint64Array, second: Uint64Array) -> Int64Array:
        """The number of each word that is two numbers, -1 for those not known."""
        return self._table.find(first, second)

    def ids_of(self, codes: Int64Array) -> tuple[Uint32Array, Int64Array]:
        """The ids of words, one after the other, and how many each has."""
        self._uses += np.bincount(codes, minlength=len(self._uses))
        begins = self._offsets[codes]
        sizes = self._offsets[codes + 1] - begins
        return self._flat[ranges(begins, sizes)], sizes

    def learn(self, words: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Remembers words that were not known."""
        self._strings.update(zip(words, count(len(self)), strict=False))
        self._characters += sum(map(len, words))
        self._keep(ids)

    def learn_pairs(
        self, first: Uint64Array, second: Uint64Array, ids: Sequence[Sequence[int]]
    ) -> None:
        """Remembers words that are two numbers."""
        self._table.add(first, second, np.arange(len(self), len(self) + len(ids)))
        self._keep(ids)

    def _keep(self, ids: Sequence[Sequence[int]]) -> None:
        flat, sizes = flattened(ids)
        self._offsets = np.concatenate([self._offsets, self._offsets[-1] + np.cumsum(sizes)])
        self._flat = np.concatenate([self._flat, flat])
        self._uses = np.concatenate([self._uses, np.zeros(len(ids), np.int64)])

    def forget(self) -> None:
        """Forgets the rarer half when there is too much, and long words with them."""
        if max(len(self), self._characters // _MEAN_WORD) <= MOST_WORDS:
            return
        often = np.argsort(-self._uses, kind="stable")[: MOST_WORDS // 2]
        long = [code for word, code in self._strings.items() if len(word) > _LONGEST_WORD]
        kept = np.setdiff1d(often, long)
        new = np.full(len(self), -1)
        new[kept] = np.arange(len(kept))
        renumbered = {word: int(new[code]) for word, code in self._strings.items()}
        self._strings = {word: code for word, code in renumbered.items() if code >= 0}
        self._characters = sum(map(len, self._strings))
        self._table = self._table.renumbered(new)
        uses = self._uses[kept] // 2  # what was frequent long ago counts less
        self._flat, sizes = self.ids_of(kept)
        self._uses = uses
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])


class _Table:
    """A hash table from pairs of numbers to codes, asked and filled many at a time."""

    def __init__(self) -> None:
        self._clear(16)

    def _clear(self, bits: int) -> None:
        self._bits = bits
        self._first = np.zeros(1 << bits, np.uint64)
        self._second = np.zeros(1 << bits, np.uint64)
        self._codes = np.full(1 << bits, -1, np.int64)
        self._count = 0

    def find(self, first: Uint64Array, second: Uint64Array) -> Int64Array:
        """The code of each pair, -1 for those that are not there."""
        slots = self._slots(first, second)
        codes: Int64Array = self._codes[slots]
        others = self._taken_by_others(codes, slots, first, second)
        while len(others):
            tried = slots[others] = self._next(slots[others])
            codes[others] = self._codes[tried]
            wrong = self._taken_by_others(codes[others], tried, first[others], second[others])
            others = others[wrong]
        return codes

    def add(self, first: Uint64Array, second: Uint64Array, codes: Int64Array) -> None:
        """Puts in pairs that are not there, each once."""
        while 2 * (self._count + len(codes)) > len(self._codes):
            before = self._pairs()
            self._clear(self._bits + 1)
            self.add(*before)
        self._count += len(codes)
        slots = self._slots(first, second)
        while len(codes):
            free = self._codes[slots] < 0
            self._codes[slots[free]] = codes[free]  # of several for one slot the last has it
            has = self._codes[slots] == codes
            self._first[slots[has]], self._second[slots[has]] = first[has], second[has]
            first, second, codes, slots = first[~has], second[~has], codes[~has], slots[~has]
            slots = self._next(slots)

    def renumbered(self, new: Int64Array) -> "_Table":
        """The pairs under new codes, without those whose new code is negative."""
        first, second, codes = self._pairs()
        codes = new[codes]
        kept = codes >= 0
        table = _Table()
        table.add(first[kept], second[kept], codes[kept])
        return table

    def _pairs(self) -> tuple[Uint64Array, Uint64Array, Int64Array]:
        used = self._codes >= 0
        return self._first[used], self._second[used], self._codes[used]

    def _slots(self, first: Uint64Array, second: Uint64Array) -> Int64Array:
        mixed = first * np.uint64(0x9E3779B97F4A7C15) ^ second * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, slots: Int64Array) -> Int64Array:
        return (slots + 1) & (len(self._codes) - 1)

    def _taken_by_others(
        self, codes: Int64Array, slots: Int64Array, first: Uint64Array, second: Uint64Array
    ) -> Int64Array:
        other = (self._first[slots] != first) | (self._second[slots] != second)
        return np.flatnonzero(other & (codes >= 0))


def flattened(ids: Sequence[Sequence[int]]) -> tuple[Uint32Array, Int64Array]:
    """Lists of ids as one array, and their lengths."""
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    flat: Iterable[int] = chain.from_iterable(ids)
    return np.fromiter(flat, np.uint32, int(lengths.sum())), lengths
