"""Long texts as overlapping windows: which tokens each window holds, and which it judges.

Paper: Devlin et al. 2019 (the released SQuAD code), where tokens see both sides; Radford et al.
2019, where they see only what comes before.
Where code differs: BERT's `doc_stride` is the step from one window to the next, the `stride` of
tokenizer libraries is the overlap. Here it is called overlap and is one.

Shapes: T tokens of the text.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clozeworks.arrays import Int64Array

# What is added to a window's context for its length, so that of two equal ones the longer counts.
_LONGER = 0.01


class WindowSpan(NamedTuple):
    """Positions of one window in its text."""

    begin: int
    """Its first token."""
    judged: int
    """The first token that no window before it holds."""
    end: int
    """The position after its last token."""


def sliding_windows(
    length: int, size: int, overlap: int, *, first: int = 0, full: bool = False
) -> Iterator[WindowSpan]:
    """Windows that hold all tokens from `first` on, each beginning with the end of the one before.

    Args:
        length: Tokens in all.
        size: The most tokens of a window.
        overlap: Tokens of the window before, at least 0 and below `size`.
        first: The first token that is judged; those before it are context where there is room.
        full: Whether the last window begins earlier, to be as long as the others.
    """
    judged = first
    while True:
        end = min(length, size if judged < size else judged + size - overlap)
        yield WindowSpan(max(0, end - size if full else judged - overlap), judged, end)
        if end >= length:
            return
        judged = end


def most_context(spans: Sequence[tuple[int, int]]) -> Int64Array:
    """Which window judges each token where tokens see both sides: the one with most context, (T,).

    Context is the smaller of what stands to the left and to the right; of equal windows the first.

    Args:
        spans: Where each window begins and ends; together they hold all tokens.
    """
    total = max(end for _, end in spans)
    best = np.full(total, -1.0)
    owner = np.zeros(total, np.int64)
    for number, (begin, end) in enumerate(spans):
        positions = np.arange(end - begin)
        context = np.minimum(positions, end - begin - 1 - positions) + _LONGER * (end - begin)
        better = context > best[begin:end]
        best[begin:end] = np.where(better, context, best[begin:end])
        owner[begin:end] = np.where(better, number, owner[begin:end])
    return owner
