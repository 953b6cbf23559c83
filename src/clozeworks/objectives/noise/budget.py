"""How many tokens are masked.

Paper: Devlin et al. 2019 (a fixed number), Liu et al. 2019 (rounded at random), Joshi et al. 2020
(rounded up).
The idea: a fixed number wastes no example on too few or too many targets; tossing a coin for every
token is simpler and gives numbers that vary, down to none at all in a short text.
Where papers and code differ: all papers say 15 %. The codes disagree about 15 % of what and about
rounding; each rule here is that of the released code.
Used by: every choice of tokens.

Shapes: N tokens, B examples, L the longest example, U words of all examples.
"""

from typing import Annotated, ClassVar

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.words import TextWords, pieces_of_examples
from clozeworks.rng import uniforms
from clozeworks.spec import Above, AtMost, PositiveInt, Slot, spec

# How many of the tokens are masked: some, and at most all.
MaskedFraction = Annotated[float, Above(0), AtMost(1)]

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


class BudgetSpec(Slot):
    """Slot: how many tokens are masked."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives.noise"

    def tokens(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """Which single tokens are taken, in ascending order, (n,)."""
        raise NotImplementedError

    def words(self, clean: ExampleArrays, draws: Draws, words: TextWords) -> BoolArray:
        """Which whole words are taken, (U,)."""
        raise NotImplementedError


class Counted(BudgetSpec):
    """Slot: a number for each example that is never exceeded."""

    is_slot: ClassVar[bool] = True

    def wanted(self, lengths: Int64Array, pieces: Int64Array, draws: Uint32Array) -> Int64Array:
        """How many tokens each example should mask, (B,), by its length and a draw.

        Special tokens count in `lengths`; `pieces` are the tokens of text alone.
        """
        raise NotImplementedError

    def counts(self, clean: ExampleArrays, draws: Uint32Array) -> Int64Array:
        """How many tokens each example masks at most, (B,); never more than it has."""
        pieces = pieces_of_examples(clean)
        return np.minimum(self.wanted(clean.lengths, pieces, draws), pieces)

    def tokens(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The first tokens in a random order, as many as the budget says."""
        counts = self.counts(clean, draws.examples)
        highest = int(counts.max(initial=0))
        # A token's position in the low half keeps equal draws apart; a special token comes last.
        keys = draws.hide.astype(np.uint64) << _HALF
        keys |= np.arange(draws.hide.shape[1], dtype=np.uint64)
        keys[clean.rows(clean.special, True)] = _LAST
        keys.sort(axis=1)
        taken = (keys[:, :highest] & _LOW).astype(np.int64) + clean.starts[:, None]
        positions = taken[np.arange(highest) < counts[:, None]]
        positions.sort()
        return positions

    def words(self, clean: ExampleArrays, draws: Draws, words: TextWords) -> BoolArray:
        """Whole words in a random order; one that would exceed the budget is passed over."""
        # Paper: a word is skipped, not cut, and smaller words after it may still fit.
        counts = self.counts(clean, draws.examples).tolist()
        order = words.in_order(draws.hide[words.rows, words.begins], len(clean))
        sizes = (words.ends - words.starts).tolist()
        taken = bytearray(len(sizes))
        for left, mine in zip(counts, order, strict=True):
            for word in mine:
                if not left:
                    break
                if sizes[word] <= left:
                    taken[word] = 1
                    left -= sizes[word]
        return np.frombuffer(taken, dtype=np.bool_)


@spec
class Exact(Counted):
    """BERT: the fraction of all tokens, rounded, at least one and at most `max_count`."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    fraction: MaskedFraction = 0.15
    max_count: PositiveInt | None = None
    """The most tokens of an example; no limit if not given."""

    def wanted(self, lengths: Int64Array, pieces: Int64Array, draws: Uint32Array) -> Int64Array:
        """min(max_count, max(1, round(fraction * length))); special tokens count in the length."""
        # Compat: rint rounds halves to the even neighbour, as Python's round does: 2.5 is 2.
        counts: Int64Array = np.maximum(1, np.rint(lengths * self.fraction).astype(np.int64))
        return counts if self.max_count is None else np.minimum(self.max_count, counts)


@spec
class RandomRounding(Counted):
    """RoBERTa: the fraction of all tokens on average, rounded up or down at random."""

    paper: ClassVar[str] = "Liu et al. 2019"

    fraction: MaskedFraction = 0.15

    def wanted(self, lengths: Int64Array, pieces: Int64Array, draws: Uint32Array) -> Int64Array:
        """int(fraction * length + a draw from 0 to 1); special tokens count in the length."""
        return (lengths * self.fraction + uniforms(draws)).astype(np.int64)


@spec
class Ceiling(Counted):
    """SpanBERT: the fraction of the tokens of text, rounded up; special tokens do not count."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    fraction: MaskedFraction = 0.15

    def wanted(self, lengths: Int64Array, pieces: Int64Array, draws: Uint32Array) -> Int64Array:
        """ceil(fraction * pieces)."""
        counts: Int64Array = np.ceil(pieces * self.fraction).astype(np.int64)
        return counts


@spec
class Bernoulli(BudgetSpec):
    """A coin for every token, or for every whole word; the number varies and may be 0."""

    paper: ClassVar[str] = "Wolf et al. 2020 (the collator of transformers)"

    fraction: MaskedFraction = 0.15

    def tokens(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """Each token of text with the same probability."""
        heads = (uniforms(draws.hide) < self.fraction)[clean.real]
        return np.flatnonzero(heads & ~clean.special)

    def words(self, clean: ExampleArrays, draws: Draws, words: TextWords) -> BoolArray:
        """Each word with the same probability, whatever its length."""
        return uniforms(draws.hide[words.rows, words.begins]) < self.fraction
