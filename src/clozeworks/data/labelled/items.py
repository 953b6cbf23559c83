"""What one labelled example is, and what a kind of example states about itself.

A task owns its item: a frozen dataclass that derives from `Item`. Reading, checking, splitting and
reporting labelled data ask the item and its class, and know no task.

Every item remembers where it came from (`reviews.csv, row 8,412`), so that a later message can say
which one it is about. An item without a label can still be predicted; it cannot be trained on or
scored.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.data.files.texts import SourceLocations
from clozeworks.data.labelled.bad_rows import BadRows

if TYPE_CHECKING:
    from clozeworks.data.augment.changing import TextEditor
    from clozeworks.data.labelled.reading import FileItems, Reading
    from clozeworks.data.labelled.written_rows import WrittenFile

# A label, several of them, or a number; None if it is not known.
Label = str | tuple[str, ...] | float | None
Span = tuple[int, int]

NO_LABELS = "none"


@dataclass(frozen=True, slots=True)
class Role:
    """What a column is for."""

    name: str
    """What it is called in `--columns`."""
    known: tuple[str, ...] = ()
    """Usual names, the likeliest first."""
    required: bool = True
    """Whether there must be one."""
    holds: Literal["text", "label"] | None = None
    """How it is recognised where no column has a usual name: text is long, labels repeat; None if
    it is not recognised."""
    partner: str = ""
    """Of two columns of texts the left one plays this role, and the right one that of its
    partner."""
    suffices: bool = False
    """Whether no other column is needed where this one is found."""
    is_span: bool = False
    """Whether it is a stretch of the row's text: where it begins, and where it ends."""


