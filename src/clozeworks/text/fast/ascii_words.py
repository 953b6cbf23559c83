"""The words of many ASCII texts at once, as numbers.

The idea: the bytes of all texts stand in one array; where a word begins and ends is a comparison of
neighbouring bytes; and a word of up to sixteen bytes is two 64-bit numbers, which are compared and
looked up without making a string of it.

Shapes: B bytes of all texts, W words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Uint64Array

# Bytes that fit in the two numbers of a word.
LONGEST_WORD = 16
_SPACE = ord(" ")
# What is left of eight bytes when 0 to 8 of them count; the first byte is the lowest.
_KEPT = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


@dataclass(frozen=True)
class WordTable:
    """The words of some texts."""

    first: Uint64Array
    """Eight bytes of each word, (W,)."""
    second: Uint64Array
    """The eight after them, (W,)."""
    long: NDArray[np.int64]
    """Positions of the words that do not fit; of these the numbers mean nothing."""
    long_words: list[str]
    """Those words as strings."""
    counts: NDArray[np.int64]
    """How many words each text has."""


class AsciiWords:
    """Cuts printable ASCII; `takes_all` says whether every character of it.

    Args:
        kind_of: The kind of a character, 0 to 255: neighbours of one kind are a word together.
            Spaces are not asked for.
        alone: The kind whose characters are words of their own.
        with_space: Whether the space before a word belongs to it.
        without: Characters that follow other rules; texts with one of them are not taken.
        lower: Whether capital letters are made small.
    """

    def __init__(
        self,
        kind_of: Callable[[str], int],
        *,
        alone: int | None = None,
        with_space: bool = False,
        without: str = "",
        lower: bool = False,
    ) -> None:
        self._kinds = np.zeros(256, np.uint8)
        for code in range(_SPACE + 1, 127):
            self._kinds[code] = kind_of(chr(code)) + 1
        self._alone = None if alone is None else alone + 1
        self._with_space = with_space
        self._without = without
        self.takes_all = not without
        self._small = np.arange(256, dtype=np.uint8)
        if lower:
            self._small[ord("A") : ord("Z") + 1] += 32

    def takes(self, text: str) -> bool:
        """Says whether a text is printable ASCII with single spaces between its words."""
        if not (text.isascii() and text.isprintable()) or "  " in text:
            return False
        if text[:1] == " " or text[-1:] == " ":
            return False
        return self.takes_all or not any(mark in text for mark in self._without)

    def cut(self, texts: Sequence[str]) -> WordTable:
        """The words of texts that `takes` allows."""
        joined = "\n".join(texts) + "\n" * LONGEST_WORD
        letters = self._small[np.frombuffer(joined.encode("ascii"), np.uint8)]  # (B,)
        kinds = self._kinds[letters]  # (B,)
        joins = kinds[1:] == kinds[:-1]
        if self._alone is not None:
            joins &= kinds[1:] != self._alone
        begins, ends = kinds > 0, kinds > 0
        begins[1:] &= ~joins
        ends[:-1] &= ~joins
        begin = np.flatnonzero(begins)  # (W,)
        end = np.flatnonzero(ends) + 1  # (W,)
        borders = np.cumsum([len(text) + 1 for text in texts])
        counts = np.diff(np.searchsorted(begin, borders), prepend=0)
        if self._with_space:
            begin -= letters[begin - 1] == _SPACE  # after the last text stands no space
        sizes = end - begin
        # Eight bytes from every position on, as one number each.
        eights: Uint64Array = np.ndarray(len(letters) - 7, "<u8", letters, strides=(1,))
        first = eights[begin] & _KEPT[np.minimum(sizes, 8)]
        second = np.zeros_like(first)
        more = np.flatnonzero(sizes > 8)
        second[more] = eights[begin[more] + 8] & _KEPT[np.minimum(sizes[more] - 8, 8)]
        long = np.flatnonzero(sizes > LONGEST_WORD)
        text = letters.tobytes()
        long_words = [text[begin[position] : end[position]].decode() for position in long.tolist()]
        return WordTable(first, second, long, long_words, counts)


def written(first: Uint64Array, second: Uint64Array) -> list[str]:
    """Words as strings again."""
    pairs = np.stack([first, second], axis=1).astype("<u8")
    return [word.decode() for word in pairs.view("S16").ravel().tolist()]
