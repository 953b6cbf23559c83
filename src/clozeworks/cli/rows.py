"""Rows of tables and lines of files, read one after the other: a file may have any size."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clozeworks.data.files.encodings import open_file, printable
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.parquet import check_library
from clozeworks.data.files.streaming import PACKINGS, read_lines
from clozeworks.data.files.tables import separated_rows
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.readers.tables import Table, check_separator, even_rows, nothing
from clozeworks.errors import InputError

NumberedRow = tuple[int, Sequence[Any]]

# Rows that are held to see what the columns are, fewer if they are long.
HEAD_ROWS = 1_000
HEAD_CHARACTERS = 4_000_000
_PARQUET_ROWS = 64


def refuse(bad: BadRows, place: str, what: str) -> None:
    """Notes a bad row; it ends the reading unless such rows are dropped."""
    bad.add(place, what)
    bad.finish()


class LineReader:
    """The lines of a file, and how much of it they are so far.

    Args:
        path: The file, packed or not.
        encoding: What it is written in.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        self.origin = printable(path)
        self._path = path
        self._encoding = encoding
        self._packed = path.suffix.lower() in PACKINGS
        self._done = 0

    def __iter__(self) -> Iterator[str]:
        for line in read_lines(self._path, encoding=self._encoding, position=self._told):
            # What has been read is ahead of what was given by a block.
            self._done += 0 if self._packed else len(line.encode(errors="replace")) + 1
            yield line

    def _told(self, place: int) -> None:
        self._done = place if self._packed else self._done

    def share(self) -> float:
        """Which share of the file has been given."""
        return min(1.0, self._done / max(1, self._path.stat().st_size))


class Whole:
    """Items that are all read already, and how many of them were given.

    Args:
        items: The items.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._given = 0

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            self._given += 1
            yield item

    def share(self) -> float:
        """Which share of them has been given."""
        return self._given / max(1, len(self._items))


class TableRows:
    """The rows of a table.

    Args:
        path: The file.
        suffix: .csv, .tsv, .jsonl or .parquet.
        encoding: What it is written in.
        bad: Told about rows that cannot be used.

    Attributes:
        head: The first rows, to find out what the columns are.
    """

    def __init__(self, path: Path, suffix: str, encoding: str, bad: BadRows) -> None:
        self._lines: LineReader | None = None
        self._share = 0.0
        origin = printable(path)
        if suffix == ".parquet":
            check_library()
            rows = self._parquet(path, origin)
            self.head, self._rest = _parquet_head(rows, origin)
            return
        self._lines = LineReader(path, encoding)
        if suffix == ".jsonl":
            self.head, self._rest = _json_head(iter(self._lines), origin, bad)
        else:
            self.head, self._rest = _separated_head(iter(self._lines), origin, suffix, bad)

    def all(self, head: Table) -> Iterator[NumberedRow]:
        """Every row.

        Args:
            head: The first rows, once it is known whether the very first is data.
        """
        return chain(head.rows, self._rest)

    def share(self) -> float:
        """Which share of the file has been given."""
        return self._share if self._lines is None else self._lines.share()

    def _parquet(self, path: Path, origin: str) -> Iterator[NumberedRow]:
        """Gives the names of the columns as row 0, then the rows."""
        import pyarrow
        from pyarrow import parquet

        with open_file(path) as file:
            try:
                table = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
                # Pictures and sounds have no part in a text.
                fields = table.schema_arrow
                names = [f.name for f in fields if not pyarrow.types.is_binary(f.type)]
                yield 0, names
                number = 0
                for batch in table.iter_batches(batch_size=_PARQUET_ROWS, columns=names):
                    columns = [batch.column(name).to_pylist() for name in names]
                    for row in zip(*columns, strict=True):
                        number += 1
                        self._share = number / table.metadata.num_rows
                        yield number, row
            except (pyarrow.ArrowException, OSError) as error:
                if getattr(error, "errno", None) is not None:
                    raise  # only the system numbers its errors; that is about the disk
                said = str(error).partition("\n")[0].rstrip(". ")
                raise InputError(
                    f"{origin} is damaged or not a parquet file ({said}); copy or download it "
                    "again."
                ) from error


def _held(rows: Iterator[NumberedRow]) -> list[NumberedRow]:
    """The first rows: so many, or so many characters."""
    held: list[NumberedRow] = []
    length = 0
    for row in islice(rows, HEAD_ROWS):
        held.append(row)
        length += sum(len(cell) for cell in row[1] if isinstance(cell, str))
        if length >= HEAD_CHARACTERS:
            break
    return held


def _parquet_head(rows: Iterator[NumberedRow], origin: str) -> tuple[Table, Iterator[NumberedRow]]:
    _, names = next(rows)
    held = _held(rows)
    if not held:
        raise nothing(origin)
    return Table(origin, "row", tuple(names), held), rows


def _json_head(
    lines: Iterator[str], origin: str, bad: BadRows
) -> tuple[Table, Iterator[NumberedRow]]:
    objects = _objects(lines, origin, bad)
    held = _held((number, [value, *value.values()]) for number, value in objects)
    if not held:
        raise nothing(origin)
    names = tuple(dict.fromkeys(name for _, (value, *_) in held for name in value))
    rows: list[NumberedRow] = [
        (number, [value.get(n) for n in names]) for number, (value, *_) in held
    ]
    rest = ((number, [value.get(name) for name in names]) for number, value in objects)
    return Table(origin, "line", names, rows), rest


def _objects(
    lines: Iterator[str], origin: str, bad: BadRows
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        place = f"{origin}, line {number:,}"
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            what = f"this is not valid JSON ({error.msg}); write one whole JSON object per line"
            refuse(bad, f"{place}, character {error.colno:,}", what)
            continue
        except (ValueError, RecursionError):
            what = "a number is too long or the nesting too deep to read; write one JSON object"
            refuse(bad, place, what)
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            what = f"this is {json_type(value)}; it must be an object with a text; mend it"
            refuse(bad, place, what)


def _separated_head(
    lines: Iterator[str], origin: str, suffix: str, bad: BadRows
) -> tuple[Table, Iterator[NumberedRow]]:
    found = separated_rows(lines, origin, suffix)
    number, first = next(found, (0, []))
    if not first:
        raise nothing(origin)
    check_separator(first, f"{origin}, row {number:,}", suffix)
    rows = even_rows(found, len(first), origin, suffix, partial(refuse, bad))
    return Table(origin, "row", tuple(first), _held(rows), doubtful=number), rows
