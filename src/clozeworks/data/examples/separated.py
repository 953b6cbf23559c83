"""Blocks of text with separators between sentences or documents.

Where separators stand follows from where sentences and documents end, so an index entry is a
stretch of tokens and a note about separators at its edges.

Shapes: B blocks, M tokens of text in all of them, N tokens with the special ones.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clozeworks.arrays import Int64Array, ranges
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import Examples, check_tokens
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.data.examples.index import ExampleIndex
from clozeworks.data.examples.outline import Outline
from clozeworks.errors import SettingError

LEADING, TRAILING = 1, 2
"""A lone separator stands before the block's text, or after it."""


@dataclass(frozen=True)
class Separators:
    """Which special tokens a block has."""

    between: int
    """The separator."""
    front: tuple[int, ...] = ()
    """Those before the text."""
    closing: tuple[int, ...] = ()
    """Those at the end."""
    after_sentences: bool = False
    """Whether one closes each sentence."""
    between_documents: bool = False
    """Whether a lone one stands between documents."""
    opening: int | None = None
    """What stands before a block's text instead of a lone separator, if it is another."""


class Separated(Examples):
    """Blocks of text with separators."""

    def __init__(
        self, split: Split, separators: Separators, length: int, index: ExampleIndex, text_type: int
    ) -> None:
        check_tokens(split)
        self.longest = length
        self._split = split
        self._separators = separators
        self._index = index
        self._type = text_type

    @cached_property
    def _ends(self) -> list[Int64Array]:
        """Ends of text with a separator after them: of sentences, of documents."""
        outline = Outline.of(self._split)
        sentences = [outline.sentences] * self._separators.after_sentences
        documents = [outline.sentences[outline.documents]] * self._separators.between_documents
        return sentences + documents

    @cached_property
    def mean_length(self) -> float:
        """Tokens of a block with special tokens, on average."""
        arrays = self._index.copy(0)
        begins = arrays["begins"].astype(np.int64)
        fixed = len(self._separators.front) + len(self._separators.closing)
        total = int(arrays["sizes"].sum()) + fixed * len(begins)
        total += int((arrays["edges"] & 1).sum() + (arrays["edges"] >> 1).sum())
        for ends in self._ends:
            first, last = _inside(ends, begins, begins + arrays["sizes"])
            total += int((last - first).sum())
        return total / len(begins)

    def size(self, epoch: int) -> int:
        """How many blocks an epoch has."""
        return self._index.size(0)

    def take(self, epoch: int, indices: Int64Array) -> ExampleArrays:
        """Some blocks of an epoch."""
        self._check(epoch, indices)
        arrays = self._index.copy(0)
        begins = arrays["begins"][indices].astype(np.int64)
        sizes = arrays["sizes"][indices].astype(np.int64)
        edges = arrays["edges"][indices]
        front, closing = self._separators.front, self._separators.closing
        starts = np.cumsum(sizes) - sizes
        leading, trailing = edges & LEADING, edges >> 1
        added = leading + trailing + (len(front) + len(closing))
        # For each special token, the number of text tokens before it in the batch.
        before = [np.repeat(starts, leading + len(front))]
        before.append(np.repeat(starts + sizes, trailing + len(closing)))
        for ends in self._ends:
            first, last = _inside(ends, begins, begins + sizes)
            inner = last - first
            added = added + inner
            positions = ends[ranges(first, inner)]
            before.append(positions + np.repeat(starts - begins, inner))
        tokens, words = self._split.gather(begins, begins + sizes)
        counts = np.bincount(np.concatenate(before), minlength=len(tokens) + 1)
        text = np.arange(len(tokens)) + np.cumsum(counts)[:-1]
        lengths = sizes + added
        stops = np.cumsum(lengths)
        ids = np.full(len(tokens) + int(added.sum()), self._separators.between, dtype=np.int64)
        if self._separators.opening is not None:
            ids[(stops - lengths + len(front))[leading == 1]] = self._separators.opening
        for index, token in enumerate(front):
            ids[stops - lengths + index] = token
        for index, token in enumerate(reversed(closing), 1):
            ids[stops - index] = token
        ids[text] = tokens
        special = np.ones(len(ids), dtype=np.bool_)
        special[text] = False
        word_starts = np.zeros(len(ids), dtype=np.bool_)
        word_starts[text] = words
        return ExampleArrays(
            ids=ids,
            types=np.full(len(ids), self._type, dtype=np.int64),
            special=special,
            word_starts=word_starts,
            lengths=lengths,
            epochs=np.full(len(indices), epoch, dtype=np.int64),
            indices=indices,
        )


def no_last_id(use: str, example: str) -> SettingError:
    """The error for a tokenizer without a last token; `use` says what it is for."""
    advice = f"use a tokenizer that has one, such as {example}, or blocks as examples"
    return SettingError("the tokenizer's last token", None, use, advice)


def _inside(
    ends: Int64Array, begins: Int64Array, stops: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Which ends lie between the first and the last token of each stretch: from, to."""
    return np.searchsorted(ends, begins, side="right"), np.searchsorted(ends, stops, side="left")
