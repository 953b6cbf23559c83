"""Where sentences and documents begin, without those that have no tokens; and how they are cut.

Cutting text greedily is a chain of positions: the chunk that begins at sentence i ends where the
next one begins. Where each *possible* chunk would end is computed for all positions at once; only
the steps from position to position are taken one by one, at about 0.1 µs each.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import Int64Array, ranges
from clozeworks.data.corpus.corpus import Split

GROUP = 1 << 18
"""Positions looked at together; it bounds memory and does not change the result."""


@dataclass(frozen=True)
class Outline:
    """The sentences and documents of a split that have tokens; their numbers count only these."""

    sentences: Int64Array
    """The first token of every sentence, and the end, (S + 1,)."""
    documents: Int64Array
    """The first sentence of every document, and the end, (D + 1,)."""

    @classmethod
    def of(cls, split: Split) -> "Outline":
        """Leaves out what is empty; shares the arrays of the split if nothing is."""
        sentences, documents = split.sentence_offsets, split.document_offsets
        filled = sentences[1:] > sentences[:-1]
        if not filled.all():
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(filled)])
            sentences = np.concatenate([sentences[:-1][filled], sentences[-1:]])
            documents = before[documents]
        some = documents[1:] > documents[:-1]
        if not some.all():
            documents = np.concatenate([documents[:-1][some], documents[-1:]])
        return cls(sentences, documents)

    def document_of(self, sentences: Int64Array) -> Int64Array:
        """The document each sentence stands in."""
        return np.searchsorted(self.documents, sentences, side="right") - 1


def cut_long(sizes: Int64Array, room: int) -> tuple[Int64Array, Int64Array]:
    """How many pieces of at most `room` tokens stretches are cut into, and each piece's number."""
    counts = -(-sizes // room)
    return counts, ranges(0, counts)


def chain(count: int, after: Callable[[Int64Array], Int64Array], group: int = GROUP) -> Int64Array:
    """The positions visited from 0 on, up to but not `count`.

    Args:
        count: How many positions there are.
        after: The next position for each of some positions; always further on.
        group: How many positions are looked at together.
    """
    visited: list[Int64Array] = []
    index = 0
    while index < count:
        begin, end = index, min(index + group, count)
        following = after(np.arange(begin, end)).tolist()
        steps: list[int] = []
        while index < end:
            steps.append(index)
            index = following[index - begin]
        visited.append(np.array(steps, dtype=np.int64))
    return np.concatenate([*visited, np.zeros(0, np.int64)])
