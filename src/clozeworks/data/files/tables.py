"""Tables in files: rows of csv and tsv, objects of JSON, rows of parquet, of any size.

Nothing is known here of what the columns mean. Rows are counted as a spreadsheet shows them: the
first row of a csv or tsv file is row 1, whether it is a header or not.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clozeworks.data.files.compression import Position
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.fields import TEXT_COLUMN, json_type
from clozeworks.data.files.file_format import SEPARATED_SUFFIXES, FileFormat
from clozeworks.data.files.lines import LONGEST_JSON, FileNotes, LineReader, numbered_lines
from clozeworks.data.files.parquet import parquet_rows
from clozeworks.data.files.separated import (
    OnBadRow,
    check_separator,
    dialect_of,
    even_rows,
    refuse_row,
    separated_rows,
)
from clozeworks.errors import InputError

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
# Rows that are held to see what the columns are, fewer if they are long.
HEAD_ROWS = 1_000
HEAD_CHARACTERS = 4_000_000

RowCells = Sequence[Any]
NumberedRow = tuple[int, RowCells]
# An object's number and its fields.
NumberedObject = tuple[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows and the names of their columns.

    Attributes:
        origin: The file, for messages.
        unit: What a row is called: row, line or object.
        names: The names of the columns; for csv and tsv the first row, which may be data.
        rows: The number and the cells of each row; what is absent or null is None.
        doubtful: The number of the first row, if it is not known to be a header.
    """

    origin: str
    unit: str
    names: tuple[str, ...]
    rows: list[NumberedRow]
    doubtful: int | None = None

    def location(self, number: int) -> str:
        """Names a row in a message."""
        return f"{self.origin}, {self.unit} {number:,}"

    def without_header(self) -> "Table":
        """The same table if its first row is data."""
        assert self.doubtful is not None
        first: NumberedRow = (self.doubtful, self.names)
        return replace(self, names=("",) * len(self.names), rows=[first, *self.rows], doubtful=None)


class TableReader:
    """The rows of a table, read as they are needed: the file may have any size.

    Args:
        path: A file with one of `TABLE_SUFFIXES`, compressed or not.
        file_format: How it is read.
        on_bad_row: Called for rows that cannot be used, which are left out if it returns.

    Attributes:
        head: The first rows, to find out what the columns are.
        notes: What there is to say, such as bytes that are not text.

    Raises:
        InputError: If the file cannot be read, or holds no rows.
        MissingExtra: If the format needs a library that is not installed.
    """

    def __init__(
        self,
        path: Path,
        file_format: FileFormat | None = None,
        on_bad_row: OnBadRow = refuse_row,
        notes: FileNotes | None = None,
    ) -> None:
        file_format = file_format or FileFormat()
        self._size = 1
        self._bytes_read = self._rows_given = 0
        self._lines = LineReader(path, file_format, notes)
        self.notes = self._lines.notes
        self.head, self._rest = _opened(
            path, self._lines, file_format, on_bad_row, _first_rows, self._note
        )
        if not self.head.names:
            raise nothing(self.head.origin)
        self._size = path.stat().st_size

    def rows(self, head: Table | None = None) -> Iterator[NumberedRow]:
        """Gives every row, once.

        Args:
            head: The first rows as they are to be given, if not as they are: `without_header`.
        """
        self.head = head or self.head
        for row in chain(self.head.rows, self._rest):
            self._rows_given += 1
            yield row

    def fraction_read(self) -> float:
        """The fraction of the file that has been given."""
        read = self._bytes_read / self._size if self._bytes_read else self._lines.fraction_read()
        # The first rows are read ahead: a small file is read before one of them is given.
        ahead = read >= 1 and self._rows_given < len(self.head.rows)
        return self._rows_given / len(self.head.rows) if ahead else read

    def _note(self, bytes_read: int) -> None:
        self._bytes_read = bytes_read


def read_table(
    path: Path,
    file_format: FileFormat | None = None,
    on_bad_row: OnBadRow = refuse_row,
    notes: FileNotes | None = None,
) -> Table:
    """Reads a whole table; it has no columns if every row was left out.

    Args:
        path: A file with one of `TABLE_SUFFIXES`, compressed or not.
        file_format: How it is read.
        on_bad_row: Called for rows that cannot be used, which are left out if it returns.
        notes: Collects what there is to say, such as bytes that are not text.

    Raises:
        InputError: If the file cannot be read, or holds no rows.
        MissingExtra: If the format needs a library that is not installed.
    """
    file_format = file_format or FileFormat()
    lines = LineReader(path, file_format, notes)
    return _opened(path, lines, file_format, on_bad_row, list, None)[0]


def nothing(origin: str) -> InputError:
    """Makes the error for a file without a row."""
    return InputError(f"{origin} holds no rows; there must be at least one; check the file.")


