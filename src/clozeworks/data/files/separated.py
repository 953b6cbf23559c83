"""Rows whose cells are separated by a character: csv, tsv and their relatives.

Whether quotation marks around a cell are part of it is not stated in a file. With commas they never
are. With tabs they are in most published sets, where a text may begin with one that never ends; but
spreadsheets and data frames write a cell that holds a tab, a line end or a quotation mark between
two of them, with each one inside doubled. A file is taken to be written so only if every quotation
mark in it fits, and if something shows that it is meant: a doubled one, a column that has them
throughout, or lines that make even rows only so.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes
from clozeworks.errors import InputError

# What is looked at to find out whether cells are quoted.
HEAD_CHARACTERS = 16_000_000
_LARGEST_FIELD = 2**31 - 1  # the most the csv module accepts on every system
_MARK = '"'
# A cell in quotation marks, as a program writes it, or one without any.
_CELL = r'(?:"[^"]*+(?:""[^"]*+)*+"|[^"\t\n]*+)'
_ROW = re.compile(rf"{_CELL}(?:\t{_CELL})*+")
_NEXT_CELL = re.compile(rf"(?:^|\t)({_CELL})")
_ENCLOSED = re.compile(r'(?:^|\t)"[^\t]*"(?:\t|$)')

# A row's number as a spreadsheet shows it, and its cells.
TableLine = tuple[int, list[str]]
# Called with the source location of a bad row, and what is wrong with it, without a full stop.
OnBadRow = Callable[[str, str], None]


def refuse_row(source_location: str, message: str) -> None:
    """Refuses a file because of a row that cannot be used; the message has no full stop.

    Raises:
        InputError: Always.
    """
    raise InputError(f"{source_location}: {message}.")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a file are written."""

    separator: str
    """What stands between them."""
    quoted: bool
    """Whether quotation marks around a cell are not part of it."""
    longest: int
    """The most characters of a row."""

    def spelled(self) -> str:
        """The separator in a message."""
        names = {",": "a comma", "\t": "a tab", ";": "a semicolon", " ": "a space"}
        return names.get(self.separator, repr(self.separator))


def dialect_of(
    lines: Iterator[str], suffix: str, file_format: FileFormat, notes: FileNotes
) -> tuple[Dialect, Iterator[str]]:
    """Finds out how cells are written, and notes it; gives all lines again."""
    separator, limit = file_format.cell_separator(suffix), file_format.max_row_length
    if file_format.quoting != "auto":
        return Dialect(separator, file_format.quoting == "double", limit), lines
    if separator != "\t":
        return Dialect(separator, len(separator) == 1, limit), lines
    held: list[str] = []
    length = 0
    for line in lines:
        held.append(line)
        length += len(line)
        if length > HEAD_CHARACTERS:
            break
    else:
        length = -1  # all of it is there
    quoted = _is_quoted(held, complete=length < 0)
    if quoted:
        notes.found.append("Quotation marks around cells are taken off; --quoting none keeps them.")
    elif any(_MARK in line and _ENCLOSED.search(line) for line in held):
        notes.found.append(
            "Quotation marks around cells are part of them; --quoting double takes them off."
        )
    return Dialect(separator, quoted, limit), chain(held, lines)


def _is_quoted(lines: Sequence[str], *, complete: bool) -> bool:
    """Whether lines are rows with tabs, of which some cells are quoted."""
    if not any(_MARK in line for line in lines):
        return False
    width = lines[0].count("\t") + 1 if _MARK not in lines[0] else 0
    begun: list[str] = []
    doubled = False
    plain: set[int] = set()  # columns with a cell that is not quoted
    uneven_rows = records = 0
    for line in lines:
        marks = line.count(_MARK)
        if not begun and not marks:
            cells = line.count("\t") + 1
            plain.update(range(cells))
        else:
            begun.append(line)
            if marks % 2 == (0 if len(begun) > 1 else 1):
                continue  # a cell goes on in the next line
            row = "\n".join(begun)
            begun = []
            if not _ROW.fullmatch(row):
                return False
            for cells, match in enumerate(_NEXT_CELL.finditer(row), start=1):
                if not match[1].startswith(_MARK):
                    plain.add(cells - 1)
                doubled = doubled or _MARK in match[1][1:-1]
        records += 1
        width = width or cells
        uneven_rows += cells != width
    if begun and complete:
        return False  # the last one is never closed
    uneven_lines = sum(line.count("\t") + 1 != width for line in lines if line)
    throughout = records > 1 and len(plain) < width
    return uneven_rows <= uneven_lines and (doubled or throughout or uneven_lines > 0)


