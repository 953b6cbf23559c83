"""Reads documents from files of any number and size, one document at a time.

What counts as a document: in `.txt` what stands between blank lines, or a line, or the file; in
`.jsonl` a line; in `.csv`, `.tsv` and `.parquet` a row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from clozeworks.data.files.discovery import FoundFiles, file_format, find_files
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.fields import (
    TEXT_COLUMN,
    absent,
    check_characters,
    check_one_column,
    column_place,
    json_value,
    not_a_string,
    not_an_object,
    wrong_width,
)
from clozeworks.data.files.parquet import read_columns
from clozeworks.data.files.streaming import DEFAULT_ENCODING, LONGEST_LINE, Position, read_lines
from clozeworks.data.files.tables import separated_rows
from clozeworks.errors import InputError, UnknownName

__all__ = ["Document", "FoundFiles", "find_files", "read_documents"]

# A document must fit in memory, as a line must.
LONGEST_DOCUMENT = LONGEST_LINE

Documents = Literal["blank-line", "file", "line"]
# The number of a line or row, and its texts: one per column.
DocumentRow = tuple[int, Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class Document:
    r"""A text and where it came from.

    Attributes:
        text: The characters; lines end in `\n`.
        origin: The file.
        line: The line on which it begins, or the row of a table; the header is row 1.
    """

    text: str
    origin: str
    line: int


def read_documents(
    path: Path | str,
    *,
    documents: Documents = "blank-line",
    columns: Sequence[str] | None = None,
    encoding: str = DEFAULT_ENCODING,
    position: Position | None = None,
) -> Iterator[Document]:
    r"""Reads the documents of a file. Blank ones are left out.

    The file may have any size: no more of it is in memory than a block and one document.

    Args:
        path: A file with one of the suffixes that `find_files` knows.
        documents: What is a document in a `.txt` file: what stands between blank lines, the whole
            file, or each line. Other formats have one per line or row.
        columns: The columns or fields that hold the text. Each of several becomes one line of the
            document, in this order, as pairs of sentences want it. The default is `text`, or the
            only column of strings.
        encoding: The encoding of the characters. A byte order mark is recognised and dropped; the
            default gives way to it.
        position: Told now and then how many bytes of the file have been read.

    Yields:
        The documents, in the order of the file.

    Raises:
        InputError: If the file cannot be used as it is, with the line where that is.
        MissingExtra: If its format needs a library that is not installed.
    """
    if documents not in get_args(Documents):
        raise UnknownName("documents", documents, get_args(Documents))
    path = Path(path)
    origin = printable(path)
    suffix = file_format(path)
    if suffix == ".parquet":
        yield from _joined(read_columns(path, columns, position), origin, "row", columns)
        return
    lines = read_lines(path, encoding=encoding, position=position)
    if suffix == ".txt":
        if columns:
            raise InputError(
                f"{origin} has no columns, and --column is {columns[0]!r}; a .txt file is nothing "
                "but text; leave out --column."
            )
        yield from _read_text(lines, origin, documents)
    elif suffix == ".jsonl":
        yield from _joined(_read_json(lines, origin, columns), origin, "line", columns)
    else:
        rows = _read_table(lines, origin, columns, suffix)
        yield from _joined(rows, origin, "row", columns)


def _read_text(lines: Iterator[str], origin: str, documents: Documents) -> Iterator[Document]:
    if documents == "line":
        for number, line in enumerate(lines, start=1):
            if line and not line.isspace():
                yield Document(line, origin, number)
        return
    begin = length = 0
    held: list[str] = []
    for number, line in enumerate(lines, start=1):
        blank = not line or line.isspace()
        if blank and held and documents == "blank-line":
            yield Document("\n".join(held), origin, begin)
            held, length = [], 0
        if blank and not held:
            continue
        if not held:
            begin = number
        held.append(line)
        length += len(line) + 1
        if length > LONGEST_DOCUMENT:
            raise InputError(
                f"{origin}, line {begin:,}: the document that begins here has more than "
                f"{LONGEST_DOCUMENT:,} characters; a document must fit in memory; put blank lines "
                "between documents, or make each line one with --documents line."
            )
    while held and not held[-1].strip():
        held.pop()
    if held:
        yield Document("\n".join(held), origin, begin)


def _joined(
    rows: Iterable[DocumentRow], origin: str, unit: str, columns: Sequence[str] | None
) -> Iterator[Document]:
    """Makes one document of the texts of a line or row."""
    for number, texts in rows:
        blank = [text is None or not text or text.isspace() for text in texts]
        if all(blank):
            continue
        if any(blank):
            assert columns is not None  # more than one text is there only if it was asked for
            raise InputError(
                f"{origin}, {unit} {number:,}: {columns[blank.index(True)]!r} is blank; each of "
                f"several columns is a line of the document; fill it in, or drop the {unit}."
            )
        lines = [_one_kind_of_end(text, origin, unit, number) for text in texts if text]
        if len(lines) > 1:
            lines = [" ".join(line.split("\n")) for line in lines]
        yield Document("\n".join(lines), origin, number)


def _one_kind_of_end(text: str, origin: str, unit: str, number: int) -> str:
    if "\0" in text:
        raise InputError(
            f"{origin}, {unit} {number:,}: the text holds the character U+0000; it does not occur "
            "in text; take it out."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _read_json(
    lines: Iterator[str], origin: str, columns: Sequence[str] | None
) -> Iterator[DocumentRow]:
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        where = f"{origin}, line {number:,}"
        value = json_value(line, where)
        if isinstance(value, str) and not columns:
            texts: list[str | None] = [value]
        elif isinstance(value, dict):
            columns = columns or [_guessed_field(value)]
            texts = [_field(value, column, where) for column in columns]
        else:
            raise not_an_object(value, where, columns or [])
        if "\\u" in line:  # half a character can only be written so
            for text in texts:
                check_characters(text or "", f"{where}: the text")
        yield number, texts


def _field(value: dict[str, object], column: str, where: str) -> str | None:
    try:
        text = value[column]
    except KeyError:
        raise absent(where, "field", column, list(value)) from None
    if text is not None and not isinstance(text, str):
        raise not_a_string(text, where, column)
    return text


def _guessed_field(value: dict[str, object]) -> str:
    strings = [name for name, text in value.items() if isinstance(text, str)]
    if TEXT_COLUMN in value or len(strings) != 1:
        return TEXT_COLUMN
    return strings[0]


def _read_table(
    lines: Iterator[str], origin: str, columns: Sequence[str] | None, suffix: str
) -> Iterator[DocumentRow]:
    rows = separated_rows(lines, origin, suffix)
    header_row, header = next(rows, (1, []))
    where = f"{origin}, row {header_row:,}"
    places = [_place(header, name, where) for name in columns or ()]
    for number, row in rows:
        if len(row) != len(header):
            raise wrong_width(row, header, f"{origin}, row {number:,}", suffix)
        if not places:
            places = [_place(header, _guessed_column(header, row, where, suffix), where)]
        yield number, [row[place] for place in places]


def _place(header: Sequence[str], column: str, where: str) -> int:
    place = column_place(header, column, where)
    if place is None:
        raise absent(where, "column", column, header)
    return place


def _guessed_column(header: Sequence[str], row: Sequence[str], where: str, suffix: str) -> str:
    """Chooses the only column that does not hold numbers."""
    if TEXT_COLUMN in header:
        return TEXT_COLUMN
    if len(header) == 1:
        check_one_column(header, where, suffix)
        return header[0]
    strings = [name for name, cell in zip(header, row, strict=True) if not _is_number(cell)]
    return strings[0] if len(strings) == 1 else TEXT_COLUMN


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True
