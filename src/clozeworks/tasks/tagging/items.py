"""Words with tags: the item, CoNLL columns, CoNLL-U, and lists in JSON or parquet.

In CoNLL columns a line is a word, the first column the word and the last its tag; a blank line ends
a sentence. In CoNLL-U ranges (`1-2`) and empty nodes (`1.1`) are left out, so each syntactic word
counts once. A sentence with a bad line is dropped as a whole: without one of its words the others
would mean something else.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

from clozeworks.data.augment.changing import TextEditor
from clozeworks.data.files.encodings import lone_surrogate, printable
from clozeworks.data.files.fields import json_type, whole_number
from clozeworks.data.files.lines import read_lines
from clozeworks.data.files.tables import TABLE_SUFFIXES, nothing
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import TEXT_COLUMNS, Column
from clozeworks.data.labelled.items import NO_LABELS, Item, Role, Span, wrong_text
from clozeworks.data.labelled.reading import FileItems, Reading
from clozeworks.data.labelled.written_rows import WrittenFile
from clozeworks.errors import InputError, SettingError, Stated
from clozeworks.text.characters import characters_of, is_chinese, words_of
from clozeworks.wording import counted

CONLL_SUFFIXES = (".conll", ".bio", ".bioes", ".bmes", ".iob", ".iob2", ".tsv", ".txt")
CONLLU_SUFFIX = ".conllu"
# Of these the suffix alone says that a line is a word.
COLUMNS_OF_WORDS = (*(s for s in CONLL_SUFFIXES if s not in (".txt", ".tsv")), CONLLU_SUFFIX)
_TAG = re.compile(r"O|[BIESMLU][-_][^\W\d_].*")
_LOOKED_AT = 50
# Fewer lines than these that end in what could be a tag (vitamin B-x) are texts.
_LEAST_LINES = 3

_BLANKS = re.compile("[ \t]+")
_ENTITY = re.compile(r"[BIOEMSLU][-_](.+)")
_DOCUMENT = re.compile(r"-DOCSTART-(?:[ \t]|$)")
_WIDTH = 10  # columns of CoNLL-U
_WORD = re.compile("[0-9]+")
_LEFT_OUT = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")
_CONLLU_NAMES = {"form": 2, "lemma": 3, "upos": 4, "xpos": 5, "deprel": 8}


@dataclass(frozen=True, slots=True)
class WordsItem(Item):
    """A text cut into words, each with a tag."""

    text: str
    spans: tuple[Span, ...]
    """Where each word stands in it: begin and end, in order, without overlap."""
    tags: tuple[str, ...] | None = None
    """One for each word; None if they are not known."""
    source_location: str = ""
    detected: bool = field(default=False, repr=False)
    """Whether the words were found in the text; otherwise they stay as they are."""

    command: ClassVar[str] = "tag"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("words", ("words", "tokens", "word", "token", "sentence")),
        Role("tags", ("tags", "ner_tags", "ner", "pos_tags", "upos", "labels"), required=False),
    )
    suffixes: ClassVar[tuple[str, ...]] = (
        *(*CONLL_SUFFIXES, CONLLU_SUFFIX),
        *(".jsonl", ".json", ".parquet"),
    )
    asked_roles: ClassVar[tuple[str, ...]] = ("words",)
    asked_suffixes: ClassVar[tuple[str, ...]] = (".txt", *TABLE_SUFFIXES, *COLUMNS_OF_WORDS)
    unit: ClassVar[str] = "sentence"
    label_role: ClassVar[str] = "tags"
    label_word: ClassVar[str] = "type"
    labels_title: ClassVar[str] = "tags of words"
    labels_by_word: ClassVar[bool] = True
    is_prose: ClassVar[bool] = False
    label_kinds: ClassVar[Mapping[str, str]] = {"tags": "a tag per word", NO_LABELS: "no labels"}

    @classmethod
    def of_words(
        cls, words: Sequence[str], tags: Sequence[str] | None = None, source_location: str = ""
    ) -> "WordsItem":
        """Makes a text of words: spaces between them, but not between Chinese characters."""
        text, spans = "", []
        for before, word in pairwise(["", *words]):
            apart = before and not (is_chinese(before[-1:]) and is_chinese(word[:1]))
            text += " " if apart else ""
            spans.append((len(text), len(text) + len(word)))
            text += word
        return cls(text, tuple(spans), None if tags is None else tuple(tags), source_location)

    @classmethod
    def of_text(cls, text: str, source_location: str = "") -> "WordsItem":
        """Finds the words of a text."""
        return cls(text, tuple(words_of(text)), source_location=source_location, detected=True)

    def by_character(self) -> "WordsItem":
        """The same text with each character as a word; what is one to the eye stays one."""
        return replace(self, spans=tuple(characters_of(self.text)))

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)

    @property
    def gold(self) -> tuple[str, ...] | None:
        """The tags; None if they are not known."""
        return self.tags

    @property
    def label_names(self) -> tuple[str, ...]:
        """The types of its tags; which of B, I, E, S occurs is chance."""
        return tuple(map(entity_type, self.tags or ()))

    @property
    def entities(self) -> tuple[str, ...]:
        """The type of each entity: of each tag that begins one."""
        types, before = [], ""
        for tag in self.tags or ():
            kind = entity_type(tag)
            if kind != tag and (tag[0] in "BSU" or before != kind):
                types.append(kind)
            before = kind
        return tuple(types)

    @property
    def word_count(self) -> int | None:
        """How many words it has."""
        return len(self.spans)

    def difference(self, other: Self, where: str) -> str:
        """The first word that is tagged otherwise."""
        if self.spans != other.spans:
            return f"cut into other words in {where}"
        tags = zip(self.words, self.tags or (), other.tags or (), strict=False)
        word, here, there = next((each for each in tags if each[1] != each[2]), ("", "no tag", ""))
        return f"{word!r} is {here}, in {where} {there or 'it has a tag'}"

    def inputs(self) -> dict[str, Any]:
        """The text and its words."""
        return {"text": self.text, "words": list(self.words)}

    def asked(self) -> dict[str, Any]:
        """The text if its words are to be found, or else its words.

        Raises:
            InputError: If the words stand elsewhere than `of_words` would put them.
        """
        if self.detected:
            return {"text": self.text}
        joined = WordsItem.of_words(self.words)
        if (joined.text, joined.spans) != (self.text, self.spans):
            raise InputError(
                f"{self.source_location or 'the item'} has words at places of its own, which no "
                "row can say; give the text, or a list of its words."
            )
        return {"words": list(self.words)}

    def echo(self) -> dict[str, Any]:
        """The text; a prediction brings the words."""
        return {"text": self.text}

    def renamed(self, names: Mapping[str, str]) -> Self:
        """With its tags called otherwise."""
        return replace(self, tags=tuple(names[tag] for tag in self.tags or ()))

    def augmented(self, editor: TextEditor) -> Self:
        """With other words; tagged ones stay entities."""
        text, spans, numbers = editor.words(self.text, self.spans, self.tags, "words")
        tags = None if self.tags is None else tuple(self.tags[number] for number in numbers)
        return replace(self, text=text, spans=tuple(spans), tags=tags)

    @classmethod
    def asked_as(cls, named: Collection[str], has_lists: bool) -> type[Item]:
        """Words that stay as they are, or raw text in a column."""
        words = "text" not in named and ("words" in named or has_lists)
        return cls if words else _RawText

    @classmethod
    def from_lines(
        cls,
        lines: Iterator[str],
        origin: str,
        suffix: str,
        named: Mapping[str, str],
        refuse: Callable[[str, str], None],
    ) -> tuple[Iterator[Item], str] | Iterator[str]:
        """Words in columns, if the suffix says so or each of the first lines ends in a tag."""
        lines, looks_tagged = _peeked(lines)
        in_columns = suffix in COLUMNS_OF_WORDS or "words" in named
        if not in_columns and not (looks_tagged and "text" not in named):
            return lines
        conllu = suffix == CONLLU_SUFFIX
        column = named.get("words", "2" if conllu else "1")
        number = whole_number(column)
        if "text" in named or not number:
            raise SettingError(
                "--columns",
                Stated(",".join(f"{role}={name}" for role, name in named.items())),
                f"words in columns, as in {origin}, have no header",
                "give the number of the words' column, for example --columns words=1",
            )
        sentences = _bare_sentences(lines, origin, number, refuse, conllu)
        where = f", in column {column}" if column != "1" else ""
        return sentences, f"Each line is a word{where}; blank lines end sentences."

    @classmethod
    def from_texts(cls, texts: Sequence[str], source_location: str = "") -> "WordsItem":
        """A raw text; its words are found."""
        return cls.of_text(texts[0], source_location)

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> "WordsItem":
        """A row that holds a list of words and a list of tags."""
        words, tags = row["words"], row.get("tags")
        if wrong := _wrong_lists(words, tags, "tags" in row):
            raise ValueError(wrong)
        return cls.of_words(words, None if tags is None else list(map(str, tags)), source_location)

    @classmethod
    def read_file(cls, path: Path, suffix: str, reading: Reading, bad: BadRows) -> FileItems | None:
        """Words in columns."""
        if suffix not in (*CONLL_SUFFIXES, CONLLU_SUFFIX):
            return None
        lines = read_lines(path, reading, notes=bad.notes)
        conllu = suffix == CONLLU_SUFFIX
        sentences, columns = read_conll(lines, printable(path), reading.columns, bad, conllu=conllu)
        return FileItems(sentences, columns)

    @classmethod
    def written_file(
        cls, path: Path, suffix: str, reading: Reading, source_locations: Collection[str]
    ) -> WrittenFile | None:
        """Words in columns as they were written: sentences with a blank line after each."""
        if suffix not in (*CONLL_SUFFIXES, CONLLU_SUFFIX):
            return None
        lines = read_lines(path, reading)
        return _written(lines, printable(path), suffix, source_locations)

    @classmethod
    def settle(
        cls, items: Sequence[Item], reading: Reading, bad: BadRows
    ) -> tuple[Sequence[Item], str]:
        """All of them have tags, or none has.

        Raises:
            InputError: If only some have tags.
        """
        bare = next((item for item in items if item.gold is None), None)
        tagged = any(item.gold is not None for item in items)
        if bare is not None and tagged:
            raise InputError(
                f"{bare.source_location}: the words have no tags, and those of another file have; "
                "tag them, or leave this file out."
            )
        return items, "tags" if any(item.gold for item in items) else NO_LABELS

    @classmethod
    def has_label_set(cls, kind: str) -> bool:
        """Tags are a fixed set."""
        return True


class _RawText(WordsItem):
    """A row with a raw text, whose words are found."""

    __slots__ = ()

    roles: ClassVar[tuple[Role, ...]] = (Role("text", TEXT_COLUMNS, holds="text"),)
    asked_roles: ClassVar[tuple[str, ...]] = ("text",)

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> WordsItem:
        """A text, cut into words."""
        if wrong := wrong_text(row["text"], "text"):
            raise ValueError(wrong)
        return WordsItem.of_text(row["text"], source_location)


def _peeked(lines: Iterator[str]) -> tuple[Iterator[str], bool]:
    """All lines, and whether each of the first ends in a tag, as words in columns do."""
    held = list(islice(lines, _LOOKED_AT))
    cells = [re.split("[ \t]+", line.strip(" ")) for line in held if line.strip(" \t")]
    width = len(cells[0]) if len(cells) >= _LEAST_LINES else 0
    tagged = width > 1 and all(len(row) == width and _TAG.fullmatch(row[-1]) for row in cells)
    return chain(held, lines), tagged


def _bare_sentences(
    lines: Iterator[str],
    origin: str,
    column: int,
    refuse: Callable[[str, str], None],
    conllu: bool,
) -> Iterator[Item]:
    """The words of each sentence, as they stand in the file."""
    words: list[str] = []
    begin = 0
    for number, cells in _word_lines(lines, conllu):
        location = f"{origin}, line {number:,}"
        if not cells:
            if words:
                yield WordsItem.of_words(words, source_location=f"{origin}, line {begin:,}")
            words = []
        elif len(cells) < column or not cells[column - 1].strip():
            refuse(location, f"there is no word in column {column}; give it one")
        else:
            begin = begin if words else number
            words.append(cells[column - 1])


def _word_lines(
    lines: Iterable[str], conllu: bool, tabs: bool | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line with a word; no cells where a sentence ends.

    Cells are parted by tabs, or by blanks; if that is not stated, each line shows it.
    """
    for number, line in enumerate(chain(lines, [""]), start=1):
        if ends_sentence(line):
            yield number, []
        elif not (conllu and line.startswith("#")):
            cells = _cells(line, "\t" in line if tabs is None else tabs)
            if not (conllu and _LEFT_OUT.fullmatch(cells[0])):
                yield number, cells


