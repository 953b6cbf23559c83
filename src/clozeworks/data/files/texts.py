"""Reads texts: from lines, from JSON lines, from tables, from standard input.

What counts as one text is the same everywhere: something with at least one visible character.
Every text remembers its place, so that a later message can say which one it is about.
"""

import csv
import io
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO, overload

from clozeworks.data.files.encodings import (
    decode,
    missing_file,
    open_file,
    printable,
    read_bytes,
)
from clozeworks.data.files.fields import (
    LARGEST_FIELD,
    TEXT_COLUMN,
    absent,
    check_characters,
    check_one_column,
    column_place,
    json_value,
    not_a_string,
    not_an_object,
    unmatched_quotes,
    wrong_width,
)
from clozeworks.errors import InputError

STANDARD_INPUT = "standard input"
TEXT_SUFFIXES = (".csv", ".jsonl", ".tsv", ".txt")


class TextLocations(Sequence[str]):
    """Says where each text came from: `reviews.csv, row 8,412`.

    The sentence is made when it is asked for; what is kept is one number per text.
    """

    def __init__(self, origin: str, unit: str, numbers: Sequence[int]) -> None:
        self.origin = origin
        self.unit = unit
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "TextLocations": ...
    def __getitem__(self, index: int | slice) -> "str | TextLocations":
        if isinstance(index, slice):
            return TextLocations(self.origin, self.unit, self.numbers[index])
        return f"{self.origin}, {self.unit} {self.numbers[index]:,}"


@dataclass(frozen=True)
class Texts:
    """Texts and where they came from.

    Attributes:
        texts: The texts, in the order of the file.
        places: The place of each, for messages: `notes.txt, line 3`.
        origin: The file, or `standard input`.
        skipped: How many blank ones were left out.
    """

    texts: list[str]
    places: Sequence[str]
    origin: str
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.texts)


def read_texts(
    source: Path | TextIO | BinaryIO,
    *,
    column: str | None = None,
    encoding: str = "utf-8",
    skip_blank: bool = False,
) -> Texts:
    r"""Reads every text of a file or of standard input.

    The suffix of a file chooses its format, and each format may be packed with gzip:

    - `.txt`: one text per line. Lines end in `\n` or `\r\n` and in nothing else.
    - `.jsonl`: per line an object with the text in one field, or just a string.
    - `.csv`: a table with a header. A text may span lines if it is in quotation marks.
    - `.tsv`: a table with a header, without quoting.

    Rows are counted as a spreadsheet shows them: the header is row 1.

    Args:
        source: A file, or an open stream with one text per line.
        column: The column or field that holds the text. The default is `text`; a table with a
            single column needs no name.
        encoding: The encoding of the characters. A byte order mark is recognised and dropped.
        skip_blank: Whether to leave out blank texts rather than to stop at them.

    Returns:
        The texts with their places.

    Raises:
        InputError: If any of it cannot be used as it is.
    """
    if isinstance(source, Path):
        origin, suffix = printable(source), _format(source)
        data: bytes | str = read_bytes(source)
    else:
        origin, suffix = STANDARD_INPUT, ".txt"
        data = _read_stream(source)
    content = decode(data, origin, encoding) if isinstance(data, bytes) else data
    del data
    if not content:
        raise InputError(
            f"{origin} is empty; it must hold at least one text; check where it comes from."
        )
    if suffix == ".txt":
        if column is not None:
            raise InputError(
                f"{origin} has no columns, and --column is {column!r}; each line is one text; "
                "leave out --column."
            )
        return _collect(enumerate(_lines(content), start=1), origin, "line", skip_blank)
    if suffix == ".jsonl":
        return _collect(_read_jsonl(content, origin, column), origin, "line", skip_blank)
    with _long_fields():
        found = _read_table(content, origin, column, suffix)
        return _collect(found, origin, "row", skip_blank)


def resolve_input(argument: str) -> str | Path | None:
    """Decides what an input on the command line is.

    Args:
        argument: `-`, the name of a file, or a text.

    Returns:
        `None` for standard input, a `Path` for a file that exists, or else the text itself.

    Raises:
        InputError: If it is blank, or looks like the name of a file that does not exist.
    """
    if argument == "-":
        return None
    if not argument.strip():
        raise InputError("The input is blank; give a text, the name of a file, or - to pipe one.")
    path = Path(argument)
    named_like_file = _looks_like_file(argument)
    try:
        exists, is_folder = path.exists(), path.is_dir()
    except PermissionError:
        exists, is_folder = named_like_file, False  # reading it gives the right message
    except (OSError, ValueError):  # too long for a name, or holds what no name may hold
        exists, is_folder = False, False
    if is_folder:
        raise InputError(
            f"{printable(path)} is a folder; name one of the files in it, "
            "or, if it is meant as a text, pipe it in with -."
        )
    if exists:
        return path
    if named_like_file:
        raise missing_file(
            path, "check the name and the folder, or, if it is meant as a text, pipe it in with -"
        )
    check_characters(argument, "The input")
    return argument


