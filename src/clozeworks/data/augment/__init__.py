"""Labelled texts changed at random, so that a small set teaches more. One file per way.

| what happens to some words | way |
|---|---|
| they are left out | `Delete` |
| they change places | `Swap` |
| others come in beside them: from a list, or synonyms | `Insert` |
| each becomes one of its synonyms | `Replace` |
| each becomes what a masked language model says | `Guess` |
| one of several ways, another for each item | `Several` |

A way is built once and called with an item, a stream of random numbers, an epoch and the item's
index. Labels, tags and answers stay right: tagged words stay in their order, and answers are never
touched. A text keeps at least one word.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

from clozeworks.data.augment.changing import Augment, Draw, TextChange, word_by_word
from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.spec import Above, AtMost, Slot, spec

__all__ = ["MASK", "Augment", "AugmentSpec", "Fraction", "Guesser"]

MASK = "[MASK]"
# From texts with one `[MASK]` each to words for it, the best first.
Guesser = Callable[[Sequence[str]], Sequence[Sequence[str]]]
Fraction = Annotated[float, Above(0), AtMost(1)]


@spec
class AugmentSpec(Slot):
    """Slot: how labelled texts are changed."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.data.augment"

    probability: Fraction = 1.0
    """How likely an item is to be changed, in each epoch anew."""

    def build(self, guess: Guesser | None = None) -> Augment:
        """Makes what changes items; reads the files that are named.

        Args:
            guess: A masked language model, for the ways that need one.

        Raises:
            SettingError: If a way needs a model, and there is none.
            InputError: If a file cannot be used as it is.
        """
        return Augment(self.probability, word_by_word(self.way(guess)))

    def way(self, guess: Guesser | None) -> TextChange:
        """What changes one text; for ways that need nothing more, their `changes`."""
        return self.changes

    def changes(self, passage: Passage, draw: Draw) -> Changes:
        """Which words of a text become which."""
        raise NotImplementedError
