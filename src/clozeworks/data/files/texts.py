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
from typing import BinaryIO, TypedDict, Unpack, overload

from clozeworks.data.chunks import in_chunks
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
# The number of a line or row, and its only text.
NumberedText = tuple[int, str]


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


class TextSettings(TypedDict, total=False):
    """How texts are read, as keyword arguments of `TextReader`."""

    column: str | None
    header: bool | None
    file_format: FileFormat | None
    skip_blank: bool


class TextReader:
    """The texts of a file, or of a stream with one per line, read as they are needed.

    A file may be read several times, and may have any size.

    Args:
        source: A file, or an open stream.
        column: The column or field that holds the text.
        header: Whether the first row of csv and tsv is a header; it is if not given.
        file_format: How the source is read.
        skip_blank: Whether to leave out blank texts rather than to stop at them.

    Attributes:
        origin: The file, or `standard input`.
        notes: What was found out or done while it was read.
        skipped: How many blank texts were left out.

    Raises:
        SettingError: If there is no header that `header` could be about.
    """

    def __init__(
        self,
        source: Path | BinaryIO,
        *,
        column: str | None = None,
        header: bool | None = None,
        file_format: FileFormat | None = None,
        skip_blank: bool = False,
    ) -> None:
        self.origin = printable(source) if isinstance(source, Path) else STANDARD_INPUT
        self.notes = FileNotes()
        self.skipped = 0
        self.unit = "line"
        self._source = source
        self._columns = None if column is None else [column]
        self._header = header
        self._format = file_format or FileFormat()
        self._skip_blank = skip_blank
        if isinstance(source, Path):
            check_header([source], header, self._format)
        elif column is not None or header is not None:
            name = "--header" if column is None else "--column"
            rule = f"{self.origin} has no columns, each line is a text"
            raise SettingError(name, SET, rule, f"leave {name} out")

    def texts(self) -> Iterator[NumberedText]:
        """Gives every text with the number of its line or row.

        Raises:
            InputError: If any of it cannot be used as it is.
            MissingExtra: If its format needs a library that is not installed.
        """
        return chain.from_iterable(self._arriving())

    def chunks(self) -> Iterator[Texts]:
        """Gives the texts in chunks; those of a stream as soon as they arrive.

        Raises:
            InputError: If any of it cannot be used as it is.
            MissingExtra: If its format needs a library that is not installed.
        """
        for arrived in self._arriving():
            for chunk in in_chunks(arrived, lambda text: len(text[1])):
                yield self.located(chunk)

    def check(self) -> int:
        """Reads a file once to see that all of it can be used; returns how many texts it has.

        Raises:
            InputError: If it cannot, or holds no text.
            MissingExtra: If its format needs a library that is not installed.
        """
        return sum(1 for _ in self.texts())

    def located(self, texts: Iterable[NumberedText]) -> Texts:
        """The same texts, with where each came from."""
        strings: list[str] = []
        numbers = array("q")
        for number, text in texts:
            strings.append(text)
            numbers.append(number)
        locations = SourceLocations(numbers, self._location)
        return Texts(strings, locations, self.origin, self.skipped, self.notes.sentences())

    def _location(self, number: int) -> str:
        return f"{self.origin}, {self.unit} {number:,}"

    def _arriving(self) -> Iterator[Iterator[NumberedText]]:
        """The texts as they arrive: of a file all, of a stream those that are there."""
        self.notes, self.skipped = FileNotes(), 0
        count = 0

        def counted(rows: Iterable[NumberedTexts]) -> Iterator[NumberedText]:
            nonlocal count
            for number, (text,) in rows:
                if text is None or not text or text.isspace():
                    self._leave_out(number)
                else:
                    count += 1
                    yield number, text

        if isinstance(self._source, Path):
            self.unit, rows = text_rows(
                self._source,
                columns=self._columns,
                header=self._header,
                file_format=self._format,
                notes=self.notes,
            )
            yield counted(rows)
        else:
            first = 1
            lines = stream_lines(self._source, self._format, origin=self.origin, notes=self.notes)
            for several in lines:
                yield counted(_line_rows(several, self.origin, self.notes, first)[1])
                first += len(several)
        if not count:
            what = f"only blank {self.unit}s" if self.skipped else "no texts"
            raise InputError(
                f"{self.origin} holds {what}; there must be at least one text; check the file."
            )

    def _leave_out(self, number: int) -> None:
        """Counts a blank text, or refuses it."""
        if not self._skip_blank:
            raise InputError(
                f"{self._location(number)}: the text is blank; fill it in, or leave out such "
                f"{self.unit}s with --skip-blank."
            )
        self.skipped += 1


def read_texts(source: Path | BinaryIO, **settings: Unpack[TextSettings]) -> Texts:
    """Reads every text of a file or stream; the arguments are those of `TextReader`.

    Raises:
        InputError: If any of it cannot be used as it is.
        MissingExtra: If its format needs a library that is not installed.
        SettingError: If there is no header that `header` could be about.
    """
    reader = TextReader(source, **settings)
    return reader.located(reader.texts())


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


def _line_rows(lines: Iterable[str], origin: str, notes: FileNotes, first: int = 1) -> TextRows:
    numbered = numbered_lines(lines, origin, notes, first)
    return "line", ((number, (line,)) for number, line in numbered)


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
