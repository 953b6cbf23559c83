"""What one labelled example is: a text, two, words with tags, a question, a text to write, a chat.

Every item remembers its place (`reviews.csv, row 8,412`), so that a later message can say which one
it is about. An item without a label can still be answered; it cannot be trained on or scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import overload

from clozeworks.text.characters import characters_of, is_chinese, words_of

# A label, several of them, or a number; None if it is not known.
Label = str | tuple[str, ...] | float | None
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TextItem:
    """A text and its label.

    Attributes:
        text: The text.
        label: A label, several, or a number; None if it is not known.
        place: Where it came from, for messages.
    """

    text: str
    label: Label = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class PairItem:
    """Two texts and how they are related.

    Attributes:
        first: The first text.
        second: The second.
        label: A label, several, or a number; None if it is not known.
        place: Where they came from, for messages.
    """

    first: str
    second: str
    label: Label = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class WordsItem:
    """A text cut into words, each with a tag.

    Attributes:
        text: The text.
        spans: Where each word stands in it: begin and end, in order, without overlap.
        tags: One for each word; None if they are not known.
        place: Where it came from, for messages.
        found: Whether the words were found in the text; otherwise they were given, and stay.
    """

    text: str
    spans: tuple[Span, ...]
    tags: tuple[str, ...] | None = None
    place: str = ""
    found: bool = field(default=False, repr=False)

    @classmethod
    def of_words(
        cls, words: Sequence[str], tags: Sequence[str] | None = None, place: str = ""
    ) -> "WordsItem":
        """Makes a text of words: spaces between them, but not between Chinese characters."""
        text, spans = "", []
        for before, word in pairwise(["", *words]):
            apart = before and not (is_chinese(before[-1:]) and is_chinese(word[:1]))
            text += " " if apart else ""
            spans.append((len(text), len(text) + len(word)))
            text += word
        return cls(text, tuple(spans), None if tags is None else tuple(tags), place)

    @classmethod
    def of_text(cls, text: str, place: str = "") -> "WordsItem":
        """Finds the words of a text."""
        return cls(text, tuple(words_of(text)), place=place, found=True)

    def by_character(self) -> "WordsItem":
        """The same text with each character as a word; what is one to the eye stays one."""
        return replace(self, spans=tuple(characters_of(self.text)))

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """An answer as it stands in its context.

    Attributes:
        text: Its characters.
        begin: The first of them in the context.
    """

    text: str
    begin: int

    @property
    def end(self) -> int:
        """The end in the context."""
        return self.begin + len(self.text)


@dataclass(frozen=True, slots=True)
class QuestionItem:
    """A question and the context its answer stands in.

    Attributes:
        question: The question.
        context: Where the answer stands.
        answers: The answers that count as right; empty if there is none, or if it is not known.
        impossible: Whether the context is known to hold no answer.
        id: What the file calls it.
        place: Where it came from, for messages.
    """

    question: str
    context: str
    answers: tuple[AnswerSpan, ...] = field(default=())
    impossible: bool = False
    id: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class SourceItem:
    """A text, and the text a model is to write for it.

    Attributes:
        source: What the model reads.
        target: What it is to write; None if it is not known.
        task: Which of several tasks it belongs to; empty if there is one only.
        prefix: What stands before the source; None for what stands before all.
        others: Further texts that are as right as the target.
        place: Where it came from, for messages.
    """

    source: str
    target: str | None = None
    task: str = ""
    prefix: str | None = None
    others: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody says in a chat.

    Attributes:
        role: Who: system, user or assistant, or what else a template knows.
        text: What they say.
    """

    role: str
    text: str


ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ChatItem:
    """A chat in which a model is to write what the assistant says.

    Attributes:
        turns: What was said, in order.
        task: Which of several tasks it belongs to; empty if there is one only.
        place: Where it came from, for messages.
    """

    turns: tuple[Turn, ...]
    task: str = ""
    place: str = ""

    @property
    def target(self) -> str | None:
        """What the assistant says last; None if somebody else speaks last."""
        return self.turns[-1].text if self.turns[-1].role == ASSISTANT else None

    @property
    def asked(self) -> tuple[Turn, ...]:
        """What was said before that."""
        return self.turns if self.target is None else self.turns[:-1]

    @property
    def source(self) -> str:
        """The same as one text for people."""
        return "\n".join(f"{turn.role}: {turn.text}" for turn in self.asked)


Item = TextItem | PairItem | WordsItem | QuestionItem | SourceItem | ChatItem


class ItemLocations(Sequence[str]):
    """Says where each item came from, or its number; the sentence is made when it is asked for."""

    def __init__(self, items: Sequence[Item], what: str = "item") -> None:
        self.items = items
        self.what = what

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self.items[index].place or f"{self.what} {index + 1:,}"
