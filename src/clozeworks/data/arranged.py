"""Examples as they stand before anything is hidden: packed tokens with their special tokens.

Shapes: N tokens of all examples, B examples, T texts per example, L the longest example.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.data.corpus import Split
from clozeworks.data.shards import Flags, Numbers
from clozeworks.text.template import Template


@dataclass(frozen=True)
class Arranged:
    """A batch of examples, one after the other.

    Attributes:
        ids: Token ids, (N,).
        types: Segment types, (N,).
        special: Which tokens the template added; these are never hidden, (N,).
        word_starts: Which tokens begin a word; special tokens do not, (N,).
        lengths: Tokens of each example, (B,).
        epochs: The epoch each example belongs to, (B,).
        indices: A number of its own in the epoch for each example, (B,).
        labels: What the arrangement knows of each example, such as 1 for a random second text,
            (B,); None if it has nothing to say.
        views: How many neighbouring examples belong together, such as a text and its positive.
    """

    ids: Numbers
    types: Numbers
    special: Flags
    word_starts: Flags
    lengths: Numbers
    epochs: Numbers
    indices: Numbers
    labels: Numbers | None = None
    views: int = 1

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Numbers:
        """The first token of each example, (B,)."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def real(self) -> Flags:
        """Which places of the examples as rows hold a token, (B, L)."""
        longest = int(self.lengths.max(initial=0))
        return np.arange(longest) < self.lengths[:, None]

    @classmethod
    def join(cls, pieces: Sequence["Arranged"]) -> "Arranged":
        """Several batches of one arrangement as one, in order."""
        if len(pieces) == 1:
            return pieces[0]
        joined = {
            field.name: np.concatenate([getattr(piece, field.name) for piece in pieces])
            for field in fields(cls)
            if field.name not in ("labels", "views")
        }
        labels = [piece.labels for piece in pieces if piece.labels is not None]
        return cls(
            **joined, labels=np.concatenate(labels) if labels else None, views=pieces[0].views
        )

    def rows(self, x: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Packed values (N,) as rows (B, L), filled behind the end of each example."""
        rows = np.full(self.real.shape, fill, dtype=x.dtype)
        rows[self.real] = x
        return rows


def assemble(
    split: Split,
    template: Template,
    begins: Numbers,
    ends: Numbers,
    *,
    epochs: Numbers,
    indices: Numbers,
    labels: Numbers | None = None,
) -> Arranged:
    """Reads stretches of tokens and puts the special tokens around them.

    Args:
        split: Where the tokens are.
        template: Special tokens for T texts.
        begins: The first token of each text of each example, (B, T).
        ends: The end of each, (B, T).
        epochs: The epoch of each example, (B,).
        indices: Its number, (B,).
        labels: What is known of it, (B,).
    """
    texts = [
        [split.read(int(begin), int(end)) for begin, end in zip(*row, strict=True)]
        for row in zip(begins, ends, strict=True)
    ]
    return place(template, texts, epochs=epochs, indices=indices, labels=labels)


def place(
    template: Template,
    texts: Sequence[Sequence[tuple[NDArray[Any], Flags]]],
    *,
    epochs: Numbers,
    indices: Numbers,
    labels: Numbers | None = None,
) -> Arranged:
    """Puts the special tokens around texts that were read already.

    Args:
        template: Special tokens for T texts.
        texts: Per example and text the tokens and which of them begin a word.
        epochs: The epoch of each example, (B,).
        indices: Its number, (B,).
        labels: What is known of it, (B,).
    """
    special = [np.array(ids, dtype=np.int64) for ids in template.special]
    nothing = [np.zeros(len(ids), dtype=np.bool_) for ids in template.special]
    added = np.array([len(ids) for ids in template.special])
    sizes = np.array([[len(tokens) for tokens, _ in example] for example in texts], dtype=np.int64)
    sizes = sizes.reshape(len(texts), len(special) - 1)
    ids: list[NDArray[Any]] = []
    words: list[Flags] = []
    for example in texts:
        for number, (tokens, starts) in enumerate(example):
            ids += (special[number], tokens)
            words += (nothing[number], starts)
        ids.append(special[-1])
        words.append(nothing[-1])
    # Runs of equal type: each special token alone, each text as a whole.
    runs: list[Numbers] = []
    run_types: list[int] = []
    run_special: list[bool] = []
    for number, types in enumerate(template.special_types):
        runs += [np.ones(len(sizes), dtype=np.int64)] * len(types)
        run_types += types
        run_special += [True] * len(types)
        if number < len(template.text_types):
            runs.append(sizes[:, number])
            run_types.append(template.text_types[number])
            run_special.append(False)
    counts = np.stack(runs, axis=1).ravel() if len(sizes) else np.zeros(0, dtype=np.int64)
    return Arranged(
        ids=np.concatenate([*ids, np.zeros(0, np.int64)]).astype(np.int64, copy=False),
        types=np.repeat(np.tile(np.array(run_types, np.int64), len(sizes)), counts),
        special=np.repeat(np.tile(np.array(run_special, np.bool_), len(sizes)), counts),
        word_starts=np.concatenate([*words, np.zeros(0, np.bool_)]),
        lengths=sizes.sum(axis=1) + added.sum(),
        epochs=epochs,
        indices=indices,
        labels=labels,
    )
