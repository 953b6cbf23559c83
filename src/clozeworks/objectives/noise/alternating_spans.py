"""Kept and masked spans in turn, all ways to cut a text into them equally likely.

Paper: Raffel et al. 2020 (T5): 15 % of the tokens in spans of 3 on average.
The algorithm of the released code (`random_spans_noise_mask`), exactly:

1. of L tokens n = round(fraction * L) are masked, at least 1 and at most L - 1, in s = round(n /
   mean) spans, at least 1; both are rounded in float32, halves to the even neighbour;
2. the n masked tokens are cut into s spans, each at least one token long, and so are the L - n kept
   ones; every way to cut is equally likely;
3. the spans take turns, a kept one first.

So the first token is always kept and the last one always masked, and one span alone is the end of
the text. With `roll` everything is moved around in a circle, and both may happen to any token.
Trap: drawing a length for each span does not mask exactly n tokens; cutting at s - 1 positions
drawn one by one gives empty spans, and leaving these out is not uniform.
Where the code and this differ: more kept spans than kept tokens are impossible; there the code
fails, here there are as many spans as there is room for.
Prefer it for encoder-decoders. `Spans` masks whole words and never puts a rest into one long span.

Shapes: B examples, L the longest example, M tokens of text of all examples.
"""

from typing import Annotated, ClassVar

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.words import pieces_of_examples
from clozeworks.rng import below
from clozeworks.spec import Above, AtLeast, Below, spec

_HALF = np.uint64(32)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


@spec
class AlternatingSpans(ChoiceSpec):
    """A fixed fraction of the tokens of text, in spans of a fixed mean length."""

    paper: ClassVar[str] = "Raffel et al. 2020"

    fraction: Annotated[float, Above(0), Below(1)] = 0.15
    """Of all tokens of text."""
    mean: Annotated[float, AtLeast(1)] | None = 3.0
    """Tokens of a masked span on average; None: one span for all, the end of the text."""
    roll: bool = False
    """Whether the spans are moved around in a circle by a random number of tokens."""

    def counts(self, lengths: Int64Array) -> tuple[Int64Array, Int64Array]:
        """How many tokens are masked, and in how many spans, (B,) each."""
        # Compat: the code rounds in float32, where 0.15 is a little more than 0.15.
        known = np.maximum(lengths, 2)
        masked = np.rint(known.astype(np.float32) * np.float32(self.fraction)).astype(np.int64)
        masked = np.clip(masked, 1, known - 1)
        if self.mean is None:
            return masked, np.ones_like(masked)
        spans = np.rint(masked.astype(np.float32) / np.float32(self.mean)).astype(np.int64)
        return masked, np.minimum(np.maximum(spans, 1), known - masked)

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to mask."""
        lengths = pieces_of_examples(clean)
        text = np.flatnonzero(~clean.special)
        count = max(int(lengths.max(initial=0)), 2)
        masked, kept = draws.more("hidden spans", count), draws.more("kept spans", count)
        mask = self.mask(lengths, masked, kept)
        if self.roll:
            mask = _rolled(mask, lengths, draws.examples)
        return text[mask]

    def mask(self, lengths: Int64Array, of_masked: Uint32Array, of_kept: Uint32Array) -> BoolArray:
        """Which tokens of texts of some lengths (B,) are masked, one text after the other, (M,).

        What cuts the masked and the kept tokens are draws, (B, L), at least 2 for each text.
        """
        masked, spans = self.counts(lengths)
        known = np.maximum(lengths, 2)
        cut = composition(of_kept, known - masked, spans), composition(of_masked, masked, spans)
        runs = np.stack(cut, axis=2)  # (B, spans, 2)
        turns = np.broadcast_to(np.array([False, True]), runs.shape)
        mask: BoolArray = np.repeat(turns.ravel(), runs.ravel())
        # A text of one token was taken for two; that of none, too.
        within = np.arange(len(mask)) - np.repeat(np.cumsum(known) - known, known)
        of_texts: BoolArray = mask[within < np.repeat(lengths, known)]
        return of_texts


def composition(words: Uint32Array, items: Int64Array, parts: Int64Array) -> Int64Array:
    """Cuts `items` (B,) into `parts` (B,) of at least one, every way equally likely: their sizes.

    It takes at least as many draws as items, (B, L). Rows with fewer parts than others end with
    zeros, (B, parts).
    """
    # The parts - 1 positions with the lowest draws among the items - 1 between two items are cuts.
    positions = np.arange(words.shape[1], dtype=np.uint64)
    keys = (words.astype(np.uint64) << _HALF) | positions
    keys[positions >= (items - 1).astype(np.uint64)[:, None]] = _LAST
    count = int(parts.max(initial=1)) - 1
    lowest = np.sort(keys, axis=1)[:, :count]  # (B, count)
    cuts = (lowest & np.uint64(0xFFFFFFFF)).astype(np.int64) + 1
    beyond = np.arange(count) >= (parts - 1)[:, None]
    cuts = np.where(beyond, items[:, None], cuts)
    cuts.sort(axis=1)
    edges = np.concatenate([np.zeros((len(cuts), 1), np.int64), cuts, items[:, None]], axis=1)
    sizes: Int64Array = np.diff(edges, axis=1)
    return sizes


def _rolled(mask: BoolArray, lengths: Int64Array, draws: Uint32Array) -> BoolArray:
    """Each text's mask moved around in a circle, by 0 to its length - 1 tokens."""
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    sizes = np.maximum(np.repeat(lengths, lengths), 1)
    steps = np.repeat(below(draws, np.maximum(lengths, 1)), lengths)
    rolled: BoolArray = mask[starts + (np.arange(len(mask)) - starts - steps) % sizes]
    return rolled


def raw_length(inputs: int, fraction: float, mean: float) -> tuple[int, int]:
    """The tokens of text that fill an input once spans are masked, and what its targets have.

    `random_spans_helper` of the released code: (512, 0.15, 3) gives 568 and 114. Both inputs and
    targets have an end token.

    Raises:
        SettingError: If there is no room for a token.
    """

    def both(length: int) -> tuple[int, int]:
        masked = round(length * fraction)
        spans = round(masked / mean)
        return length - masked + spans + 1, masked + spans + 1

    if inputs < 2:
        raise SettingError("length", inputs, "a token of text and the end need 2", "raise length")
    length = inputs - 1
    while both(length + 1)[0] <= inputs:
        length += 1
    targets = both(length)[1]
    # Compat: the code prefers targets as long as the inputs if half of the text is masked.
    if fraction == 0.5 and targets > inputs:
        return length - 1, targets - 1
    return length, targets
