"""Reads the texts of files and of standard input: lines, or columns of tables.

What counts as one text is the same everywhere: something with at least one visible character.
Every text remembers its source location, so that a later message can say which one it is about.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, overload

from clozeworks.data.files.compression import Position
from clozeworks.data.files.encodings import check_characters, printable
from clozeworks.data.files.fields import absent, is_number, json_type, text_columns
from clozeworks.data.files.file_format import SEPARATED_SUFFIXES, FileFormat
from clozeworks.data.files.lines import (
    STANDARD_INPUT,
    FileNotes,
    numbered_lines,
    read_lines,
    stream_lines,
)
from clozeworks.data.files.parquet import parquet_rows, strings
from clozeworks.data.files.separated import (
    Dialect,
    TableLine,
    check_separator,
    dialect_of,
    even_rows,
    separated_rows,
)
from clozeworks.data.files.tables import NumberedObject, json_objects
from clozeworks.errors import SET, InputError, SettingError

TEXT_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet", ".tsv", ".txt")

# The number of a line or row, and its texts: one per column.
NumberedTexts = tuple[int, Sequence[str | None]]


# What a row of a file is called (line, row or object), and the rows as they are read.
TextRows = tuple[str, Iterator[NumberedTexts]]


class SourceLocations(Sequence[str]):
    """Says where each text came from: `reviews.csv, row 8,412`.

    The sentence is made when it is asked for; what is kept is one number per text.

    Args:
        numbers: A number of each text.
        describe: Makes the sentence from it.
    """

    def __init__(self, numbers: Sequence[int], describe: Callable[[int], str]) -> None:
        self.numbers = numbers
        self.describe = describe

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "SourceLocations": ...
    def __getitem__(self, index: int | slice) -> "str | SourceLocations":
        if isinstance(index, slice):
            return SourceLocations(self.numbers[index], self.describe)
        return self.describe(self.numbers[index])


@dataclass(frozen=True)
class Texts:
    """Texts and where they came from."""

    texts: list[str]
    """The texts, in the order of the file."""
    source_locations: Sequence[str]
    """Where each came from, for messages: `notes.txt, line 3`."""
    origin: str
    """The file, or `standard input`."""
    skipped: int = 0
    """How many blank ones were left out."""
    notes: tuple[str, ...] = ()
    """What was found out or done while they were read, in sentences."""

    def __len__(self) -> int:
        return len(self.texts)


def read_texts(
    source: Path | BinaryIO,
    *,
    column: str | None = None,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    skip_blank: bool = False,
) -> Texts:
    """Reads every text of a file, or of a stream, which has one per line.

    The settings are those of `text_rows`.

    Args:
        source: A file, or an open stream.
        column: The column or field that holds the text.
        header: Whether the first row of csv and tsv is a header; it is if not given.
        file_format: How the source is read.
        skip_blank: Whether to leave out blank texts rather than to stop at them.

    Raises:
        InputError: If any of it cannot be used as it is.
        MissingExtra: If its format needs a library that is not installed.
        SettingError: If there is no header that `header` could be about.
    """
    origin = printable(source) if isinstance(source, Path) else STANDARD_INPUT
    file_format, notes = file_format or FileFormat(), FileNotes()
    if isinstance(source, Path):
        check_header([source], header, file_format)
        unit, rows = text_rows(
            source,
            columns=None if column is None else [column],
            header=header,
            file_format=file_format,
            notes=notes,
        )
    else:
        if column is not None or header is not None:
            name = "--header" if column is None else "--column"
            rule = f"{origin} has no columns, each line is a text"
            raise SettingError(name, SET, rule, f"leave {name} out")
        arriving = stream_lines(source, file_format, origin=origin, notes=notes)
        unit, rows = _line_rows(chain.from_iterable(arriving), origin, notes)
    texts: list[str] = []
    numbers = array("q")
    skipped = 0
    for number, (text,) in rows:
        if text is None or not text or text.isspace():
            if not skip_blank:
                raise InputError(
                    f"{origin}, {unit} {number:,}: the text is blank; fill it in, or leave "
                    f"out such {unit}s with --skip-blank."
                )
            skipped += 1
            continue
        texts.append(text)
        numbers.append(number)
    if not texts:
        what = f"only blank {unit}s" if skipped else "no texts"
        raise InputError(f"{origin} holds {what}; there must be at least one text; check the file.")
    locations = SourceLocations(numbers, lambda number: f"{origin}, {unit} {number:,}")
    return Texts(texts, locations, origin, skipped, notes.sentences())


def check_header(
    files: Iterable[Path], header: bool | None, file_format: FileFormat | None = None
) -> None:
    """Insists that `header` has an effect: that one of the files can have a header.

    Raises:
        SettingError: If `header` is given and there is no such file.
    """
    file_format = file_format or FileFormat()
    suffixes = {file_format.check(path, TEXT_SUFFIXES) for path in files}
    if header is not None and not suffixes & set(SEPARATED_SUFFIXES):
        option = "--header" if header else "--no-header"
        rule = "no input is a .csv or .tsv file, and no other has a header"
        raise SettingError(option, SET, rule, f"leave {option} out")


def text_rows(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    position: Position | None = None,
    notes: FileNotes | None = None,
) -> TextRows:
    """Reads texts from columns of a file, or its lines.

    The suffix of the file chooses its format, if it is not named; all but parquet may be compressed
    (`.gz`, `.bz2`, `.xz`, `.zst`):

    - `.txt`: one text per line.
    - `.jsonl`: per line an object, or a string; `.json`: a list of objects or strings.
    - `.csv`: a table. A text may span lines if it is in quotation marks.
    - `.tsv`: a table, in which quotation marks are part of the texts unless all of it says
      otherwise.
    - `.parquet`: a table.

    Rows are counted as a spreadsheet shows them: the header of csv and tsv is row 1.

    Args:
        path: The file.
        columns: The columns or fields that hold the texts, by name or number. The default is
            `text`, or the only column of strings.
        header: Whether the first row of csv and tsv is a header; it is if not given.
        file_format: How the file is read, as for `read_lines`.
        position: Called now and then with the bytes of the file read so far.
        notes: Collects what there is to say, such as bytes that are not text.

    Raises:
        InputError: If the file cannot be used as it is; while it is read, with the line.
        MissingExtra: If its format needs a library that is not installed.
    """
    origin = printable(path)
    file_format = file_format or FileFormat()
    notes = notes if notes is not None else FileNotes()
    suffix = file_format.check(path, TEXT_SUFFIXES)
    if suffix == ".parquet":
        longest = file_format.max_row_length
        rows = parquet_rows(path, position, partial(strings, columns), longest=longest)
        return "row", (row for row in rows if row[0])
    lines = read_lines(path, file_format, position=position, notes=notes)
    if suffix == ".txt":
        if columns:
            raise InputError(
                f"{origin} has no columns, and --column is {columns[0]!r}; a .txt file is nothing "
                "but text; leave out --column."
            )
        return _line_rows(lines, origin, notes)
    if suffix in SEPARATED_SUFFIXES:
        dialect, lines = dialect_of(lines, suffix, file_format, notes)
        separated = separated_rows(lines, origin, dialect, notes)
        return "row", _separated(separated, origin, dialect, columns, header is not False)
    unit, objects = json_objects(lines, origin, suffix, notes=notes)
    return unit, _fields(objects, f"{origin}, {unit}", columns)


def _line_rows(lines: Iterable[str], origin: str, notes: FileNotes) -> TextRows:
    return "line", ((number, (line,)) for number, line in numbered_lines(lines, origin, notes))


def _fields(
    objects: Iterator[NumberedObject], unit: str, columns: Sequence[str] | None
) -> Iterator[NumberedTexts]:
    names: list[str] = []
    for number, value in objects:
        if not names:
            fields, is_text = list(value), [isinstance(text, str) for text in value.values()]
            where = f"{unit} {number:,}"
            indices = text_columns(fields, columns, where, is_text.__getitem__, "field")
            names = [fields[index] for index in indices]
        texts = []
        for name in names:
            text = value.get(name)
            if text is None:
                if name not in value:
                    raise absent(f"{unit} {number:,}", "field", name, list(value))
            elif not isinstance(text, str):
                raise InputError(
                    f"{unit} {number:,}: the field {name!r} is {json_type(text)}; it must be a "
                    "string; choose another field with --column, or put quotation marks around it."
                )
            elif not text.isascii():
                check_characters(text, f"{unit} {number:,}: the text")
            texts.append(text)
        yield number, texts


def _separated(
    rows: Iterator[TableLine],
    origin: str,
    dialect: Dialect,
    columns: Sequence[str] | None,
    header: bool,
) -> Iterator[NumberedTexts]:
    first_number, first = next(rows, (1, []))
    names = first if header else [str(number) for number in range(1, len(first) + 1)]
    where = f"{origin}, row {first_number:,}"
    if len(first) == 1 and not columns:
        check_separator(first, where, dialect)
    indices = text_columns(names, columns, where, bool) if columns else []
    if not header and first:
        rows = chain([(first_number, first)], rows)
    for number, row in even_rows(rows, len(first), origin, dialect):
        if not indices:
            is_text = [len(row) == 1 or not (cell == "" or is_number(cell)) for cell in row]
            indices = text_columns(names, columns, where, is_text.__getitem__)
        yield number, [row[index] for index in indices]
