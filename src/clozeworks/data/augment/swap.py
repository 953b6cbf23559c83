"""Lets words change places.

Paper: Wei & Zou 2019 (EDA: random swap of any two words).
The idea: many labels hang on which words there are more than on their order.
Where we differ: EDA draws the pairs one after the other, so that a later swap can undo an earlier
one; here no word is swapped twice.
Example: `Swap(fraction=0.1, which="neighbours")`, or in a recipe `{kind = "swap"}`.
"""

from itertools import pairwise
from typing import ClassVar, Literal

from clozeworks.data.augment import AugmentSpec, Fraction
from clozeworks.data.augment.changing import Draw, amount
from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.rng import order
from clozeworks.spec import spec


@spec
class Swap(AugmentSpec):
    """Swaps pairs of words: `fraction` of their number, at least one pair."""

    paper: ClassVar[str] = "Wei & Zou 2019"

    fraction: Fraction = 0.1
    """Pairs for each word of the text."""
    which: Literal["any", "neighbours"] = "any"
    """Any two words, or two that stand next to each other."""

    def changes(self, passage: Passage, draw: Draw) -> Changes:
        """Which words stand in the place of others."""
        free = passage.free
        mixed = [free[position] for position in order(draw.words("swap", len(free)))]
        if self.which == "any":
            pairs = list(zip(mixed[::2], mixed[1::2], strict=False))
        else:
            beside = {first: second for first, second in pairwise(free) if second == first + 1}
            pairs = [(first, beside[first]) for first in mixed if first in beside]
        swapped: dict[int, tuple[str, ...]] = {}
        max_swapped = 2 * amount(self.fraction, len(free))
        for first, second in pairs:
            if len(swapped) < max_swapped and first not in swapped and second not in swapped:
                swapped[first] = (passage.word(second),)
                swapped[second] = (passage.word(first),)
        return swapped
