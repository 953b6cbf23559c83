r"""The rows of labelled files as they were written, so that some of them can be written again.

An item knows its source location, and a row is found by it here. Text is written as it stood, in
UTF-8 with `\n` after each line: rows of csv and tsv with all their cells, lines of JSON,
sentences with their comments. A file in the layout of SQuAD keeps its articles and paragraphs, a
list of JSON objects becomes one object per line, parquet stays parquet.
"""

import json
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import dropwhile
from pathlib import Path
from typing import Any

from clozeworks.data.files.encodings import lone_surrogate, open_file, printable
from clozeworks.data.files.file_format import SEPARATED_SUFFIXES
from clozeworks.data.files.lines import FileNotes, read_lines
from clozeworks.data.files.separated import Dialect, dialect_of, separated_rows
from clozeworks.data.files.tables import document_lines, json_document, one_object_per_line
from clozeworks.data.labelled.columns import Column
from clozeworks.data.labelled.reading import Labelled
from clozeworks.errors import InputError

_TITLE = "title"


@dataclass
class WrittenFile:
    """The rows of one file."""

    suffix: str
    """Of files that hold such rows."""
    shape: str = ""
    """What must be the same in files that are joined, in words."""
    head: Any = ""
    """What stands before the rows: a header, a table, a document."""
    width: int = 0
    """The columns of a table without a header; 0 for anything else."""
    rows: dict[str, Any] = field(default_factory=dict)
    """Each row by its source location."""
    titles: dict[str, str] = field(default_factory=dict)
    """The article a row belongs to, where that is known."""
    separator: str = "\t"
    """What stands between cells."""
    quoted_header: bool = False
    """Whether a header that is added stands in quotation marks."""
    format: str = ""
    """What must be the same in files that are joined: the suffix, or what several share."""
    write: "Callable[[ChosenRows], bytes] | None" = None
    """Makes a file of some rows; None for one after the other."""

    def add_title(self, source_location: str, title: object) -> None:
        """Notes the article a row belongs to, if it is named."""
        if isinstance(title, str) and title.strip():
            self.titles[source_location] = title.strip()


ChosenRows = Sequence[tuple[WrittenFile, list[Any]]]


@dataclass(frozen=True)
class WrittenRows:
    """The rows of all files."""

    suffix: str
    """Of the files that `some` gives."""
    titles: Mapping[str, str]
    """By source location, the article a row belongs to; empty where rows name none."""
    header: tuple[str, ...]
    """The names that were given to columns which had none."""
    _files: Sequence[WrittenFile]

    def some(self, source_locations: Collection[str]) -> bytes:
        """A file with the rows at some source locations, in their order."""
        chosen = [
            (file, [row for location, row in file.rows.items() if location in source_locations])
            for file in self._files
        ]
        return (self._files[0].write or _text)(chosen)


def written_rows(data: Labelled, files: Sequence[Path]) -> WrittenRows:
    """Reads the files of some labelled data once more, to keep their rows as they were written.

    Raises:
        InputError: If a file was named twice, or their rows do not fit into one file.
    """
    for number, name in enumerate(data.files):
        if name in data.files[:number]:
            raise InputError(f"{name} is named twice; name it once.")
    read = [_read(path, data) for path in files]
    first = read[0]
    there = _described(first, data.columns)
    for name, other, columns in zip(data.files, read, data.tables, strict=True):
        here = _described(other, columns)
        if (other.format or other.suffix) != (first.format or first.suffix):
            here, there = f"is written as {other.suffix}", f"as {first.suffix}"
        if here != there:
            raise InputError(
                f"{name} {here}, and {data.files[0]} {there}; each part is one file; make them "
                "alike, or split them one by one."
            )
    header: tuple[str, ...] = ()
    if first.width:
        # Without one, whether the first row is data would be guessed anew for each part.
        header = _header(data.columns, first.width)
        # In quotation marks where others stand in them, so that each part shows how it is written.
        names = [f'"{name}"' for name in header] if first.quoted_header else header
        first.head = first.separator.join(names) + "\n"
    titles = {location: title for file in read for location, title in file.titles.items()}
    return WrittenRows(first.suffix, titles, header, read)


def _described(file: WrittenFile, columns: Sequence[Column]) -> str:
    """What must be the same in all files."""
    roles = ", ".join(f"{column.role}={column.name or column.number}" for column in columns)
    return f"{file.shape} ({roles})" if roles else file.shape


def _header(columns: Sequence[Column], width: int) -> tuple[str, ...]:
    roles = {column.number: column.role for column in columns}
    return tuple(roles.get(number, f"column_{number}") for number in range(1, width + 1))