def _opened(
    path: Path,
    lines: LineReader,
    file_format: FileFormat,
    on_bad_row: OnBadRow,
    hold: Callable[[Iterator[NumberedRow]], list[NumberedRow]],
    position: Position | None,
) -> tuple[Table, Iterator[NumberedRow]]:
    """Opens a table: the rows that `hold` takes, as many as are needed at once, and the rest."""
    origin = printable(path)
    suffix = file_format.check(path, TABLE_SUFFIXES)
    if suffix == ".parquet":
        rows = parquet_rows(path, position, longest=file_format.max_row_length)
        _, names = next(rows)
        held = hold(rows)
        if not held:
            raise nothing(origin)
        return Table(origin, "row", tuple(names), held), rows
    if suffix in SEPARATED_SUFFIXES:
        dialect, held_lines = dialect_of(iter(lines), suffix, file_format, lines.notes)
        separated = separated_rows(held_lines, origin, dialect, lines.notes)
        number, first = next(separated, (0, []))
        if not first:
            raise nothing(origin)
        check_separator(first, f"{origin}, row {number:,}", dialect)
        rows = even_rows(separated, len(first), origin, dialect, on_bad_row)
        return Table(origin, "row", tuple(first), hold(rows), doubtful=number), rows
    refused = False

    def note_and_refuse(source_location: str, message: str) -> None:
        nonlocal refused
        refused = True
        on_bad_row(source_location, message)

    unit, objects = json_objects(iter(lines), origin, suffix, note_and_refuse, lines.notes)
    whole = hold((number, [value, *value.values()]) for number, value in objects)
    if not whole and not refused:
        raise nothing(origin)
    fields = tuple(dict.fromkeys(name for _, (value, *_) in whole for name in value))
    held = [(number, [value.get(name) for name in fields]) for number, (value, *_) in whole]
    rest = ((number, [value.get(name) for name in fields]) for number, value in objects)
    return Table(origin, unit, fields, held), rest


def _first_rows(rows: Iterator[NumberedRow]) -> list[NumberedRow]:
    """Takes the first rows: so many, or so many characters."""
    held: list[NumberedRow] = []
    length = 0
    for row in islice(rows, HEAD_ROWS):
        held.append(row)
        length += sum(len(cell) for cell in row[1] if isinstance(cell, str))
        if length >= HEAD_CHARACTERS:
            break
    return held


def json_objects(
    lines: Iterator[str],
    origin: str,
    suffix: str,
    on_bad_row: OnBadRow = refuse_row,
    notes: FileNotes | None = None,
) -> tuple[str, Iterator[NumberedObject]]:
    """The objects of a JSON file with their numbers, and what an object is called.

    A string counts as an object with the field `text`. A `.jsonl` file has one object per line, a
    `.json` file a list of objects, or also one object per line. For values that are not
    objects `on_bad_row` is called; they are left out if it returns. Those with bad bytes are left
    out, and noted in `lost`.

    Raises:
        InputError: If the file is one JSON value, and not a list of objects.
    """
    notes = notes if notes is not None else FileNotes()
    if suffix == ".json":
        held = document_lines(lines, origin)
        lines = iter(held)
        if not one_object_per_line(held):
            values = (
                (number, value)
                for number, value in enumerate(_json_list(held, origin), start=1)
                if not notes.skips(f"{origin}, object {number:,}", value)
            )
            return "object", _checked_objects(values, origin, "object", on_bad_row)
    numbered = numbered_lines(lines, origin, notes)
    return "line", _checked_objects(
        _json_lines(numbered, origin, on_bad_row), origin, "line", on_bad_row
    )


def document_lines(lines: Iterable[str], origin: str) -> list[str]:
    """The lines of a file that is read as a whole.

    Raises:
        InputError: If they do not fit in memory.
    """
    held: list[str] = []
    length = 0
    for line in lines:
        held.append(line)
        length += len(line)
        if length > LONGEST_JSON:
            raise InputError(
                f"{origin} has more than {LONGEST_JSON:,} characters; a JSON document must fit in "
                "memory; write one object per line, as .jsonl."
            )
    return held


def _checked_objects(
    values: Iterable[tuple[int, object]], origin: str, unit: str, on_bad_row: OnBadRow
) -> Iterator[NumberedObject]:
    for number, value in values:
        if isinstance(value, str):
            value = {TEXT_COLUMN: value}
        if isinstance(value, dict):
            yield number, value
        else:
            on_bad_row(
                f"{origin}, {unit} {number:,}",
                f"this is {json_type(value)}; it must be an object with a text; fix it",
            )


def _json_lines(
    lines: Iterable[tuple[int, str]], origin: str, on_bad_row: OnBadRow
) -> Iterator[tuple[int, object]]:
    for number, line in lines:
        if not line or line.isspace():
            continue
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            position, fault = _json_fault(error)
            where = f"{origin}, line {number:,}{position}"
            on_bad_row(where, f"{fault}; write one whole JSON object per line")
        else:
            yield number, value


def _json_list(lines: Sequence[str], origin: str) -> list[object]:
    value = json_document(lines, origin)
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if not isinstance(value, list):
        raise InputError(
            f"{origin} is {json_type(value)}; it must be a list of objects; write such a list, or "
            "one object per line and call the file .jsonl."
        )
    return value


def _json_fault(error: ValueError | RecursionError) -> tuple[str, str]:
    """Which character of a line is not JSON, if that is known, and why."""
    if not isinstance(error, json.JSONDecodeError):
        return "", "a number is too long or the nesting too deep to read"
    return f", character {error.colno:,}", f"this is not valid JSON ({error.msg})"


def json_document(
    lines: Iterable[str],
    origin: str,
    advice: str = "write a list of objects; objects on lines of their own are a .jsonl file",
) -> object:
    """Reads a file that is one JSON value; `advice` says what to do if it is not.

    Raises:
        InputError: If it is not one JSON value.
    """
    text = "\n".join(lines)
    if not text.strip():
        raise nothing(origin)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        position, fault = _json_fault(error)
        line = f", line {error.lineno:,}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{origin}{line}{position}: {fault}; {advice}.") from error


def one_object_per_line(lines: Sequence[str]) -> bool:
    """Whether a file that is called `.json` is in truth a `.jsonl` file."""
    used = [line for line in lines if line.strip()]
    if len(used) < 2 or not used[0].lstrip().startswith("{"):
        return False
    try:
        json.loads(used[0])
    except (ValueError, RecursionError):
        return False
    return True
