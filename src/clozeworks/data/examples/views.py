"""Several sequences that belong together, for contrastive learning.

Paper: Gao et al. 2021 (SimCSE); Logeswaran & Lee 2018 (neighbouring sentences).
The idea: pull sequences of an example together and push those of others apart. What belongs
together is a sentence and itself (dropout makes the difference), a sentence and the next one, or
what the corpus gives.
How they stand: the views of an example are neighbours in a batch: view 0 of example 0, view 1 of
example 0, view 0 of example 1 and so on. Each is a sequence of its own; a sentence that is too
long is cut at its end.
Used by: contrastive objectives.

Shapes: B examples, V views.
"""

from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import Examples, ExamplesSpec, Stretches, TextBounds, room_within
from clozeworks.data.examples.outline import Outline
from clozeworks.errors import InputError
from clozeworks.spec import spec
from clozeworks.text.tokenizer.templates import template
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted


@spec
class Twice(ExamplesSpec):
    """A sentence, twice: dropout makes the difference."""

    paper: ClassVar[str] = "Gao et al. 2021"

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Takes the sentences of a split; nothing is random and no index is needed."""
        return _Twice(split, tokenizer, self.length)


@spec
class Neighbours(ExamplesSpec):
    """A sentence and the one after it in the same document."""

    paper: ClassVar[str] = "Logeswaran & Lee 2018"

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Takes the sentences of a split; nothing is random and no index is needed."""
        return _Neighbours(split, tokenizer, self.length).checked(
            "neighbours are two sentences of one document, and every document has only one; build "
            "the corpus from longer documents, or use each sentence twice."
        )


@spec
class Given(ExamplesSpec):
    """Documents that are groups of texts: one and its positive, or these and a negative."""

    paper: ClassVar[str] = "Gao et al. 2021"

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Takes the groups of a split; nothing is random and no index is needed."""
        return _Given(split, tokenizer, self.length)


class _Views(Stretches):
    views = 2

    def __init__(self, split: Split, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(split, template(tokenizer, 1), length)
        self._room = room_within(length, self._template.added)
        self._outline = Outline.of(split)

    @abstractmethod
    def _sentences(self, indices: Int64Array) -> Int64Array:
        """The sentences of examples, (B, V)."""

    @cached_property
    def mean_length(self) -> float:
        sentences = self._sentences(np.arange(self.size(0)))
        sizes = np.minimum(np.diff(self._outline.sentences), self._room)
        return self.views * (float(sizes[sentences].mean()) + self._template.added)

    def _texts(self, epoch: int, indices: Int64Array) -> TextBounds:
        sentences = self._sentences(indices).reshape(-1, 1)
        begins, ends = self._outline.sentences[sentences], self._outline.sentences[sentences + 1]
        return begins, np.minimum(ends, begins + self._room), None


class _Twice(_Views):
    def size(self, epoch: int) -> int:
        return len(self._outline.sentences) - 1

    def _sentences(self, indices: Int64Array) -> Int64Array:
        return np.stack([indices, indices], axis=1)


class _Neighbours(_Views):
    @cached_property
    def _before(self) -> Int64Array:
        """How many examples lie before each document: one less than sentences for each."""
        return self._outline.documents - np.arange(len(self._outline.documents))

    def size(self, epoch: int) -> int:
        return int(self._before[-1])

    def _sentences(self, indices: Int64Array) -> Int64Array:
        first = indices + np.searchsorted(self._before, indices, side="right") - 1
        return np.stack([first, first + 1], axis=1)


class _Given(_Views):
    def __init__(self, split: Split, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(split, tokenizer, length)
        self.views = _group_size(split)

    def size(self, epoch: int) -> int:
        return len(self._outline.documents) - 1

    def _sentences(self, indices: Int64Array) -> Int64Array:
        return self._outline.documents[indices][:, None] + np.arange(self.views)


def _group_size(split: Split) -> int:
    """How many texts every group has: 2 or 3.

    Raises:
        InputError: If a document has another number, or not all have the same.
    """
    filled = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(split.sentence_offsets) > 0)])
    counts = np.diff(filled[split.document_offsets])
    groups = np.flatnonzero(counts)
    views = int(counts[groups[0]])
    wrong = groups[(counts[groups] != views) | (counts[groups] < 2) | (counts[groups] > 3)]
    if len(wrong) == 0:
        return views
    number, count = int(wrong[0]), int(counts[wrong[0]])
    if count in (2, 3):
        rule = f"document {groups[0] + 1:,} has {views}, and all must have the same number"
    else:
        rule = "a group is a text and its positive, or these and a negative"
    raise InputError(
        f"document {number + 1:,} of the {split.name} part has "
        f"{counted(count, 'sentence')}; {rule}; give every document 2 lines or 3 lines, and "
        "build the corpus with every line as a sentence."
    )
