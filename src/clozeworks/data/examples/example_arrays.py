"""Examples as they stand before anything is hidden: packed tokens with their special tokens.

Shapes: N tokens of all examples, B examples, T texts per example, L the longest example.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import BoolArray, Int64Array, ranges
from clozeworks.data.corpus.corpus import Split
from clozeworks.text.tokenizer.templates import Template

_BY_TOKEN = ("ids", "types", "special", "word_starts", "token_labels")


@dataclass(frozen=True)
class ExampleArrays:
    """A batch of examples, one after the other."""

    ids: Int64Array
    """Token ids, (N,)."""
    types: Int64Array
    """Segment types, (N,)."""
    special: BoolArray
    """Which tokens the template added; these are never hidden, (N,)."""
    word_starts: BoolArray
    """Which tokens begin a word; special tokens do not, (N,)."""
    lengths: Int64Array
    """Tokens of each example, (B,)."""
    epochs: Int64Array
    """The epoch each example belongs to, (B,)."""
    indices: Int64Array
    """A number of its own in the epoch for each example, (B,)."""
    labels: NDArray[Any] | None = None
    """What is known of each example, such as 1 for a random second text, (B, …); None if it has
    nothing to say."""
    token_labels: Int64Array | None = None
    """What is known of each token, -1 for nothing, (N,); None if it is nothing at all."""
    views: int = 1
    """How many neighbouring examples belong together, such as a text and its positive."""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Int64Array:
        """The first token of each example, (B,)."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def real(self) -> BoolArray:
        """Which positions of the examples as rows hold a token, (B, L)."""
        longest = int(self.lengths.max(initial=0))
        return np.arange(longest) < self.lengths[:, None]

    @classmethod
    def join(cls, pieces: Sequence["ExampleArrays"]) -> "ExampleArrays":
        """Several batches of one kind of examples as one, in order."""
        if len(pieces) == 1:
            return pieces[0]
        joined = {
            field.name: np.concatenate([getattr(piece, field.name) for piece in pieces])
            for field in fields(cls)
            if field.name != "views" and getattr(pieces[0], field.name) is not None
        }
        return cls(**joined, views=pieces[0].views)

    def cut(self, pieces: int) -> list["ExampleArrays"]:
        """Pieces of about equally many tokens, in order; fewer where there are fewer examples.

        Views that belong together stay together.
        """
        ends = np.cumsum(self.lengths)[self.views - 1 :: self.views]  # of whole groups
        wanted = np.arange(1, pieces) * (ends[-1] / pieces if len(ends) else 0)
        groups = np.unique(np.concatenate([[0], np.searchsorted(ends, wanted) + 1, [len(ends)]]))
        borders = np.minimum(groups, len(ends)) * self.views
        return [self._between(begin, end) for begin, end in pairwise(np.unique(borders))]

    def _between(self, begin: int, end: int) -> "ExampleArrays":
        """The examples from one number to before another."""
        if (begin, end) == (0, len(self)):
            return self
        tokens = slice(int(self.starts[begin]), int(self.starts[end - 1] + self.lengths[end - 1]))
        return self._picked(slice(begin, end), tokens, self.views)

    def tokens_of(self, numbers: Int64Array) -> Int64Array:
        """The positions of the tokens of some examples, one after the other."""
        return ranges(self.starts[numbers], self.lengths[numbers])

    def some(self, numbers: Int64Array) -> "ExampleArrays":
        """Some examples (n,) in this order, each on its own: views are not kept together."""
        return self._picked(numbers, self.tokens_of(numbers), 1)

    def _picked(
        self, examples: slice | Int64Array, tokens: slice | Int64Array, views: int
    ) -> "ExampleArrays":
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in arrays.keys() - {"views"}:
            if arrays[name] is not None:
                arrays[name] = arrays[name][tokens if name in _BY_TOKEN else examples]
        return ExampleArrays(**{**arrays, "views": views})

    def rows(self, x: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Packed values (N,) as rows (B, L), filled after the end of each example."""
        rows = np.full(self.real.shape, fill, dtype=x.dtype)
        rows[self.real] = x
        return rows


def assemble(
    split: Split,
    template: Template,
    begins: Int64Array,
    ends: Int64Array,
    *,
    epochs: Int64Array,
    indices: Int64Array,
    labels: Int64Array | None = None,
    views: int = 1,
) -> ExampleArrays:
    """Reads stretches of tokens and puts the special tokens around them, as `lay_out` does.

    Each text of each example begins at one of `begins`, (B, T), and ends at one of `ends`; `views`
    neighbours belong together.
    """
    tokens, words = split.gather(begins.ravel(), ends.ravel())
    examples = lay_out(
        template, ends - begins, tokens, words, epochs=epochs, indices=indices, labels=labels
    )
    return replace(examples, views=views)


def lay_out(
    template: Template,
    sizes: Int64Array,
    tokens: NDArray[Any],
    words: BoolArray,
    *,
    epochs: Int64Array,
    indices: Int64Array,
    labels: Int64Array | None = None,
) -> ExampleArrays:
    """Puts the special tokens around texts that were read already.

    Args:
        template: Special tokens for T texts.
        sizes: Tokens of each text of each example, (B, T).
        tokens: The tokens of all texts, one after the other.
        words: Which of them begin a word.
        epochs: The epoch of each example, (B,).
        indices: Its number, (B,).
        labels: What is known of it, (B,).
    """
    # Special tokens and texts alternate. Within both the order is that of the result, so a mask of
    # what is special is all it takes to put each token in its place.
    count, texts = sizes.shape
    added = [len(ids) for ids in template.special]
    runs = np.empty((count, 2 * texts + 1), dtype=np.int64)
    runs[:, 0::2] = added
    runs[:, 1::2] = sizes
    is_special = np.arange(2 * texts + 1) % 2 == 0
    special = np.repeat(np.tile(is_special, count), runs.ravel())
    text = ~special
    special_ids = np.array([token for ids in template.special for token in ids], dtype=np.int64)
    ids = np.empty(len(special), dtype=np.int64)
    ids[text] = tokens
    ids[special] = np.tile(special_ids, count)
    starts = np.zeros(len(special), dtype=np.bool_)
    starts[text] = words
    return ExampleArrays(
        ids=ids,
        types=_types(template, sizes, special),
        special=special,
        word_starts=starts,
        lengths=sizes.sum(axis=1) + sum(added),
        epochs=epochs,
        indices=indices,
        labels=labels,
    )


def _types(template: Template, sizes: Int64Array, special: BoolArray) -> Int64Array:
    kinds = [kind for kinds in template.special_types for kind in kinds]
    if len({*kinds, *template.text_types}) == 1:
        return np.full(len(special), template.text_types[0], dtype=np.int64)
    types = np.empty(len(special), dtype=np.int64)
    types[special] = np.tile(np.array(kinds, dtype=np.int64), len(sizes))
    text_types = np.tile(np.array(template.text_types, dtype=np.int64), len(sizes))
    types[~special] = np.repeat(text_types, sizes.ravel())
    return types
