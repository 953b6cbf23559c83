"""Tables of labelled data: rows of csv and tsv, objects of JSON, rows of parquet.

Nothing is known here of what the columns mean. Rows are counted as a spreadsheet shows them: the
first row of a csv or tsv file is row 1, whether it is a header or not.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clozeworks.data.files.encodings import open_file, printable
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.parquet import check_library
from clozeworks.data.files.streaming import read_lines
from clozeworks.data.files.tables import separated_rows
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.errors import InputError

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")

RowCells = Sequence[Any]


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
    rows: list[tuple[int, RowCells]]
    doubtful: int | None = None

    def place(self, number: int) -> str:
        """Names a row in a message."""
        return f"{self.origin}, {self.unit} {number:,}"

    def without_header(self) -> "Table":
        """The same table if its first row is data."""
        assert self.doubtful is not None
        first: tuple[int, RowCells] = (self.doubtful, self.names)
        return replace(self, names=("",) * len(self.names), rows=[first, *self.rows], doubtful=None)

    def column(self, number: int) -> list[Any]:
        """The cells of a column, counted from 1."""
        return [cells[number - 1] for _, cells in self.rows]


def read_table(path: Path, suffix: str, encoding: str, bad: BadRows) -> Table:
    """Reads a table; rows of another width than the first are bad.

    Args:
        path: The file.
        suffix: One of `TABLE_SUFFIXES`.
        encoding: The encoding of the characters.
        bad: Told about rows that cannot be used.

    Raises:
        InputError: If the file cannot be read, or holds nothing.
    """
    origin = printable(path)
    if suffix == ".parquet":
        return _parquet(path, origin)
    lines = read_lines(path, encoding=encoding)
    if suffix == ".jsonl":
        return _json_lines(lines, origin, bad)
    if suffix == ".json":
        return _json_list(lines, origin, bad)
    return _separated(lines, origin, suffix, bad)


def json_document(lines: Iterable[str], origin: str) -> object:
    """Reads a file that is one JSON value.

    Raises:
        InputError: If it is not.
    """
    text = "\n".join(lines)
    if not text.strip():
        raise nothing(origin)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{origin}, line {error.lineno:,}, character {error.colno:,}: this is not valid JSON "
            f"({error.msg}); copy or write the file again; objects on lines of their own are a "
            ".jsonl file."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{origin}: a number is too long or the nesting too deep to read; write a list of "
            "objects."
        ) from error


def nothing(origin: str) -> InputError:
    """Makes the error for a file without a row."""
    return InputError(f"{origin} holds no rows; there must be at least one; check the file.")


def _objects(values: Sequence[tuple[int, object]], origin: str, unit: str, bad: BadRows) -> Table:
    """Makes a table of JSON values; those that are no objects are bad."""
    kept: list[tuple[int, dict[str, Any]]] = []
    for number, value in values:
        if isinstance(value, dict):
            kept.append((number, value))
        else:
            bad.add(
                f"{origin}, {unit} {number:,}",
                f"this is {json_type(value)}; it must be an object with a text; mend it",
            )
    names = tuple(dict.fromkeys(name for _, value in kept for name in value))
    rows: list[tuple[int, RowCells]] = [
        (number, [value.get(name) for name in names]) for number, value in kept
    ]
    return Table(origin, unit, names, rows)


def _json_lines(lines: Iterator[str], origin: str, bad: BadRows) -> Table:
    values: list[tuple[int, object]] = []
    found = False
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        found = True
        try:
            values.append((number, json.loads(line)))
        except json.JSONDecodeError as error:
            bad.add(
                f"{origin}, line {number:,}, character {error.colno:,}",
                f"this is not valid JSON ({error.msg}); write one whole JSON object per line",
            )
        except (ValueError, RecursionError):
            bad.add(
                f"{origin}, line {number:,}",
                "a number is too long or the nesting too deep to read; write one JSON object",
            )
    if not found:
        raise nothing(origin)
    return _objects(values, origin, "line", bad)


def _json_list(lines: Iterator[str], origin: str, bad: BadRows) -> Table:
    held = list(lines)
    if one_object_per_line(held):
        return _json_lines(iter(held), origin, bad)
    value = json_document(held, origin)
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if not isinstance(value, list):
        raise InputError(
            f"{origin} is {json_type(value)}; it must be a list of objects; write such a list, or "
            "one object per line and call the file .jsonl."
        )
    if not value:
        raise nothing(origin)
    return _objects(list(enumerate(value, start=1)), origin, "object", bad)


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


def _separated(lines: Iterator[str], origin: str, suffix: str, bad: BadRows) -> Table:
    found = separated_rows(lines, origin, suffix)
    number, first = next(found, (0, []))
    if not first:
        raise nothing(origin)
    check_separator(first, f"{origin}, row {number:,}", suffix)
    rows = even_rows(found, len(first), origin, suffix, bad.add)
    return Table(origin, "row", tuple(first), list(rows), doubtful=number)


def even_rows(
    rows: Iterator[tuple[int, list[str]]],
    width: int,
    origin: str,
    suffix: str,
    complain: Callable[[str, str], None],
) -> Iterator[tuple[int, RowCells]]:
    """The rows that have as many cells as the first.

    Args:
        rows: All rows behind the first.
        width: The cells of the first.
        origin: How messages name the file.
        suffix: `.csv` or `.tsv`.
        complain: Told the place of another row, and what is wrong with it.
    """
    advice = (
        "put quotation marks around a text with commas in it"
        if suffix == ".csv"
        else "take tabs and line ends out of the texts"
    )
    for number, cells in rows:
        if len(cells) == width:
            yield number, cells
            continue
        amount = "is 1 cell" if len(cells) == 1 else f"are {len(cells):,} cells"
        what = f"there {amount}; the first row has {width:,}; {advice}"
        complain(f"{origin}, row {number:,}", what)


def check_separator(first: Sequence[str], where: str, suffix: str) -> None:
    """Insists that a table of one column is one.

    Raises:
        InputError: Its cells seem to be separated by something else.
    """
    other = next((mark for mark in ("\t", ";", "|", ",") if mark in first[0]), None)
    if len(first) > 1 or other is None:
        return
    expected = "a comma" if suffix == ".csv" else "a tab"
    shown = first[0] if len(first[0]) <= 60 else first[0][:60] + "…"
    raise InputError(
        f"{where}: this is one cell, {shown!r}; in a {suffix} file {expected} separates cells; "
        + ("rename it to .tsv." if other == "\t" else "convert the file.")
    )


def _parquet(path: Path, origin: str) -> Table:
    check_library()
    import pyarrow
    from pyarrow import parquet

    with open_file(path) as file:
        try:
            opened = parquet.ParquetFile(file)
            # Pictures and sounds have no part in a text.
            names = [
                field.name
                for field in opened.schema_arrow
                if not pyarrow.types.is_binary(field.type)
            ]
            read = opened.read(columns=names)
            columns = [read.column(name).to_pylist() for name in names]
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # only the system numbers its errors; that is about the disk
            said = str(error).partition("\n")[0].rstrip(". ")
            raise InputError(
                f"{origin} is damaged or not a parquet file ({said}); copy or download it again."
            ) from error
    rows: list[tuple[int, RowCells]] = list(enumerate(zip(*columns, strict=True), start=1))
    if not rows:
        raise nothing(origin)
    return Table(origin, "row", tuple(names), rows)