def separated_rows(
    lines: Iterator[str], origin: str, dialect: Dialect, notes: FileNotes | None = None
) -> Iterator[TableLine]:
    """Reads rows.

    A line without any cell counts but is not a row. Rows with bad bytes are left out.

    Raises:
        InputError: If quotation marks do not match, or a row is too long.
    """
    rows = _quoted_rows if dialect.quoted else _plain_rows
    for number, cells in rows(lines, origin, dialect):
        if (
            notes is None
            or not notes.bad_bytes
            or not notes.skips(f"{origin}, row {number:,}", cells)
        ):
            yield number, cells


def _plain_rows(lines: Iterator[str], origin: str, dialect: Dialect) -> Iterator[TableLine]:
    for number, line in enumerate(lines, start=1):
        if line:
            yield number, line.split(dialect.separator)


def _quoted_rows(lines: Iterator[str], origin: str, dialect: Dialect) -> Iterator[TableLine]:
    number = length = 0

    def fed() -> Iterator[str]:
        nonlocal length
        for line in lines:
            length += len(line) + 1
            if length > dialect.longest:
                raise InputError(
                    f"{origin}, row {number + 1:,} has more than {dialect.longest:,} characters; "
                    "a row must fit in memory; check that each quotation mark is closed, read "
                    "them as text with --quoting none, or raise --max-row-length."
                )
            yield line + "\n"

    # Without strict, a quotation mark that is never closed swallows the rest of the file.
    reader = csv.reader(fed(), delimiter=dialect.separator, strict=True)
    while True:
        # Trap: the limit is one per process, so it is lifted no longer than a row takes.
        before = csv.field_size_limit(_LARGEST_FIELD)
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{origin}, row {number + 1:,}: the quotation marks do not match ({error}); close "
                'each one, and write "" for one inside a text, or say --quoting none if they are '
                "part of the texts."
            ) from error
        finally:
            csv.field_size_limit(before)
        if row is None:
            return
        number, length = number + 1, 0
        if row:
            yield number, row


def even_rows(
    rows: Iterable[TableLine],
    width: int,
    origin: str,
    dialect: Dialect,
    on_bad_row: OnBadRow = refuse_row,
) -> Iterator[TableLine]:
    """Gives the rows with as many cells as the first; `on_bad_row` is called for the others."""
    for number, cells in rows:
        if len(cells) == width:
            yield number, cells
            continue
        amount = "is 1 cell" if len(cells) == 1 else f"are {len(cells):,} cells"
        between = "tabs" if dialect.separator == "\t" else "commas"
        if dialect.separator not in "\t,":
            between = repr(dialect.separator)
        if dialect.quoted:
            advice = f"put quotation marks around a text with {between} in it"
        else:
            advice = f"take {between} and line ends out of the texts"
            if any(_MARK in cell for cell in cells):
                advice += ", or say --quoting double if quotation marks stand around them"
        on_bad_row(
            f"{origin}, row {number:,}", f"there {amount}; the first row has {width:,}; {advice}"
        )


def check_separator(first: Sequence[str], where: str, dialect: Dialect) -> None:
    """Insists that a table whose first row has one cell has one column.

    Raises:
        InputError: If its cells seem to be separated by something else.
    """
    other = next((mark for mark in ("\t", ";", "|", ",") if mark in first[0]), None)
    if len(first) > 1 or other is None:
        return
    shown = first[0] if len(first[0]) <= 60 else first[0][:60] + "…"
    name = "tab" if other == "\t" else f"'{other}'"
    also = ""
    if dialect.separator not in "\t,":
        also = "; between several labels of a cell it is --label-separator"
    raise InputError(
        f"{where}: this is one cell, {shown!r}; {dialect.spelled()} separates cells; say what does "
        f"with --separator {name}{also}."
    )
