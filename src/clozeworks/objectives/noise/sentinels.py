"""A text with sentinels for what is masked, and what is masked with sentinels for the text.

Paper: Raffel et al. 2020 (T5).
The idea: in the input a sentinel stands for each run of masked tokens, in the target for each run
of kept ones. Both count sentinels from the first in order of appearance, so either can be put
together with the other.
Where paper and code differ: the paper's figure ends its target with a sentinel. That is the same
rule, for its text ends with kept tokens; T5's own masks cover the end of a text, and no sentinel
closes the target. A text that begins with masked tokens has them before the first sentinel of its
target.
Used by: span corruption and its relatives.

Shapes: N tokens, B examples, n tokens of the targets.
"""

from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array
from clozeworks.data.examples.example_arrays import ExampleArrays


@dataclass(frozen=True)
class Corrupted:
    """Inputs and targets."""

    inputs: Int64Array
    """What is shown, one example after the other."""
    input_lengths: Int64Array
    """Tokens of each, (B,)."""
    targets: Int64Array
    """What is predicted, (n,)."""
    target_lengths: Int64Array
    """Tokens of each, (B,)."""
    merged: Int64Array
    """How many spans each example has too many for the sentinels there are, (B,)."""


def corrupt(
    clean: ExampleArrays, positions: Int64Array, sentinels: Int64Array, end: int
) -> Corrupted:
    """Texts with sentinels for masked positions, in ascending order, and what stood there.

    What the template put around a text stays in the input; where it stands between two texts it
    ends a span, and counts as kept. If there are not enough sentinels, the last one stands for all
    that is left: from its span to the end of the last one everything is masked. The token `end`
    closes every target.
    """
    rows = np.repeat(np.arange(len(clean)), clean.lengths)
    masked = np.zeros(len(clean.ids), dtype=np.bool_)
    masked[positions] = True
    inner = between_texts(clean, rows)
    merged = _merge(clean, masked, inner, rows, len(sentinels))
    begins = _begins(masked, inner, rows)
    ids, lengths = [], []
    for shown, standing in ((~masked, begins & masked), (masked, begins & ~masked)):
        # A sentinel's number is that of the runs of its kind before it in its example.
        number = np.cumsum(standing)
        before = np.concatenate([np.zeros(1, np.int64), number])[clean.starts]
        written = clean.ids.copy()
        written[standing] = sentinels[number[standing] - before[rows[standing]] - 1]
        keep = shown | standing
        ids.append(written[keep])
        lengths.append(np.bincount(rows[keep], minlength=len(clean)))
    targets = np.insert(ids[1], np.cumsum(lengths[1]), end)
    return Corrupted(ids[0], lengths[0], targets, lengths[1] + 1, merged)


def between_texts(clean: ExampleArrays, rows: Int64Array) -> BoolArray:
    """Which tokens are text, or stand between two tokens of text of their example, (N,)."""
    text = np.flatnonzero(~clean.special)
    first = np.full(len(clean), len(clean.ids), dtype=np.int64)
    last = np.full(len(clean), -1, dtype=np.int64)
    np.minimum.at(first, rows[text], text)
    np.maximum.at(last, rows[text], text)
    every = np.arange(len(clean.ids))
    inner: BoolArray = (every >= first[rows]) & (every <= last[rows])
    return inner


def _begins(masked: BoolArray, inner: BoolArray, rows: Int64Array) -> BoolArray:
    """Which tokens are the first of a run of masked or of kept ones, (N,)."""
    goes_on = np.zeros_like(masked)
    goes_on[1:] = (masked[1:] == masked[:-1]) & inner[:-1] & (rows[1:] == rows[:-1])
    begins: BoolArray = inner & ~goes_on
    return begins


def _merge(
    clean: ExampleArrays, masked: BoolArray, inner: BoolArray, rows: Int64Array, sentinels: int
) -> Int64Array:
    """Masks what stands between the spans an example has too many, and returns their number."""
    merged = np.zeros(len(clean), dtype=np.int64)
    for row in np.flatnonzero(_runs(masked, inner, rows, len(clean)) > sentinels):
        own = slice(int(clean.starts[row]), int(clean.starts[row] + clean.lengths[row]))
        before, text = masked[own].copy(), ~clean.special[own]
        begins = np.flatnonzero(_begins(before, inner[own], rows[own]) & before)
        stop = np.flatnonzero(before)[-1]
        # Kept text at both ends takes a sentinel more than spans do; then one more is merged.
        for left in range(min(sentinels, len(begins)), 0, -1):
            masked[own] = before
            masked[own][begins[left - 1] : stop + 1] |= text[begins[left - 1] : stop + 1]
            merged[row] = len(begins) - left
            if _runs(masked[own], inner[own], np.zeros_like(rows[own]), 1)[0] <= sentinels:
                break
    return merged


def _runs(masked: BoolArray, inner: BoolArray, rows: Int64Array, examples: int) -> Int64Array:
    """The sentinels each example needs, (B,): for its masked runs, or for its kept ones."""
    begins = _begins(masked, inner, rows)
    both = (np.bincount(rows[begins & kind], minlength=examples) for kind in (masked, ~masked))
    runs: Int64Array = np.maximum(*both)
    return runs
