"""Runs of one to three words, short ones more often.

Paper: Lan et al. 2020 (ALBERT), after Joshi et al. 2020: p(n) = (1/n) / (1/1 + … + 1/N).
The idea: visit the words in random order, draw how many words to mask from there on, and mask them
if none of them is masked yet.
Where paper and code differ: an n-gram that would exceed the budget is tried with fewer words, and
one that meets a masked word is dropped, so the lengths that come out are shorter than those drawn.
The released code lets an n-gram run across `[SEP]`; here it ends with its segment. The released
code draws n from a generator nobody seeds; here it is a function of the example.
Prefer it over `Spans` to keep every target a few words long.

Shapes: B examples, U words of all examples.
"""

from typing import ClassVar

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import Counted, Exact
from clozeworks.objectives.noise.draws import Draws, drawn_lengths
from clozeworks.objectives.noise.words import TextWords
from clozeworks.spec import PositiveInt, spec


@spec
class NGrams(ChoiceSpec):
    """Runs of 1 to `longest` words, a run of n with a probability in proportion to 1 / n."""

    paper: ClassVar[str] = "Lan et al. 2020"

    longest: PositiveInt = 3
    """The most words of a run."""
    budget: Counted = Exact()

    def lengths(self, draws: Uint32Array) -> Int64Array:
        """A length for each draw."""
        return drawn_lengths(1 / np.arange(1, self.longest + 1), draws)

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to mask."""
        words = TextWords.of(clean)
        order = words.in_order(draws.hide[words.rows, words.begins], len(clean))
        lengths = draws.more("lengths", draws.hide.shape[1])[words.rows, words.begins]
        counts = self.budget.counts(clean, draws.examples)
        return words.positions(_visit(words, order, self.lengths(lengths), counts))


def _visit(
    words: TextWords, order: list[list[int]], lengths: Int64Array, counts: Int64Array
) -> BoolArray:
    """Which words are taken, (U,)."""
    stops = np.minimum(np.arange(len(lengths)) + lengths, words.segment_ends).tolist()
    starts, ends = words.starts.tolist(), words.ends.tolist()
    taken = bytearray(len(starts))
    for left, mine in zip(counts.tolist(), order, strict=True):
        for word in mine:
            if not left:
                break
            stop = stops[word]
            while ends[stop - 1] - starts[word] > left and stop > word + 1:
                stop -= 1
            size = ends[stop - 1] - starts[word]
            if size <= left and not any(taken[word:stop]):
                taken[word:stop] = b"\1" * (stop - word)
                left -= size
    return np.frombuffer(taken, dtype=np.bool_)
