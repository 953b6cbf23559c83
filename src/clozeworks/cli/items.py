"""The items of a prediction: a text, the rows of a file, or the lines of standard input."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import length_hint
from pathlib import Path

from clozeworks.cli.inputs import (
    FILE_OPTIONS,
    LAYOUT_OPTIONS,
    TableOptions,
    check_unused,
    refuse,
    resolve_input,
)
from clozeworks.data.chunks import in_chunks
from clozeworks.data.files.compression import COMPRESSIONS
from clozeworks.data.files.encodings import missing_file, printable
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import (
    STANDARD_INPUT,
    LineReader,
    numbered_lines,
    read_text,
    stream_lines,
)
from clozeworks.data.files.tables import Table, TableReader
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column, find_columns, parse_columns
from clozeworks.data.labelled.items import Item, wrong_text
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import InputError, UnknownName

_LOOKED_AT = 50


@dataclass(frozen=True)
class InputItems:
    """Items that are read as they are needed.

    Attributes:
        origin: The file, or what else they come from.
        chunks: The items, as many at a time as are predicted at once.
        fraction_read: The fraction of the source that has been read; None if it is not known.
        found: Which columns were taken for what, in a sentence; empty if there was no choice.
        direct: Whether they were given on the command line.
    """

    origin: str
    chunks: Iterator[list[Item]]
    fraction_read: Callable[[], float | None] = lambda: None
    found: str = ""
    direct: bool = False


@dataclass(frozen=True)
class ItemInput:
    """How a command reads items.

    Attributes:
        item: What rows become.
        options: How files are read.
        bad: Collects rows that cannot be used.
        chunk: The maximum number of items that are predicted at once; as everywhere if not given.
    """

    item: type[Item]
    options: TableOptions
    bad: BadRows
    chunk: int | None = None

    def open(self, source: str) -> InputItems:
        """Opens a text, the name of a file, or - for the lines of standard input."""
        path, file_format = self._resolved(source), self.options.file_format()
        if isinstance(path, str):
            check_no_file(self.options)
            return one_item((path,), self.item)
        if path is None:
            unused = ("columns", "header", *LAYOUT_OPTIONS)
            check_unused(f"{STANDARD_INPUT} has no columns", self.options, *unused)
            return InputItems(STANDARD_INPUT, self._arriving())
        advice = "pipe its lines in with -"
        suffix = file_format.check(path, self.item.asked_suffixes, self.item.command, advice)
        if suffix == ".json":
            return self._document(path)
        if suffix not in (".jsonl", ".parquet"):
            lines = LineReader(path, file_format, self.bad.notes)
            special = self.item.from_lines(
                iter(lines), lines.origin, suffix, self._named(), partial(refuse, self.bad)
            )
            if isinstance(special, tuple):
                items, layout = special
                return InputItems(lines.origin, self._chunks(items), lines.fraction_read, layout)
        if suffix == ".txt":
            because = f"each line of {printable(path)} is a text"
            check_unused(because, self.options, "columns", "header")
            lines = LineReader(path, file_format, self.bad.notes)
            items = self._numbered(lines, lines.origin)
            return InputItems(lines.origin, self._chunks(items), lines.fraction_read)
        return self._table(
            TableReader(path, file_format, partial(refuse, self.bad), self.bad.notes)
        )

    def _resolved(self, source: str) -> str | Path | None:
        """What the source is; a text must not look like the name of a file."""
        resolved = resolve_input(source)
        name = source.lower()
        for packing in COMPRESSIONS:
            name = name.removesuffix(packing)
        named_like_file = name.endswith(self.item.asked_suffixes) and not any(
            map(str.isspace, source)
        )
        if isinstance(resolved, str) and named_like_file:
            raise missing_file(
                Path(source),
                "check the name and the folder, or, if it is meant as a text, pipe it in with -",
            )
        if isinstance(resolved, str) and len(self.item.text_names) > 1:
            needed = " and ".join(f"a {name}" for name in names_of_texts(self.item))
            raise InputError(
                f"there is one text; {self.item.command} needs {needed}; give both, or name a file "
                "that exists."
            )
        return resolved

    def _named(self) -> dict[str, str]:
        columns = self.options.columns
        if columns is None:
            return {}
        roles = {part.partition("=")[0].strip() for part in columns.split(",")}
        return parse_columns(columns, self.item.asked_as(roles, "text" not in roles))

    def _chunks(self, items: Iterable[Item]) -> Iterator[list[Item]]:
        return in_chunks(items, lambda item: sum(map(len, item.texts)), most=self.chunk)

    def _numbered(self, lines: Iterable[str], origin: str, first: int = 1) -> Iterator[Item]:
        """Each line as an item; the texts of an item are separated by tabs."""
        names = self.item.text_names
        for number, line in numbered_lines(lines, origin, self.bad.notes, first):
            source_location = f"{origin}, line {number:,}"
            parts = line.split("\t") if len(names) > 1 else [line]
            if len(parts) != len(names):
                tabs = "is no tab" if len(parts) == 1 else f"are {len(parts) - 1:,} tabs"
                refuse(
                    self.bad,
                    source_location,
                    f"there {tabs}; put one between {' and '.join(names_of_texts(self.item))}",
                )
            elif wrong := _wrong(parts, self.item):
                refuse(self.bad, source_location, wrong)
            else:
                yield self.item.from_texts(parts, source_location)

    def _arriving(self) -> Iterator[list[Item]]:
        first = 1
        file_format = self.options.file_format()
        for lines in stream_lines(sys.stdin.buffer, file_format, notes=self.bad.notes):
            yield from self._chunks(self._numbered(lines, STANDARD_INPUT, first))
            first += len(lines)

    def _document(self, path: Path) -> InputItems:
        """A JSON document, which can only be read as a whole."""
        item = self.item.asked_as(self._named(), has_lists=True)
        options = self.options
        reading = Reading(
            columns=self._named(), header=options.header, asks=True, **options.given()
        )
        labelled = read_items(path, item, reading, bad=self.bad)
        items, count = iter(labelled.items), len(labelled.items)

        def fraction() -> float:
            return 1 - length_hint(items) / max(1, count)

        return InputItems(printable(path), self._chunks(items), fraction, labelled.description)

    def _table(self, rows: TableReader) -> InputItems:
        named = self._named()
        cells = (cell for _, cells in rows.head.rows[:_LOOKED_AT] for cell in cells)
        item = self.item.asked_as(named, any(isinstance(cell, list) for cell in cells))
        head, all_columns = find_columns(rows.head, item, named, self.options.header)
        columns = [column for column in all_columns if column.role in item.asked_roles]
        header = "" if any(head.names) else "; no header"
        sentence = f"Columns: {', '.join(map(str, columns))}{header}."
        items = self._rows(rows, head, columns, item)
        return InputItems(head.origin, self._chunks(items), rows.fraction_read, sentence)

    def _rows(
        self, rows: TableReader, head: Table, columns: list[Column], item: type[Item]
    ) -> Iterator[Item]:
        for number, cells in rows.rows(head):
            row = {column.role: cells[column.number - 1] for column in columns}
            source_location = head.location(number)
            try:
                yield item.from_row(row, source_location, self.bad)
            except ValueError as error:
                refuse(self.bad, source_location, str(error))


def check_no_file(options: TableOptions) -> None:
    """Complains about options that need a file, for texts on the command line."""
    because = "the input is a text, not a file"
    unused = ("columns", "header", "skip_bad_rows", *(set(FILE_OPTIONS) - {"encoding"}))
    check_unused(because, options, *unused)


def one_item(texts: tuple[str, ...], item: type[Item]) -> InputItems:
    """Makes one item of texts on the command line."""
    if wrong := _wrong(texts, item):
        raise InputError(f"the command line: {wrong}.")
    items: list[Item] = [item.from_texts(texts)]
    return InputItems("the command line", iter([items]), lambda: 1.0, direct=True)


def whole_text(source: str, file_format: FileFormat) -> str:
    """The whole of a text, a file (compressed or not), or for - standard input, unchanged."""
    resolved = resolve_input(source)
    if isinstance(resolved, str):
        return resolved
    return read_text(sys.stdin.buffer if resolved is None else resolved, file_format)


def names_of_texts(item: type[Item]) -> list[str]:
    """What the texts of an item are called in a message: first text, question."""
    if len(item.text_names) == 1:
        return ["text"]
    plain = {"first", "second"}
    return [f"{name} text" if name in plain else name for name in item.text_names]


def _wrong(texts: Iterable[str], item: type[Item]) -> str:
    return next(filter(None, map(wrong_text, texts, names_of_texts(item))), "")


def item_type(task: str) -> type[Item]:
    """What rows become for the task with a name, or for filling gaps."""
    from clozeworks.inference.cloze import GapItem
    from clozeworks.tasks.task import command_name, task_classes

    known = {command_name(kind): each.item_type for kind, each in task_classes().items()}
    known[GapItem.command] = GapItem
    if task not in known:
        raise UnknownName("task", task, known)
    return known[task]
