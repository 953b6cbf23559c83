"""A text as augmentation sees it: its words, and what may be done with each.

A way of augmenting says which words become which; it never sees labels, answers or white space.
What must stay as it is, is not offered to it:

- Punctuation is not a word.
- A word that touches an answer stays, and so does the white space of an answer.
- A tagged word is never moved or deleted, nothing is put between two of them, and of what stands
  between two of them something stays: in some schemes of tags they would become one entity.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from clozeworks.data.labelled.items import Span
from clozeworks.text.characters import words_of

OUTSIDE = "O"

# What stands in the place of a word, by its number: nothing, another word, or it and others.
Changes = Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, its words, and what may be done with them."""

    text: str
    """The text."""
    spans: Sequence[Span]
    """Where each word begins and ends, in order."""
    free: tuple[int, ...]
    """The numbers of the words that may be changed in any way, in order."""
    entities: tuple[int, ...] = ()
    """The numbers of tagged words; each may only be replaced by one other."""
    keep_one_of: tuple[tuple[int, ...], ...] = ()
    """Groups of words; of each group one must stay."""

    @classmethod
    def of_text(cls, text: str, held: Sequence[Span] = ()) -> "Passage":
        """Finds the words of a text; pieces of it, such as answers, may be held as they are."""
        spans = words_of(text)
        numbers = _named(text, spans)
        if held:
            numbers = [number for number in numbers if not _touches(text, spans[number], held)]
        free = tuple(numbers)
        return cls(text, spans, free, keep_one_of=(free,))

    @classmethod
    def of_words(cls, text: str, spans: Sequence[Span], tags: Sequence[str] | None) -> "Passage":
        """Takes the words of a text that is already cut into words."""
        tags = tags or (OUTSIDE,) * len(spans)
        numbers = _named(text, spans)
        free = tuple(number for number in numbers if tags[number] == OUTSIDE)
        tagged = tuple(number for number in numbers if tags[number] != OUTSIDE)
        keep_one_of = tuple(_between(tags)) if set(tags) != {OUTSIDE} else (free,)
        return cls(text, spans, free, tagged, keep_one_of)

    def word(self, number: int) -> str:
        """The characters of a word."""
        begin, end = self.spans[number]
        return self.text[begin:end]

    def gap_before(self, number: int) -> Span:
        """The white space directly before a word."""
        begin = self.spans[number][0]
        since = self.spans[number - 1][1] if number else 0
        return since + len(self.text[since:begin].rstrip()), begin

    def gap_after(self, number: int) -> Span:
        """The white space directly after a word."""
        end = self.spans[number][1]
        until = self.spans[number + 1][0] if number + 1 < len(self.spans) else len(self.text)
        return end, until - len(self.text[end:until].lstrip())


def is_word(text: str) -> bool:
    """Whether there is a letter, a digit or a sign such as an emoji: not punctuation only."""
    return text.isalnum() or any(unicodedata.category(letter)[0] in "LNS" for letter in text)


def _named(text: str, spans: Sequence[Span]) -> list[int]:
    return [number for number, (begin, end) in enumerate(spans) if is_word(text[begin:end])]


def _touches(text: str, span: Span, held: Sequence[Span]) -> bool:
    """Whether a word, or the white space around it, is part of what is held."""
    begin, end = span
    while begin and text[begin - 1].isspace():
        begin -= 1
    while end < len(text) and text[end].isspace():
        end += 1
    return any(first < end and begin < last for first, last in held)


def _between(tags: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """The runs of words between two tagged ones."""
    for outside, group in groupby(range(len(tags)), lambda number: tags[number] == OUTSIDE):
        run = tuple(group)
        if outside and run[0] > 0 and run[-1] + 1 < len(tags):
            yield run
