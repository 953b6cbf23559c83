"""What a model is asked about: a text, the rows of a file, or the lines of standard input."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from clozeworks.cli.inputs import Whole, refuse, resolve_input
from clozeworks.data.files.compression import COMPRESSIONS
from clozeworks.data.files.encodings import missing_file, open_file, printable
from clozeworks.data.files.lines import STANDARD_INPUT, LineReader, read_text, stream_lines
from clozeworks.data.files.tables import Table, TableReader
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column, find_columns, parse_columns
from clozeworks.data.labelled.items import (
    ChatItem,
    Item,
    PairItem,
    QuestionItem,
    SourceItem,
    TextItem,
    WordsItem,
)
from clozeworks.data.labelled.readers.conll import CONLL_SUFFIXES, CONLLU_SUFFIX
from clozeworks.data.labelled.readers.squad import wrong_text
from clozeworks.data.labelled.reading import Reading, read_labelled
from clozeworks.errors import ClozeworksError, InputError, SettingError

CommandTask = Literal["classify", "compare", "tag", "answer", "generate", "text-to-text"]

# A chunk has about so many characters, and at most so many items.
CHUNK_CHARACTERS = 500_000
CHUNK_ITEMS = 10_000
# Writing takes long, and whoever stops it keeps only chunks that are done: a few batches each.
WRITTEN_ITEMS = 64
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
# Of these the suffix alone says that a line is a word.
COLUMNS_OF_WORDS = (*(s for s in CONLL_SUFFIXES if s not in (".txt", ".tsv")), CONLLU_SUFFIX)
SUFFIXES: dict[CommandTask, tuple[str, ...]] = {
    "classify": (".txt", *TABLES, ".json"),
    "compare": (*TABLES, ".json"),
    "tag": (".txt", *TABLES, ".json", *COLUMNS_OF_WORDS),
    "answer": (*TABLES, ".json"),
    "text-to-text": (".txt", *TABLES, ".json"),
    "generate": (".txt", *TABLES, ".json"),
}
_PARTS = {"compare": ("first text", "second text"), "answer": ("question", "context")}
_TAG = re.compile(r"O|[BIESMLU][-_][^\W\d_].*")
_LOOKED_AT = 50
# Fewer lines than these that end in what could be a tag (vitamin B-x) are texts.
_LEAST_LINES = 3


@dataclass(frozen=True)
class InputItems:
    """Items that are read as they are needed.

    Attributes:
        origin: The file, or what else they come from.
        chunks: The items, so many at a time as can be answered at once.
        share: Which share of the source has been read; None if nobody knows.
        found: What was taken for what, in a sentence; empty if there was no choice.
        direct: Whether they stood on the command line.
    """

    origin: str
    chunks: Iterator[list[Item]]
    share: Callable[[], float | None] = lambda: None
    found: str = ""
    direct: bool = False


def asked_items(
    source: str,
    task: CommandTask,
    *,
    columns: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    bad: BadRows,
) -> InputItems:
    """Opens what a model is asked about.

    Args:
        source: A text, the name of a file, or - for the lines of standard input.
        task: What is asked.
        columns: Which columns are what, as a person wrote it.
        header: Whether the first row of csv and tsv is a header; found out if not given.
        encoding: What files and standard input are written in.
        bad: Told about rows that cannot be used.

    Raises:
        InputError: The source cannot be used as it is.
        SettingError: An option has no effect on such a source.
    """
    path = _resolved(source, task)
    unused = {"--columns": columns, "--header": header}
    if isinstance(path, str):
        _check_unused({**unused, "--skip-bad-rows": bad.skip or None}, "the input is a text")
        return one_item((path,), task)
    if path is None:
        _check_unused(unused, f"{STANDARD_INPUT} has no columns")
        return InputItems(STANDARD_INPUT, _arriving(task, encoding, bad))
    suffix = _suffix(path, task)
    named = {} if columns is None else _named(columns, task)
    if suffix == ".json" or (task == "text-to-text" and suffix in TABLES):
        return _document(path, task, Reading(named, header, None, None, encoding), bad)
    if task == "tag" and suffix not in (".jsonl", ".parquet"):
        lines = LineReader(path, encoding)
        given, looks_tagged = _peeked(lines)
        if suffix in COLUMNS_OF_WORDS or "words" in named or (looks_tagged and "text" not in named):
            conllu = suffix == CONLLU_SUFFIX
            return _words_in_columns(lines, given, named, bad, conllu=conllu)
    if suffix == ".txt":
        _check_unused(unused, f"each line of {printable(path)} is a text")
        lines = LineReader(path, encoding)
        items = _numbered(lines, task, lines.origin, bad)
        return InputItems(lines.origin, in_chunks(items, task), lines.fraction_read)
    return _table(TableReader(path, encoding, partial(refuse, bad)), task, named, header, bad)


def one_item(texts: tuple[str, ...], task: CommandTask) -> InputItems:
    """Makes what is asked of texts that stood on the command line.

    Raises:
        InputError: One of them cannot be used.
    """
    for text, what in zip(texts, _PARTS.get(task, ("text",)), strict=True):
        if wrong := wrong_text(text, what):
            raise InputError(f"the command line: {wrong}.")
    items = [*_from_texts(texts, task, "", BadRows())]
    return InputItems("the command line", iter([items]), lambda: 1.0, direct=True)


def whole_text(source: str, encoding: str) -> str:
    """One text, to the character: as it was given, or what a file or standard input holds.

    Args:
        source: A text, the name of a file, compressed or not, or - for standard input.
        encoding: What a file and standard input are written in.

    Raises:
        InputError: It cannot be read, or is no text.
    """
    found = resolve_input(source)
    if isinstance(found, str):
        return found
    return read_text(sys.stdin.buffer if found is None else found, encoding=encoding)


def in_chunks(items: Iterable[Item], task: CommandTask) -> Iterator[list[Item]]:
    """Items, so many at a time; those before a bad one are given before that is said."""
    most = WRITTEN_ITEMS if task == "text-to-text" else CHUNK_ITEMS
    held: list[Item] = []
    length = 0
    try:
        for item in items:
            held.append(item)
            length += _length(item)
            if length >= CHUNK_CHARACTERS or len(held) >= most:
                yield held
                held, length = [], 0
    except ClozeworksError:
        if held:
            yield held
        raise
    if held:
        yield held


def _length(item: Item) -> int:
    if isinstance(item, PairItem):
        return len(item.first) + len(item.second)
    if isinstance(item, QuestionItem):
        return len(item.question) + len(item.context)
    return len(item.source if isinstance(item, SourceItem | ChatItem) else item.text)


def _resolved(source: str, task: CommandTask) -> str | Path | None:
    """What the source is; a name that only looks like a file's is no text."""
    found = resolve_input(source)
    name = source.lower()
    for packing in COMPRESSIONS:
        name = name.removesuffix(packing)
    named_like_file = name.endswith(SUFFIXES[task]) and not any(map(str.isspace, source))
    if isinstance(found, str) and named_like_file:
        raise missing_file(
            Path(source),
            "check the name and the folder, or, if it is meant as a text, pipe it in with -",
        )
    if isinstance(found, str) and task in _PARTS:
        first, second = _PARTS[task]
        raise InputError(
            f"there is one text; {task} needs a {first} and a {second}; give both, or name a file "
            "that exists."
        )
    return found


