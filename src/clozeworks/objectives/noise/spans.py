"""Spans of words whose lengths follow a geometric law.

Paper: Joshi et al. 2020 (SpanBERT): lengths P(l) ~ p (1 - p)^(l - 1) for 1 to 10 words, 3.8 on
average.
The idea: hide whole stretches, so that the model must say several words from what is around them.
The algorithm of the released code, exactly:

1. draw a length in words, and a token of text as anchor; draw both again if the anchor is hidden;
2. go to the beginning of the anchor's word;
3. hide that word and the next ones until there are as many as drawn, the segment ends, or the
   budget is used up, then in the middle of a word if need be;
4. go on until the budget is used up. Spans that overlap or touch are one span from then on.

Where paper and code differ: the anchor is drawn among pieces, so a long word begins a span more
often than a short one.
Trap: cutting lengths at the longest instead of leaving longer ones out puts a lump of 13 % there
and a mean of 4.5 words.
Prefer it for tasks about spans (answers, coreference), with or without `SpanBoundary`.

Shapes: B examples, D draws.
"""

from typing import ClassVar

import numpy as np

from clozeworks.core.chance import Chance, Words, below, shares
from clozeworks.core.spec import spec
from clozeworks.data.arranged import Arranged
from clozeworks.data.shards import Numbers
from clozeworks.errors import SettingError
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import Ceiling, Counted
from clozeworks.objectives.noise.words import TextWords, pieces_of_examples


@spec
class Spans(ChoiceSpec):
    """Spans of 1 to `longest` words, lengths by a geometric law that is renormalised."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    p: float = 0.2
    """The chance of a span to end with each word."""
    longest: int = 10
    """The most words of a span when it is drawn; merged spans may be longer."""
    budget: Counted = Ceiling()

    def __post_init__(self) -> None:
        if not 0 < self.p < 1:
            raise SettingError(f"hide.p is {self.p}; it must be above 0 and below 1.")
        if self.longest < 1:
            raise SettingError(f"hide.longest is {self.longest}; it must be at least 1.")

    def lengths(self, draws: Words) -> Numbers:
        """A length in words for each draw."""
        chances = self.p * (1 - self.p) ** np.arange(self.longest)
        limits = np.cumsum(chances[:-1] / chances.sum())
        return 1 + np.searchsorted(limits, shares(draws), side="right")

    def places(self, clean: Arranged, chance: Chance) -> Numbers:
        """The tokens to hide."""
        # One draw of the example's own and two for each span. A hidden anchor costs two more, so
        # there is no limit to their number. This is nearly always enough, and asking for more does
        # not change the first ones.
        tries = 8 + int(clean.lengths.max(initial=0)) // 8
        draws = chance.words(clean.epochs, clean.indices, 1 + 2 * tries)
        pieces = pieces_of_examples(clean)
        counts = self.budget.counts(clean, draws[:, 0])
        lengths, anchors = (values.tolist() for values in self._drawn(draws, pieces))
        words = TextWords.of(clean)
        filling = _Filling(words, len(clean.ids))
        text = np.flatnonzero(~clean.special)
        first = 0
        for row, left in enumerate(counts.tolist()):
            mine = text[first : first + int(pieces[row])].tolist()
            first += len(mine)
            used = 0
            while left:
                if used == len(lengths[row]):
                    more = chance.words(clean.epochs[row], clean.indices[row], 1 + 4 * used)
                    again = self._drawn(more, pieces[row : row + 1])
                    lengths[row], anchors[row] = again[0][0].tolist(), again[1][0].tolist()
                left = filling.add(mine[anchors[row][used]], lengths[row][used], left)
                used += 1
        return np.flatnonzero(np.frombuffer(filling.hidden, dtype=np.bool_))

    def _drawn(self, draws: Words, pieces: Numbers) -> tuple[Numbers, Numbers]:
        """Lengths and anchors, (B, D) each."""
        return self.lengths(draws[:, 1::2]), below(draws[:, 2::2], pieces[:, None])


class _Filling:
    """What is hidden so far."""

    def __init__(self, words: TextWords, tokens: int) -> None:
        self.hidden = bytearray(tokens)
        number = np.searchsorted(words.starts, np.arange(tokens), side="right") - 1
        self._word_of = number.tolist()
        self._starts, self._ends = words.starts.tolist(), words.ends.tolist()
        self._segment_ends = words.segment_ends.tolist()

    def add(self, anchor: int, length: int, left: int) -> int:
        """Hides a span unless its anchor is hidden already.

        Args:
            anchor: A token of text.
            length: How many words.
            left: How many more tokens may be hidden.

        Returns:
            How many may be hidden after that.
        """
        hidden = self.hidden
        if hidden[anchor]:
            return left
        word = self._word_of[anchor]
        last = min(word + length, self._segment_ends[word]) - 1
        for place in range(self._starts[word], self._ends[last]):
            if not hidden[place]:
                hidden[place] = 1
                left -= 1
                if not left:
                    break
        return left