def entity_type(tag: str) -> str:
    """The type in a tag such as `B-PER`; the tag itself if it names none."""
    match = _ENTITY.fullmatch(tag)
    return match[1] if match else tag


def read_conll(
    lines: Iterable[str],
    origin: str,
    named: Mapping[str, str],
    bad: BadRows,
    *,
    conllu: bool = False,
) -> tuple[list[WordsItem], tuple[Column, ...]]:
    """Reads words in columns: the sentences, and the columns; of a single one, without tags.

    Args:
        lines: The lines of the file.
        origin: The file, for messages.
        named: The numbers of the columns of `words` and `tags`, from 1. In CoNLL-U `upos` and
            `xpos` are names.
        bad: Collects lines that cannot be used.
        conllu: Whether the suffix says that it is CoNLL-U; otherwise that is recognised.
    """
    first, held = _first(iter(lines), conllu)
    if not first:
        raise nothing(origin)
    tabs = conllu or "\t" in first
    width = _WIDTH if conllu else len(_cells(first, tabs))
    conllu = tabs and width == _WIDTH and (conllu or first.startswith(("1\t", "1-")))
    word, tag = _columns(named, width, conllu, origin)
    items: list[WordsItem] = []
    sentence: list[list[str]] = []
    begin, is_bad = 0, False
    for number, cells in _word_lines(held, conllu, tabs):
        if not cells:
            if sentence and not is_bad:
                tags = [row[tag - 1] for row in sentence] if tag else None
                words = [row[word - 1] for row in sentence]
                items.append(WordsItem.of_words(words, tags, f"{origin}, line {begin:,}"))
            sentence, is_bad = [], False
            continue
        begin = begin if sentence else number
        sentence.append(cells)
        if bad.notes.skips(f"{origin}, line {number:,}", cells):
            is_bad = True
        elif wrong := _wrong(cells, width, conllu, word, tag):
            bad.add(f"{origin}, line {number:,}", wrong)
            is_bad = True
    names = {index: name for name, index in _CONLLU_NAMES.items()} if conllu else {}
    return items, tuple(
        Column(role, number, names.get(number, ""), "named" if role in named else "place")
        for role, number in (("words", word), ("tags", tag))
        if number
    )


