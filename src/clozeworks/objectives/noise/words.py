"""Where the words and the segments of a batch begin and end.

A segment is a run of tokens of one text: a special token, a change of type and the end of an
example all end it. A word never leaves its segment.

Shapes: N tokens, B examples, U words of all examples, n chosen tokens.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays


def segment_begins(clean: ExampleArrays) -> BoolArray:
    """Which tokens are the first of a segment, (N,)."""
    text = ~clean.special
    goes_on = np.zeros_like(text)
    goes_on[1:] = text[:-1] & (clean.types[1:] == clean.types[:-1])
    goes_on[clean.starts[clean.lengths > 0]] = False
    return text & ~goes_on


def pieces_of_examples(clean: ExampleArrays) -> Int64Array:
    """How many tokens of text each example has, (B,)."""
    before: Int64Array = np.concatenate([np.zeros(1, np.int64), np.cumsum(~clean.special)])
    pieces: Int64Array = before[clean.starts + clean.lengths] - before[clean.starts]
    return pieces


def rows_of(clean: ExampleArrays, positions: Int64Array) -> Int64Array:
    """The example each of some tokens belongs to, (n,)."""
    return np.repeat(np.arange(len(clean)), clean.lengths)[positions]


@dataclass(frozen=True)
class TextWords:
    """The words of a batch in reading order."""

    starts: Int64Array
    """Each word's first token among all tokens, (U,)."""
    ends: Int64Array
    """The end of each word, (U,)."""
    segment_ends: Int64Array
    """The number of the first word after the word's segment, (U,)."""
    rows: Int64Array
    """The example each word belongs to, (U,)."""
    begins: Int64Array
    """Each word's first token within its example, (U,)."""

    @classmethod
    def of(cls, clean: ExampleArrays) -> "TextWords":
        """Finds the words of a batch."""
        segments = segment_begins(clean)
        firsts = segments | clean.word_starts
        edges = np.flatnonzero(firsts | clean.special)
        is_word = firsts[edges]
        starts = edges[is_word]
        ends = np.append(edges[1:], len(clean.ids))[is_word]
        number = np.cumsum(segments[starts])  # the segment of each word
        rows = rows_of(clean, starts)
        return cls(
            starts,
            ends,
            np.searchsorted(number, number, side="right"),
            rows,
            starts - clean.starts[rows],
        )

    def positions(self, taken: BoolArray) -> Int64Array:
        """All tokens of the taken words (U,), in ascending order."""
        starts = self.starts[taken]
        sizes = self.ends[taken] - starts
        before = np.cumsum(sizes) - sizes
        positions: Int64Array = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
        return positions

    def in_order(self, draws: Uint32Array, examples: int) -> list[list[int]]:
        """The words of each example in the order of a draw (U,) for each."""
        # Stable, so that a word's position decides between equal draws.
        order = np.argsort((self.rows << 32) | draws, kind="stable").tolist()
        bounds = np.searchsorted(self.rows, np.arange(examples + 1)).tolist()
        return [order[begin:end] for begin, end in pairwise(bounds)]
