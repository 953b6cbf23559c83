"""Words with tags: CoNLL columns, CoNLL-U, and lists in JSON or parquet.

In CoNLL columns a line is a word, the first column the word and the last its tag; a blank line ends
a sentence. In CoNLL-U ranges (`1-2`) and empty nodes (`1.1`) are left out, so each syntactic word
counts once. A sentence with a bad line is dropped as a whole: without one of its words the others
would mean something else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.tables import Table, nothing
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column, How
from clozeworks.data.labelled.items import WordsItem
from clozeworks.errors import InputError, SettingError
from clozeworks.wording import counted

CONLL_SUFFIXES = (".conll", ".bio", ".bioes", ".bmes", ".iob", ".iob2", ".tsv", ".txt")
CONLLU_SUFFIX = ".conllu"

_BLANKS = re.compile("[ \t]+")
_DOCUMENT = re.compile(r"-DOCSTART-(?:[ \t]|$)")
_WIDTH = 10  # columns of CoNLL-U
_WORD = re.compile("[0-9]+")
_LEFT_OUT = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")
_CONLLU_NAMES = {"form": 2, "lemma": 3, "upos": 4, "xpos": 5, "deprel": 8}


@dataclass
class _Sentence:
    """A sentence that is being read."""

    line: int = 0
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    bad: bool = False


def read_conll(
    lines: Iterable[str],
    origin: str,
    named: Mapping[str, str],
    bad: BadRows,
    *,
    conllu: bool = False,
) -> tuple[list[WordsItem], tuple[Column, ...]]:
    """Reads words in columns.

    Args:
        lines: The lines of the file.
        origin: The file, for messages.
        named: The numbers of the columns of `words` and `tags`, from 1. In CoNLL-U `upos` and
            `xpos` are names.
        bad: Told about lines that cannot be used.
        conllu: Whether it is CoNLL-U; if not said, that is recognised.

    Returns:
        The sentences, and the columns. With a single column there are no tags.

    Raises:
        InputError: If there is no word, or a column that is not there was named.
        SettingError: If a column is not named by number.
    """
    first, held = _first(iter(lines), conllu)
    if not first:
        raise nothing(origin)
    tabs = conllu or "\t" in first
    width = _WIDTH if conllu else len(_cells(first, tabs))
    conllu = tabs and width == _WIDTH and (conllu or first.startswith(("1\t", "1-")))
    word, tag = _columns(named, width, conllu, origin)
    items: list[WordsItem] = []
    sentence = _Sentence()

    def end() -> None:
        nonlocal sentence
        if sentence.words and not sentence.bad:
            tags = sentence.tags if tag else None
            items.append(
                WordsItem.of_words(sentence.words, tags, f"{origin}, line {sentence.line:,}")
            )
        sentence = _Sentence()

    for number, line in enumerate(held, start=1):
        if ends_sentence(line):
            end()
            continue
        if conllu and line.startswith("#"):
            continue
        cells = _cells(line, tabs)
        if conllu and _LEFT_OUT.fullmatch(cells[0]):
            continue
        sentence.line = sentence.line or number
        if wrong := _wrong(cells, width, conllu, word, tag):
            bad.add(f"{origin}, line {number:,}", wrong)
            sentence.bad = True
            continue
        sentence.words.append(cells[word - 1])
        if tag:
            sentence.tags.append(cells[tag - 1])
    end()
    columns = [("words", word), ("tags", tag)]
    return items, tuple(
        Column(role, number, _name(number) if conllu else "", _how(role, named))
        for role, number in columns
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
            return line, _chained(held, lines)
        comment = comment or ("" if conllu else line)  # it may be a word if there is no other
    return comment, iter(held)


def _chained(held: list[str], rest: Iterator[str]) -> Iterator[str]:
    yield from held
    yield from rest


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
        number = _CONLLU_NAMES.get(column.lower(), 0) if conllu else 0
        if not number and not column.isdecimal():
            also = ", upos or xpos" if conllu else ""
            raise SettingError(
                f"--columns {role}={column}: {origin} has no header; it must be a number from 1 "
                f"to {width}{also}; the word is usually 1."
            )
        number = number or int(column)
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


def _name(number: int) -> str:
    return next((name for name, place in _CONLLU_NAMES.items() if place == number), "")


def _how(role: str, named: Mapping[str, str]) -> How:
    return "named" if role in named else "place"


def tagged_rows(table: Table, columns: Sequence[Column], bad: BadRows) -> list[WordsItem]:
    """Makes items of rows that hold a list of words and a list of tags."""
    place = {column.role: column.number - 1 for column in columns}
    items = []
    for number, cells in table.rows:
        words = cells[place["words"]]
        tags = cells[place["tags"]] if "tags" in place else None
        if wrong := _wrong_lists(words, tags, "tags" in place):
            bad.add(table.place(number), wrong)
        else:
            names = None if tags is None else [str(tag) for tag in tags]
            items.append(WordsItem.of_words(words, names, table.place(number)))
    return items


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