def ends_sentence(line: str) -> bool:
    """Whether a line is blank, or says that a document begins."""
    return not line.strip(" \t") or _DOCUMENT.match(line) is not None


def _first(lines: Iterator[str], conllu: bool) -> tuple[str, Iterator[str]]:
    """The first line with a word, and all lines."""
    held: list[str] = []
    comment = ""
    for line in lines:
        held.append(line)
        if ends_sentence(line):
            continue
        if not line.startswith("# "):
            return line, chain(held, lines)
        comment = comment or ("" if conllu else line)  # it may be a word if there is no other
    return comment, iter(held)


def _cells(line: str, tabs: bool) -> list[str]:
    # Trap: str.split also cuts at ideographic and no-break spaces, which can be words.
    return line.split("\t") if tabs else _BLANKS.split(line.strip(" "))


def _columns(
    named: Mapping[str, str], width: int, conllu: bool, origin: str
) -> tuple[int, int | None]:
    chosen: dict[str, int | None] = {
        "words": 2 if conllu else 1,
        "tags": 4 if conllu else width if width > 1 else None,
    }
    for role, column in named.items():
        number = _CONLLU_NAMES.get(column.lower()) if conllu else None
        number = whole_number(column) if number is None else number
        if number is None:
            also = ", upos or xpos" if conllu else ""
            raise SettingError(
                "--columns",
                Stated(f"{role}={column}"),
                f"{origin} has no header; it must be a number from 1 to {width}{also}",
                "the word is usually 1",
            )
        if not 1 <= number <= width:
            raise InputError(
                f"{origin} has no column {number:,}; its first word has {width}; correct --columns."
            )
        chosen[role] = number
    return chosen["words"] or 1, chosen["tags"]