class Item:
    """A row of labelled data.

    A subclass is a frozen dataclass with a field `source_location` (where the row came from) and
    states what is particular to it. Most of what follows has a default that fits one text with
    labels.
    """

    __slots__ = ()

    command: ClassVar[str] = ""
    """The task whose rows these are, as a person types it."""
    roles: ClassVar[tuple[Role, ...]] = ()
    """The columns a table may have."""
    known_pairs: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Usual names of two columns that go together, for the first two roles."""
    suffixes: ClassVar[tuple[str, ...]] = TABLE_SUFFIXES
    """Files that hold such rows."""
    text_names: ClassVar[tuple[str, ...]] = ("text",)
    """What its texts are called; the attributes that hold them."""
    unit: ClassVar[str] = "row"
    """What one of them is called when labelled files are counted."""
    asked_unit: ClassVar[str] = "text"
    """What one of them is called when a model is asked about it."""
    shares_text: ClassVar[bool] = False
    """Whether its last text is long and shared by many, such as the context of questions."""
    shared_words: ClassVar[tuple[str, str]] = ("context", "contexts")
    """What a text is called that many items share; one, and several."""
    label_role: ClassVar[str] = "label"
    """The column that holds what is right."""
    label_word: ClassVar[str] = "label"
    """What one of the things to learn is called."""
    gold_word: ClassVar[str] = "labels"
    """What a file without them lacks."""
    labels_title: ClassVar[str] = "labels"
    """The heading above a count of labels."""
    labels_by_word: ClassVar[bool] = False
    """Whether each word has a label, rather than each row."""
    gold_text_name: ClassVar[str] = "answer"
    """What texts are called that are right."""
    writes: ClassVar[bool] = False
    """Whether what is right is a text to write."""
    is_prose: ClassVar[bool] = True
    """Whether its texts are as people write them; if not, spaces and signs say nothing."""
    label_kinds: ClassVar[Mapping[str, str]] = {"labels": "labels", NO_LABELS: "no labels"}
    """The kinds of labels files may have, the usual first, and what a person calls each."""
    labels_needed: ClassVar[bool] = True
    """Whether something can be done only with labels."""
    example: ClassVar[tuple[str, ...]] = ("a text of yours",)
    """Texts to try a model with."""
    asked_roles: ClassVar[tuple[str, ...]] = ("text",)
    """The columns a model is asked about; the others say what is right."""
    asked_suffixes: ClassVar[tuple[str, ...]] = (".txt", *TABLE_SUFFIXES)
    """Files whose rows a model can be asked about; a line of .txt is a text."""

    source_location: str

    # What an item holds.

    @property
    def texts(self) -> tuple[str, ...]:
        """Its texts, in order."""
        return tuple(getattr(self, name) for name in self.text_names)

    @property
    def names_of_texts(self) -> tuple[str, ...]:
        """What each of its texts is called."""
        return self.text_names

    @property
    def sequences(self) -> tuple[tuple[str, ...], ...]:
        """What a model reads at once: a text, or two; usually all its texts."""
        return (self.texts,)

    @property
    def gold(self) -> Any:
        """What is right for it, comparable; None if that is not known."""
        return getattr(self, "label", None)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels or tags it has; none where it has something else."""
        gold = self.gold
        if isinstance(gold, str):
            return (gold,)
        return gold if isinstance(gold, tuple) and all(isinstance(g, str) for g in gold) else ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """What must be known of its labels beforehand: of tags the type."""
        return self.labels

    @property
    def entities(self) -> tuple[str, ...]:
        """The types of the entities that its tags name, one for each entity."""
        return ()

    @property
    def gold_texts(self) -> tuple[str, ...]:
        """Texts that are right, where what is right is text."""
        return ()

    @property
    def gold_state(self) -> str:
        """In a few words, whether there is an answer, where that is a question."""
        return ""

    @property
    def shared_text(self) -> str | None:
        """A text that many items share, such as the context of questions."""
        return None

    @property
    def word_count(self) -> int | None:
        """How many words it has, where it is cut into words."""
        return None

    def difference(self, other: Self, where: str) -> str:
        """How what is right differs from another item with the same text, which stands `where`."""
        return f"{_shown(self.gold)}, in {where} {_shown(other.gold)}"

    # What becomes of it.

    def inputs(self) -> dict[str, Any]:
        """What a model is asked, as JSON can hold it."""
        return {name: getattr(self, name) for name in self.text_names}

    def asked(self) -> dict[str, Any]:
        """What a model is asked by role, as JSON can hold it: `from_row` makes the same of it.

        Raises:
            InputError: If rows cannot say it.
        """
        cells = {
            role.name: getattr(self, role.name, None)
            for role in self.roles
            if role.name in self.asked_roles
        }
        return {name: cell for name, cell in cells.items() if cell not in (None, "")}

    def echo(self) -> dict[str, Any]:
        """What a record of a prediction repeats of it; less than `inputs` where that is long."""
        return self.inputs()

    def gold_json(self) -> Any:
        """What is right, as JSON can hold it."""
        gold = self.gold
        return list(gold) if isinstance(gold, tuple) else gold

    def to_dict(self) -> dict[str, Any]:
        """The one JSON form, with what is right under the name of its column."""
        gold = self.gold_json()
        return self.inputs() if gold is None else {**self.inputs(), self.label_role: gold}

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The item with its labels called otherwise; itself where it has none."""
        return self

    def augmented(self, editor: "TextEditor") -> Self:
        """The item with its texts changed; itself where a changed text may want another label."""
        return self

    # How rows become items.

    @classmethod
    def asked_as(cls, named: Collection[str], has_lists: bool) -> "type[Item]":
        """What rows become that a model is asked about.

        Args:
            named: The roles a person named columns for.
            has_lists: Whether some cell of the table holds a list.
        """
        return cls

    @classmethod
    def from_lines(
        cls,
        lines: Iterator[str],
        origin: str,
        suffix: str,
        named: Mapping[str, str],
        refuse: Callable[[str, str], None],
    ) -> "tuple[Iterator[Item], str] | Iterator[str]":
        """Items from the lines of a text file with a layout of its own.

        Args:
            lines: The lines.
            origin: The file, for messages.
            suffix: What the file's name ends in.
            named: The columns a person named, by role.
            refuse: Called with the source location of a line that cannot be used, and why.

        Returns:
            The items and a sentence about the layout; or the lines, if it has none of its own.
        """
        return lines

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> "Item":
        """An item from the cells of a row, by role.

        Args:
            row: The cells of the columns that were found.
            source_location: Where the row stands.
            bad: Collects what was repaired on the way.

        Raises:
            ValueError: If the row cannot be used; the message says why and what to do.
        """
        raise NotImplementedError

    @classmethod
    def from_texts(cls, texts: Sequence[str], source_location: str = "") -> "Item":
        """An item without a label from its texts alone; they are known to be usable."""
        return cls(*texts, source_location=source_location)  # type: ignore[call-arg]

    @classmethod
    def read_file(
        cls, path: Path, suffix: str, reading: "Reading", bad: BadRows
    ) -> "FileItems | None":
        """The items of a file with a layout of its own; None if it is a table."""
        return None

    @classmethod
    def written_file(
        cls, path: Path, suffix: str, reading: "Reading", source_locations: Collection[str]
    ) -> "WrittenFile | None":
        """The rows of a file with a layout of its own as they were written; None for a table."""
        return None

    @classmethod
    def settle(
        cls, items: Sequence["Item"], reading: "Reading", bad: BadRows
    ) -> tuple[Sequence["Item"], str]:
        """The items with their labels read, now that all files are, and the kind of the labels."""
        known = any(item.gold is not None for item in items)
        return items, next(iter(cls.label_kinds)) if known else NO_LABELS

    @classmethod
    def described_labels(cls, has_column: bool, kind: str) -> str:
        """A clause about the labels of a table, for the sentence that names its columns."""
        return ""

    @classmethod
    def has_label_set(cls, kind: str) -> bool:
        """Whether labels of a kind are names of which there is a fixed set."""
        return False

    @classmethod
    def missing_labels(cls, items: Sequence["Item"]) -> str | None:
        """A clause that says why there are no labels and what to do; None for the usual one."""
        return None


def text_columns(items: Sequence[Item]) -> dict[str, list[str]]:
    """The texts of items by what they are called."""
    columns: dict[str, list[str]] = {}
    for item in items:
        for name, text in zip(item.names_of_texts, item.texts, strict=True):
            columns.setdefault(name, []).append(text)
    return columns


def wrong_text(text: object, what: str) -> str:
    """Says why a text cannot be used; empty if it can."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return f"the {what} is empty; give it one"
    if not isinstance(text, str):
        return f"the {what} is {json_type(text)}; it must be a string; correct it"
    if surrogate := lone_surrogate(text):
        return (
            f"the {what} holds the lone surrogate {surrogate}, half a character; write the whole "
            "character"
        )
    return ""


class ItemLocations(SourceLocations):
    """Says where each item came from, or its number; the sentence is made when it is asked for."""

    def __init__(self, items: Sequence[Any], what: str = "item") -> None:
        super().__init__(
            range(len(items)), lambda index: items[index].source_location or f"{what} {index + 1:,}"
        )


def _shown(gold: object) -> str:
    return "+".join(map(str, gold)) if isinstance(gold, tuple) else str(gold)