def _read(path: Path, data: Labelled) -> WrittenFile:
    suffix = data.reading.check(path, data.item.suffixes, data.task)
    kept = {item.source_location for item in data.items}
    special = data.item.written_file(path, suffix, data.reading, kept)
    if special is not None:
        return special
    origin = printable(path)
    if suffix == ".parquet":
        return _parquet_rows(path, origin)
    notes = FileNotes()
    lines = read_lines(path, data.reading, notes=notes)
    if suffix in SEPARATED_SUFFIXES:
        read = kept | {row.source_location for row in data.bad.rows}
        dialect, lines = dialect_of(lines, suffix, data.reading, notes)
        return _separated(lines, origin, suffix, dialect, notes, read)
    if suffix == ".json":
        held = document_lines(lines, origin)
        if not one_object_per_line(held):
            return _list(json_document(held, origin), origin)
        lines = iter(held)
    file = WrittenFile(".jsonl", "has one object per line")
    for number, line in enumerate(lines, start=1):
        location = f"{origin}, line {number:,}"
        if location in kept:
            file.rows[location] = f"{line}\n"
            file.add_title(location, json.loads(line).get(_TITLE))
    return file


def _separated(
    lines: Iterator[str],
    origin: str,
    suffix: str,
    dialect: Dialect,
    notes: FileNotes,
    known: Collection[str],
) -> WrittenFile:
    held: list[str] = []

    def noted() -> Iterator[str]:
        for line in lines:
            held.append(line)
            yield line

    quoted_header = dialect.quoted and dialect.separator == "\t"
    file = WrittenFile(suffix, separator=dialect.separator, quoted_header=quoted_header)
    titled: int | None = None
    for number, cells in separated_rows(noted(), origin, dialect):
        location = f"{origin}, row {number:,}"
        if notes.skips(location, cells):
            held.clear()
            continue
        # Lines without any cell come before the row.
        written = "\n".join(dropwhile(operator.not_, held)) + "\n"
        held.clear()
        if not file.shape and location not in known:  # it became neither an item nor a bad row
            file.shape = f"has the columns {', '.join(cells)}"
            file.head = written
            names = [cell.casefold().strip() for cell in cells]
            titled = names.index(_TITLE) if _TITLE in names else None
            continue
        if not file.shape:
            file.width = len(cells)
            file.shape = f"has {file.width:,} columns and no header"
        file.rows[location] = written
        if titled is not None and titled < len(cells):
            file.add_title(location, cells[titled])
    return file


def _list(value: Any, origin: str) -> WrittenFile:
    """The objects of a list, one to a line."""
    file = WrittenFile(".jsonl", "has one object per line")
    objects = value["data"] if isinstance(value, dict) else value
    for number, each in enumerate(objects, start=1):
        location = f"{origin}, object {number:,}"
        file.rows[location] = json_line(each)
        file.add_title(location, each.get(_TITLE) if isinstance(each, dict) else None)
    return file


def _parquet_rows(path: Path, origin: str) -> WrittenFile:
    from pyarrow import parquet

    with open_file(path) as opened:
        table = parquet.read_table(opened)
    columns = ", ".join(f"{each.name} ({each.type})" for each in table.schema)
    locations = [f"{origin}, row {number:,}" for number in range(1, len(table) + 1)]
    file = WrittenFile(".parquet", f"has the columns {columns}", table, write=_parquet)
    file.rows.update(zip(locations, range(len(table)), strict=True))
    if table.schema.names.count(_TITLE) == 1:
        for location, title in zip(locations, table.column(_TITLE).to_pylist(), strict=True):
            file.add_title(location, title)
    return file


def json_line(value: object) -> str:
    """A value as a line of JSON."""
    written = json.dumps(value, ensure_ascii=False)
    # Half a character in a field that nobody reads can be written as an escape only.
    return (json.dumps(value) if lone_surrogate(written) else written) + "\n"


def _text(chosen: ChosenRows) -> bytes:
    head = chosen[0][0].head
    return "".join([head, *(row for _, rows in chosen for row in rows)]).encode()


def _parquet(chosen: ChosenRows) -> bytes:
    import pyarrow
    from pyarrow import parquet

    # The files say the same of their columns, but may say other things beside it.
    schema = chosen[0][0].head.schema
    tables = [
        file.head.take(pyarrow.array(rows, pyarrow.int64())).cast(schema) for file, rows in chosen
    ]
    written = BytesIO()
    parquet.write_table(pyarrow.concat_tables(tables), written)
    return written.getvalue()