def _check_unused(options: Mapping[str, object], because: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise SettingError(f"{name} is given, but {because}; leave {name} out.")


def _suffix(path: Path, task: CommandTask) -> str:
    packed = path.suffix.lower() in COMPRESSIONS
    suffix = (Path(path.stem) if packed else path).suffix.lower()
    if suffix in SUFFIXES[task] and not (packed and suffix == ".parquet"):
        return suffix
    with open_file(path):  # that a file cannot be read is worse news than its suffix
        pass
    shown = "".join(path.suffixes[-2:] if packed else path.suffixes[-1:])
    has = f"has the suffix {shown!r}" if shown else "has no suffix"
    raise InputError(
        f"{printable(path)} {has}; {task} reads {', '.join(SUFFIXES[task])}, all but .parquet also "
        f"with {', '.join(COMPRESSIONS)}; rename or convert the file, or pipe its lines in with -."
    )


def _named(columns: str, task: CommandTask) -> dict[str, str]:
    roles = {part.partition("=")[0].strip() for part in columns.split(",")}
    return parse_columns(columns, "classify" if task == "tag" and "text" in roles else task)


def _from_texts(
    texts: tuple[str, ...], task: CommandTask, place: str, bad: BadRows
) -> Iterator[Item]:
    """The item that some texts make; none if they cannot be used."""
    for text, what in zip(texts, _PARTS.get(task, ("text",)), strict=True):
        if wrong := wrong_text(text, what):
            refuse(bad, place, wrong)
            return
    if task == "compare":
        yield PairItem(texts[0], texts[1], place=place)
    elif task == "answer":
        yield QuestionItem(texts[0], texts[1], place=place)
    elif task == "tag":
        yield WordsItem.of_text(texts[0], place)
    elif task == "text-to-text":
        yield SourceItem(texts[0], place=place)
    else:
        yield TextItem(texts[0], place=place)


def _numbered(
    lines: Iterable[str], task: CommandTask, origin: str, bad: BadRows, first: int = 1
) -> Iterator[Item]:
    """Each line as an item; of two texts a tab stands between them."""
    for number, line in enumerate(lines, start=first):
        place = f"{origin}, line {number:,}"
        if task not in _PARTS:
            yield from _from_texts((line,), task, place, bad)
            continue
        parts = tuple(line.split("\t"))
        if len(parts) == 2:
            yield from _from_texts(parts, task, place, bad)
        else:
            one, other = _PARTS[task]
            tabs = "is no tab" if len(parts) == 1 else f"are {len(parts) - 1:,} tabs"
            refuse(bad, place, f"there {tabs}; put one between {one} and {other}")


def _arriving(task: CommandTask, encoding: str, bad: BadRows) -> Iterator[list[Item]]:
    first = 1
    for lines in stream_lines(sys.stdin.buffer, encoding=encoding):
        yield from in_chunks(_numbered(lines, task, STANDARD_INPUT, bad, first), task)
        first += len(lines)


def _document(path: Path, task: CommandTask, reading: Reading, bad: BadRows) -> InputItems:
    """A JSON document, which can only be read as a whole."""
    labelled = read_labelled(path, task, reading, bad=bad)
    items = Whole(labelled.items)
    return InputItems(printable(path), in_chunks(items, task), items.fraction_read, labelled.found)


def _peeked(lines: LineReader) -> tuple[Iterator[str], bool]:
    """All lines, and whether each of the first ends in a tag, as words in columns do."""
    every = iter(lines)
    held = list(islice(every, _LOOKED_AT))
    cells = [re.split("[ \t]+", line.strip(" ")) for line in held if line.strip(" \t")]
    width = len(cells[0]) if len(cells) >= _LEAST_LINES else 0
    tagged = width > 1 and all(len(row) == width and _TAG.fullmatch(row[-1]) for row in cells)
    return chain(held, every), tagged


def _words_in_columns(
    lines: LineReader, given: Iterator[str], named: Mapping[str, str], bad: BadRows, *, conllu: bool
) -> InputItems:
    origin = lines.origin
    column = named.get("words", "2" if conllu else "1")
    if "text" in named or not column.isdecimal() or int(column) < 1:
        raise SettingError(
            f"--columns names a column of {origin} by its name, and words in columns have no "
            "header; give the number of the words' column, for example --columns words=1."
        )
    items = _sentences(given, origin, int(column), bad, conllu)
    said = "Each line is a word" + (f", in column {column}" if column != "1" else "")
    return InputItems(
        origin, in_chunks(items, "tag"), lines.fraction_read, f"{said}; blank lines end sentences."
    )


def _sentences(
    lines: Iterator[str], origin: str, column: int, bad: BadRows, conllu: bool
) -> Iterator[Item]:
    """The words of each sentence, as they stand in the file."""
    words: list[str] = []
    begin = 0
    for number, line in enumerate(chain(lines, [""]), start=1):
        if not line.strip(" \t") or re.match(r"-DOCSTART-(?:[ \t]|$)", line):
            if words:
                yield WordsItem.of_words(words, place=f"{origin}, line {begin:,}")
            words = []
            continue
        if conllu and line.startswith("#"):
            continue
        # Trap: str.split also cuts at ideographic and no-break spaces, which can be words.
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if conllu and re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0]):
            continue
        if len(cells) < column or not cells[column - 1].strip():
            place = f"{origin}, line {number:,}"
            refuse(bad, place, f"there is no word in column {column}; give it one")
            continue
        begin = begin if words else number
        words.append(cells[column - 1])


