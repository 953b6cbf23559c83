"""Reads documents from files of any number and size, one document at a time.

What counts as a document: in `.txt` what stands between blank lines, or a line, or the file; in
`.jsonl` a line; in `.json` an object; in `.csv`, `.tsv` and `.parquet` a row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from clozeworks.data.files.compression import Position
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes, numbered_lines, read_lines
from clozeworks.data.files.texts import TextRows, text_rows
from clozeworks.errors import InputError, UnknownName

# A document must fit in memory, several times over.
LONGEST_DOCUMENT = 64_000_000

Documents = Literal["blank-line", "file", "line"]


@dataclass(frozen=True, slots=True)
class Document:
    r"""A text and where it came from."""

    text: str
    """The characters; lines end with a line feed."""
    origin: str
    """The file."""
    line: int
    """The line on which it begins, or the row of a table; a header is row 1."""


def read_documents(
    path: Path | str,
    *,
    documents: Documents = "blank-line",
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    position: Position | None = None,
    notes: FileNotes | None = None,
) -> Iterator[Document]:
    """Reads the documents of a file, one at a time. Blank ones are left out.

    The file may have any size: no more of it is in memory than a block and one document. In a
    `.txt` file `documents` says what one is: what stands between blank lines, the whole file, or
    each line; other formats have one per line or row. Each of several columns becomes one line of
    the document, in this order, as pairs of sentences want it. The other settings are those of
    `text_rows`.

    Raises:
        InputError: If the file cannot be used as it is, with the line where that is.
        MissingExtra: If its format needs a library that is not installed.
        UnknownName: If `documents` is none of the three.
    """
    if documents not in get_args(Documents):
        raise UnknownName("documents", documents, get_args(Documents))
    path = Path(path)
    origin = printable(path)
    file_format = file_format or FileFormat()
    notes = notes if notes is not None else FileNotes()
    if file_format.suffix_of(path) == ".txt" and not columns:
        file_format.check(path, (".txt",))
        lines = read_lines(path, file_format, position=position, notes=notes)
        yield from _paragraphs(numbered_lines(lines, origin, notes), origin, documents)
        return
    rows = text_rows(
        path,
        columns=columns,
        header=header,
        file_format=file_format,
        position=position,
        notes=notes,
    )
    yield from _joined(rows, origin, columns)


def _paragraphs(
    lines: Iterator[tuple[int, str]], origin: str, documents: Documents
) -> Iterator[Document]:
    begin = length = 0
    held: list[str] = []
    for number, line in lines:
        blank = not line or line.isspace()
        if documents == "line":
            if not blank:
                yield Document(line, origin, number)
            continue
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


def _joined(rows: TextRows, origin: str, columns: Sequence[str] | None) -> Iterator[Document]:
    """Makes one document of the texts of a line or row."""
    unit, numbered = rows
    for number, texts in numbered:
        blank = [text is None or not text or text.isspace() for text in texts]
        if all(blank):
            continue
        if any(blank):
            assert columns is not None  # more than one text is there only if columns were named
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