def _wrong(cells: Sequence[str], width: int, conllu: bool, word: int, tag: int | None) -> str:
    if len(cells) != width:
        columns = counted(len(cells), "column")
        rule = f"CoNLL-U has {width}, with tabs" if conllu else f"the first word has {width}"
        return (
            f"there {'is' if len(cells) == 1 else 'are'} {columns}; {rule}; put each word, and "
            "what belongs to it, on a line"
        )
    if conllu and not _WORD.fullmatch(cells[0]):
        return f"the number of the word is {cells[0]!r}; it must be one like 1, 1-2 or 1.1; fix it"
    if not cells[word - 1].strip(" "):
        return "the word is empty; give it one"
    if tag and not cells[tag - 1].strip(" "):
        return "the tag is empty; give it one"
    return ""


def _wrong_lists(words: object, tags: object, tagged: bool) -> str:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        what = "a list of other things" if isinstance(words, list) else json_type(words)
        return f"the words are {what}; they must be a list of strings; fix them"
    if not words:
        return "there are no words; give some"
    if not all(word.strip(" ") for word in words):
        return "a word is empty; give it one"
    if any(map(lone_surrogate, words)):
        return "a word holds half a character (a lone surrogate); write the whole character"
    if not tagged:
        return ""
    if not isinstance(tags, list) or not all(isinstance(tag, str | int) for tag in tags):
        what = "a list of other things" if isinstance(tags, list) else json_type(tags)
        return f"the tags are {what}; they must be a list of strings; fix them"
    if len(tags) != len(words):
        both = f"{counted(len(words), 'word')} and {counted(len(tags), 'tag')}"
        return f"there {'is' if len(words) == 1 else 'are'} {both}; each word needs one"
    if not all(str(tag).strip() for tag in tags):
        return "a tag is empty; give it one"
    return ""


def _written(
    lines: Iterator[str], origin: str, suffix: str, source_locations: Collection[str]
) -> WrittenFile:
    """Sentences, a blank line after each; marks of documents are left out."""
    plain = "" if suffix == CONLLU_SUFFIX else "columns of words"
    file = WrittenFile(suffix, format=plain)
    block: list[tuple[str, str]] = []

    for number, line in enumerate(chain(lines, [""]), start=1):
        if not ends_sentence(line):
            block.append((f"{origin}, line {number:,}", line))
            continue
        # A sentence is located by its first word; comments and ranges may stand before it.
        located = [(location, text) for location, text in block if location in source_locations]
        for location, text in located[:1]:
            tabs = "\t" in text
            shape = f"has {len(_cells(text, tabs))} columns with {'tabs' if tabs else 'spaces'}"
            file.shape = file.shape or shape
            file.rows[location] = "\n".join(text for _, text in block) + "\n\n"
        block.clear()
    return file