def _table(
    rows: TableReader,
    task: CommandTask,
    named: Mapping[str, str],
    header: bool | None,
    bad: BadRows,
) -> InputItems:
    words = task == "tag" and "text" not in named and ("words" in named or _has_lists(rows.head))
    wanted = "classify" if task == "tag" and not words else task
    head, found = find_columns(rows.head, wanted, named, header)
    roles = {"compare": ("first", "second"), "answer": ("question", "context")}
    chosen = roles.get(task, ("words" if words else "text",))
    columns = [column for role in chosen for column in found if column.role == role]
    name = next((column for column in found if column.role == "id" and task == "answer"), None)
    used = [*columns, *([name] if name else [])]
    said = f"Columns: {', '.join(map(str, used))}" + ("." if any(head.names) else "; no header.")
    items = _items(rows, head, columns, name, task, bad)
    return InputItems(head.origin, in_chunks(items, task), rows.fraction_read, said)


def _has_lists(head: Table) -> bool:
    return any(isinstance(cell, list) for _, cells in head.rows[:_LOOKED_AT] for cell in cells)


def _items(
    rows: TableReader,
    head: Table,
    columns: list[Column],
    name: Column | None,
    task: CommandTask,
    bad: BadRows,
) -> Iterator[Item]:
    places = [column.number - 1 for column in columns]
    for number, cells in rows.rows(head):
        given, place = tuple(cells[each] for each in places), head.place(number)
        if isinstance(given[0], list):
            words = given[0]
            if words and all(isinstance(word, str) and word.strip(" ") for word in words):
                yield WordsItem.of_words(words, place=place)
            else:
                what = "the words must be a list of strings, none of them empty; fix them"
                refuse(bad, place, what)
            continue
        for item in _from_texts(given, task, place, bad):
            if isinstance(item, QuestionItem) and name is not None:
                given_id = cells[name.number - 1]
                item = replace(item, id="" if given_id is None else str(given_id))
            yield item
