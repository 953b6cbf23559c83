"""Changes items, text by text, so that labels, tags and answers stay right.

What happens to an item is a function of the item, the seed, the epoch and its index: it is drawn
anew in each epoch, and depends neither on the batch nor on the process that asks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clozeworks import rng as drawing
from clozeworks.arrays import Float64Array, Uint32Array
from clozeworks.data.augment.edits import Edited, rewrites
from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.data.labelled.items import Item, Span
from clozeworks.rng import RandomStream


@dataclass(frozen=True, slots=True)
class Draw:
    """Random numbers for one text of one item."""

    rng: RandomStream
    """The stream of the text."""
    epoch: int
    """The epoch."""
    index: int
    """The number of the item."""

    def words(self, name: str, count: int) -> Uint32Array:
        """32 random bits for each draw, (n,); the name says what they are for."""
        drawn: Uint32Array = self.rng.stream(name).words(self.epoch, self.index, count)[0]
        return drawn

    def uniforms(self, name: str, count: int) -> Float64Array:
        """Numbers from 0 up to but not 1, (n,)."""
        return drawing.uniforms(self.words(name, count))


# Says which words of a text become which.
TextChange = Callable[[Passage, Draw], Changes]


# Changes an item that was chosen, with a stream of random numbers, the epoch and its index.
ItemChange = Callable[[Item, RandomStream, int, int], Item]


@dataclass(frozen=True, slots=True)
class Augment:
    """Changes items at random."""

    probability: float
    """How likely an item is to be changed."""
    change: ItemChange
    """How it is changed."""

    def __call__(self, item: Item, rng: RandomStream, epoch: int, index: int) -> Item:
        """Changes an item, or leaves it as it is; its label stays the same.

        Args:
            item: The item as it was read.
            rng: The stream of random numbers for augmentation; it holds the seed.
            epoch: The epoch.
            index: The number of the item among all items.
        """
        if self.probability < 1 and rng.uniform(epoch, index, 1)[0, 0] >= self.probability:
            return item
        return self.change(item, rng, epoch, index)


def word_by_word(way: TextChange) -> ItemChange:
    """Changes the words of all texts of an item in one way, each text with numbers of its own."""
    return lambda item, rng, epoch, index: item.augmented(TextEditor(way, rng, epoch, index))


@dataclass(frozen=True, slots=True)
class TextEditor:
    """Changes the texts of one item, so that what is known about them stays right.

    The name of a text decides which random numbers it gets.
    """

    way: TextChange
    rng: RandomStream
    epoch: int
    index: int

    def text(self, text: str, name: str) -> str:
        """A changed text."""
        return self._edited(Passage.of_text(text), name).text

    def text_with_spans(
        self, text: str, spans: Sequence[Span], name: str
    ) -> tuple[str, list[Span]]:
        """A changed text whose spans stay as they are, and where they are now."""
        edited = self._edited(Passage.of_text(text, spans), name)
        return edited.text, [edited.moved(*span) for span in spans]

    def words(
        self, text: str, spans: Sequence[Span], tags: Sequence[str] | None, name: str
    ) -> tuple[str, list[Span], list[int]]:
        """A changed text, where its words are now, and the number of the old word each goes by."""
        passage = Passage.of_words(text, spans, tags)
        changes = self._changes(passage, name)
        rewritten = rewrites(passage, changes)
        edited = Edited(text, [edit for edit, _ in rewritten])
        # The number of the old word, and where the new one stands.
        placed = [
            (number, edited.moved(*span))
            for number, span in enumerate(spans)
            if number not in changes
        ]
        for position, (_, words) in enumerate(rewritten):
            start = edited.landing(position)
            placed += [(number, (start + begin, start + end)) for number, begin, end in words]
        placed.sort()
        # A new word beside an old one is outside of entities, as the old one is.
        return edited.text, [span for _, span in placed], [number for number, _ in placed]

    def _edited(self, passage: Passage, name: str) -> Edited:
        changes = self._changes(passage, name)
        return Edited(passage.text, [edit for edit, _ in rewrites(passage, changes)])

    def _changes(self, passage: Passage, name: str) -> Changes:
        if not passage.free and not passage.entities:
            return {}
        return self.way(passage, Draw(self.rng.stream(name), self.epoch, self.index))


def amount(fraction: float, words: int) -> int:
    """How many words are changed: the fraction of all, rounded down, but at least one."""
    return max(1, int(fraction * words + 1e-9))  # 0.29 * 100 is a little less than 29
