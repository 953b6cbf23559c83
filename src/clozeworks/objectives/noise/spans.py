"""Spans of words whose lengths follow a geometric law.

Paper: Joshi et al. 2020 (SpanBERT): lengths P(l) ~ p (1 - p)^(l - 1) for 1 to 10 words, 3.8 on
average.
The idea: mask whole spans, so that the model must predict several words from what is around them.
The algorithm of the released code, exactly:

1. draw a length in words, and a token of text as anchor; draw both again if the anchor is masked;
2. go to the beginning of the anchor's word;
3. mask that word and the next ones until there are as many as drawn, the segment ends, or the
   budget is used up, then in the middle of a word if need be;
4. go on until the budget is used up. Spans that overlap or touch are one span from then on.

Where paper and code differ: the anchor is drawn among pieces, so a long word begins a span more
often than a short one.
Trap: cutting lengths at the longest instead of leaving longer ones out puts a lump of 13 % there
and a mean of 4.5 words.
Prefer it for tasks about spans (answers, coreference), with or without `SpanBoundary`.

Shapes: B examples, D draws.
"""

from typing import Annotated, ClassVar

import numpy as np

from clozeworks.arrays import Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import Ceiling, Counted
from clozeworks.objectives.noise.draws import Draws, drawn_lengths
from clozeworks.objectives.noise.words import TextWords, pieces_of_examples
from clozeworks.rng import below
from clozeworks.spec import Above, Below, PositiveInt, spec


@spec
class Spans(ChoiceSpec):
    """Spans of 1 to `longest` words, lengths by a geometric law that is renormalised."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    p: Annotated[float, Above(0), Below(1)] = 0.2
    """The probability that a span ends, with each word."""
    longest: PositiveInt = 10
    """The most words of a span when it is drawn; merged spans may be longer."""
    budget: Counted = Ceiling()

    def lengths(self, draws: Uint32Array) -> Int64Array:
        """A length in words for each draw."""
        return drawn_lengths(self.p * (1 - self.p) ** np.arange(self.longest), draws)

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to mask."""
        counts = self.budget.counts(clean, draws.examples).tolist()
        possible = _Possible(clean)
        # Two draws for each span. A masked anchor costs two more, so there is no limit to their
        # number; this is nearly always enough.
        words = draws.more("spans", 16 + draws.hide.shape[1] // 16 * 2)
        spans = possible.spans(self.lengths(words[:, 0::2]), words[:, 1::2], slice(None))
        masked = bytearray(len(clean.ids))
        for row, (left, mine) in enumerate(zip(counts, spans, strict=True)):
            used = 0
            while left:
                if used == len(mine):
                    words = draws.more("spans", 4 * used, row)
                    lengths = self.lengths(words[:, 0::2])
                    mine = possible.spans(lengths, words[:, 1::2], slice(row, row + 1))[0]
                anchor, start, end = mine[used]
                used += 1
                if masked[anchor]:
                    continue
                for position in range(start, end):
                    if not masked[position]:
                        masked[position] = 1
                        left -= 1
                        if not left:
                            break
        return np.flatnonzero(np.frombuffer(masked, dtype=np.bool_))


class _Possible:
    """From draws to spans: where a span would begin and end if nothing were in its way."""

    def __init__(self, clean: ExampleArrays) -> None:
        self._words = TextWords.of(clean)
        self._text = np.flatnonzero(~clean.special)
        self._pieces = pieces_of_examples(clean)
        self._before = np.cumsum(self._pieces) - self._pieces

    def spans(
        self, lengths: Int64Array, anchors: Uint32Array, rows: slice
    ) -> list[list[list[int]]]:
        """Anchor, beginning and end of each span of some examples, by its words and a draw."""
        if not len(self._text):
            return [[] for _ in lengths]
        among = below(anchors, self._pieces[rows, None]) + self._before[rows, None]
        # An example without text needs no span; any token will do.
        positions = self._text[np.minimum(among, len(self._text) - 1)]
        words = self._words
        first = np.searchsorted(words.starts, positions, side="right") - 1
        last = np.minimum(first + lengths, words.segment_ends[first]) - 1
        triples = np.stack([positions, words.starts[first], words.ends[last]], axis=2)
        spans: list[list[list[int]]] = triples.tolist()
        return spans
