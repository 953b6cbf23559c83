"""Spans of one to five tokens, each in a stretch of context of its own.

Paper: Yang et al. 2019 (XLNet): lengths with p(n) ~ 1/n, each span somewhere in n times K tokens.
The algorithm of the released code:

1. draw a length n in tokens, and a position in a context of `context` times n tokens;
2. go on to the beginning of the next word, and take n tokens from there;
3. leave out the rest of the context, and go on until the text ends or the budget is used up;
4. if it is not used up, take single tokens at random.

Where paper and code differ: the code means to take n whole words and takes n tokens, because it
looks for the end of a word where the span begins; so does this. The span and its
context are `context + 1` times n tokens long, so step 4 takes about a seventh of them for K = 6.
The code draws for each half of a text on its own and drops special tokens it has chosen; here the
budget is one for the whole text, and they are never chosen.
Prefer it over `Spans` to keep targets apart from each other.

Shapes: B examples, D draws.
"""

from typing import ClassVar

import numpy as np

from clozeworks.arrays import Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import Counted, Exact
from clozeworks.objectives.noise.draws import Draws, drawn_lengths
from clozeworks.objectives.noise.words import segment_begins
from clozeworks.rng import below
from clozeworks.spec import PositiveInt, spec


@spec
class SpacedSpans(ChoiceSpec):
    """Spans of 1 to `longest` tokens, short ones more often, with context around each."""

    paper: ClassVar[str] = "Yang et al. 2019"

    longest: PositiveInt = 5
    """The most tokens of a span."""
    context: PositiveInt = 6
    """Tokens of context for each token of a span."""
    budget: Counted = Exact(fraction=1 / 6)

    def lengths(self, draws: Uint32Array) -> Int64Array:
        """A length in tokens for each draw."""
        return drawn_lengths(1 / np.arange(1, self.longest + 1), draws)

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to predict."""
        counts = self.budget.counts(clean, draws.examples).tolist()
        begins = segment_begins(clean)
        word = (begins | clean.word_starts).tolist()
        segment = np.cumsum(begins).tolist()
        # A span and its context take more than `context` tokens, so there are never more spans.
        words = draws.more("spaced spans", 2 * (2 + draws.hide.shape[1] // self.context))
        lengths, lefts = self.lengths(words[:, 0::2]), words[:, 1::2]
        before = below(lefts, lengths * self.context).tolist()
        taken = np.zeros(len(clean.ids), dtype=np.bool_)
        for row, left in enumerate(counts):
            start = int(clean.starts[row])
            text = (start + np.flatnonzero(~clean.special[start:][: clean.lengths[row]])).tolist()
            now = 0
            for size, ahead in zip(lengths[row].tolist(), before[row], strict=True):
                if not left:
                    break
                begin = now + ahead
                while begin < len(text) and not word[text[begin]]:
                    begin += 1
                end = begin + min(size, left)
                if end >= len(text):
                    break
                first = segment[text[begin]]
                span = [position for position in text[begin:end] if segment[position] == first]
                taken[span] = True
                left -= len(span)
                now = end + size * self.context - ahead
            if left:
                free = [position for position in text if not taken[position]]
                rest = np.array(free, dtype=np.int64)
                chosen = np.argsort(draws.hide[row, rest - start], kind="stable")[:left]
                taken[rest[chosen]] = True
        return np.flatnonzero(taken)