def _looks_like_file(argument: str) -> bool:
    if argument.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES):
        return True
    separators = [os.sep, os.altsep] if os.altsep else [os.sep]
    # Marks such as </s> hold a separator and are never part of a name.
    return any(separator in argument for separator in separators) and not any(
        character.isspace() or character in "<>" for character in argument
    )


def _format(path: Path) -> str:
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    suffix = name.suffix.lower()
    if suffix in TEXT_SUFFIXES:
        return suffix
    found = "".join((name.suffix, path.suffix if name is not path else ""))
    with open_file(path):  # that a file is missing is worse news than its suffix
        pass
    has = f"has the suffix {found!r}" if found else "has no suffix"
    raise InputError(
        f"{printable(path)} {has}; known: {', '.join(TEXT_SUFFIXES)}, each also with .gz; "
        "rename the file, or pipe its lines in with -."
    )


def _read_stream(stream: TextIO | BinaryIO) -> bytes | str:
    # A text stream has already chosen an encoding; the bytes below it are still undecided.
    bytes_or_text: TextIO | BinaryIO = getattr(stream, "buffer", stream)
    try:
        return bytes_or_text.read()
    except OSError as error:
        raise InputError(
            f"{STANDARD_INPUT} could not be read: {error.strerror or error}; pipe a text file in."
        ) from error


def _lines(content: str) -> list[str]:
    # Trap: splitlines also cuts at U+2028, U+0085 and form feeds, which occur inside texts.
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _collect(
    found: Iterable[tuple[int, str | None]], origin: str, unit: str, skip_blank: bool
) -> Texts:
    texts: list[str] = []
    numbers = array("q")
    skipped = 0
    for number, text in found:
        if text is None or not text or text.isspace():
            if not skip_blank:
                raise InputError(
                    f"{origin}, {unit} {number:,}: the text is blank; "
                    f"fill it in, or leave out such {unit}s with --skip-blank."
                )
            skipped += 1
            continue
        if not text.isascii():
            check_characters(text, f"{origin}, {unit} {number:,}: the text")
        texts.append(text)
        numbers.append(number)
    if not texts:
        what = f"only blank {unit}s" if skipped else "a header but no rows"
        raise InputError(f"{origin} holds {what}; it must hold at least one text.")
    return Texts(texts, TextLocations(origin, unit, numbers), origin, skipped)


def _read_jsonl(content: str, origin: str, column: str | None) -> Iterator[tuple[int, str | None]]:
    field = TEXT_COLUMN if column is None else column
    for number, line in enumerate(_lines(content), start=1):
        where = f"{origin}, line {number:,}"
        if not line.strip():
            yield number, None
            continue
        value = json_value(line, where)
        if isinstance(value, str) and column is None:
            yield number, value
            continue
        if not isinstance(value, dict):
            raise not_an_object(value, where, [] if column is None else [field])
        if field not in value:
            raise absent(where, "field", field, list(value))
        text = value[field]
        if text is not None and not isinstance(text, str):
            raise not_a_string(text, where, field)
        yield number, text


def _read_table(
    content: str, origin: str, column: str | None, suffix: str
) -> Iterator[tuple[int, str]]:
    if suffix == ".csv":
        # Without strict, a quotation mark that is never closed swallows the rest of the file.
        rows: Iterator[list[str]] = csv.reader(io.StringIO(content, newline=""), strict=True)
    else:
        rows = (line.split("\t") if line else [] for line in _lines(content))
    numbered = _numbered(rows, origin)
    header_row, header = next(numbered, (1, []))
    where = f"{origin}, row {header_row:,}"
    position = _choose_column(header, where, column, suffix)
    for number, row in numbered:
        if len(row) != len(header):
            raise wrong_width(row, header, f"{origin}, row {number:,}", suffix)
        yield number, row[position]


def _numbered(rows: Iterator[list[str]], origin: str) -> Iterator[tuple[int, list[str]]]:
    """Numbers the rows of a table; a line without any cell counts but is not a row."""
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            if row:
                yield number, row
    except csv.Error as error:
        raise unmatched_quotes(f"{origin}, row {number + 1:,}", error) from error


def _choose_column(header: list[str], where: str, column: str | None, suffix: str) -> int:
    wanted = TEXT_COLUMN if column is None else column
    place = column_place(header, wanted, where)
    if place is not None:
        return place
    if column is None and len(header) == 1:
        check_one_column(header, where, suffix)
        return 0
    raise absent(where, "column", wanted, header)


@contextmanager
def _long_fields() -> Iterator[None]:
    """Lifts the csv module's limit of 131,072 characters per cell, which is one per process."""
    before = csv.field_size_limit(LARGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)
