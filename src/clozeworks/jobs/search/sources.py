"""Documents to be searched, from files or from a program: each with an id, a text and columns.

What is a document: of `.txt` files a line, a paragraph or the file; of other files a row. Its id is
the column `id` or `_id`, or the one that is named; without one the file and the row. A text from a
program that has no id is known by its hash; where a call has it several times with different
columns, each further one by the hash of its text and columns.
"""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from clozeworks.arrays import Uint64Array
from clozeworks.data.files.documents import Documents, read_documents
from clozeworks.data.files.encodings import check_characters
from clozeworks.data.files.fields import (
    TEXT_COLUMN,
    column_index,
    is_number,
    json_type,
    plain_name,
    text_columns,
)
from clozeworks.data.files.file_format import SEPARATED_SUFFIXES, FileFormat
from clozeworks.data.files.lines import FileNotes
from clozeworks.data.files.tables import Table, TableReader
from clozeworks.data.files.texts import check_header
from clozeworks.data.labelled.in_memory import prediction_rows
from clozeworks.errors import InputError
from clozeworks.search.documents import IndexedDocument, hash_of

ID_COLUMNS = ("id", "_id")


class DocumentSource(Protocol):
    """Documents that can be read several times."""

    def __iter__(self) -> Iterator[IndexedDocument]: ...


@dataclass(frozen=True)
class FileDocuments:
    """The documents of files.

    Attributes:
        files: The files, in their order.
        columns: The columns that make the text, each a line of it; `text`, or the only one with
            text, if empty.
        id_column: The column of the id.
        documents: What a document is in a `.txt` file.
        header: Whether the first row of csv and tsv is a header; it is if None.
        skip_blank: Whether rows without a text are left out rather than refused.
    """

    files: Sequence[Path]
    columns: Sequence[str] = ()
    id_column: str | None = None
    documents: Documents = "line"
    header: bool | None = None
    skip_blank: bool = False
    file_format: FileFormat = field(default_factory=FileFormat)
    notes: FileNotes = field(default_factory=FileNotes)

    def __post_init__(self) -> None:
        check_header(self.files, self.header, self.file_format)

    def __iter__(self) -> Iterator[IndexedDocument]:
        for path in self.files:
            if self.file_format.suffix_of(path) == ".txt":
                yield from self._of_text(path)
            else:
                yield from self._of_table(path)

    def _of_text(self, path: Path) -> Iterator[IndexedDocument]:
        for found in read_documents(
            path,
            documents=self.documents,
            columns=self.columns or None,
            file_format=self.file_format,
            notes=self.notes,
        ):
            whole = self.documents == "file"
            name = found.origin if whole else f"{found.origin}:{found.line}"
            located = found.origin if whole else f"{found.origin}, line {found.line:,}"
            yield IndexedDocument(name, found.text, {}, located)

    def _of_table(self, path: Path) -> Iterator[IndexedDocument]:
        reader = TableReader(path, self.file_format, notes=self.notes)
        head = reader.head
        separated = self.file_format.suffix_of(path) in SEPARATED_SUFFIXES
        if separated and self.header is False:
            head = head.without_header()
        named = [name or str(number) for number, name in enumerate(head.names, 1)]
        texts, number_of_id = self._columns(head, named)
        for number, cells in reader.rows(head):
            located = head.location(number)
            parts = [_text_in(cells[index], named[index], located) for index in texts]
            text = "\n".join(part for part in parts if part)
            if not text:
                if self.skip_blank:
                    continue
                raise InputError(
                    f"{located}: the text is blank; fill it in, or leave out such {head.unit}s "
                    "with --skip-blank."
                )
            name = f"{head.origin}:{number}"
            if number_of_id is not None:
                name = _id_in(cells[number_of_id], named[number_of_id], located)
            others = {
                named[index]: cell
                for index, cell in enumerate(cells)
                if index != number_of_id and index not in texts[-1:] and _is_plain(cell)
            }
            yield IndexedDocument(name, text, others, located)

    def _columns(self, head: Table, named: list[str]) -> tuple[list[int], int | None]:
        """The columns of the text, and that of the id."""
        where = head.origin

        def holds_text(index: int) -> bool:
            cells = [row[index] for _, row in head.rows[:20] if row[index] not in (None, "")]
            return bool(cells) and not any(
                is_number(cell) or not isinstance(cell, str) for cell in cells
            )

        number = None
        if self.id_column is not None:
            number = column_index(named, self.id_column, where, option="--id-column ")
        else:
            ids = [n for n, name in enumerate(named) if plain_name(name) in ID_COLUMNS]
            number = ids[0] if len(ids) == 1 else None
        texts = text_columns(
            named,
            self.columns or None,
            where,
            lambda index: index != number and holds_text(index),
        )
        return texts, number


def _text_in(cell: Any, name: str, located: str) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        raise InputError(
            f"{located}: the column {name!r} is {json_type(cell)}; it must be a string; choose "
            "another column with --column, or put quotation marks around it."
        )
    check_characters(cell, f"{located}: the text")
    return "" if cell.isspace() else cell


def _id_in(cell: Any, name: str, located: str) -> str:
    if isinstance(cell, bool) or not isinstance(cell, str | int) or not str(cell).strip():
        what = "blank" if isinstance(cell, str) else json_type(cell)
        raise InputError(
            f"{located}: the id {name!r} is {what}; it must be a string or a whole number; fill "
            "it in, or name another column with --id-column."
        )
    check_characters(str(cell), f"{located}: the id")
    return str(cell)


def _is_plain(cell: Any) -> bool:
    return isinstance(cell, str | int | float) and cell != ""


def documents_of(data: Any) -> list[IndexedDocument]:
    """The documents that a program hands over: texts, or rows with a `text` and perhaps an `id`.

    Args:
        data: A list of texts or dicts, a frame of pandas, polars or pyarrow, or a dict of columns.

    Raises:
        InputError: If a row has no text, or two have the same id and are not the same.
    """
    rows = [data] if isinstance(data, str) else prediction_rows(data, "documents")
    found: list[IndexedDocument] = []
    seen: dict[str, tuple[bytes, int]] = {}
    for number, row in enumerate(rows, 1):
        document = _document(row, number)
        content = _content(document)
        same, first = seen.setdefault(document.id, (content, number))
        if same != content:
            raise _same_id(document.id, f"document {number:,}", f"document {first:,}")
        if first == number:  # else the same stands twice, and is one document
            found.append(document)
    return found


def _content(document: IndexedDocument) -> bytes:
    """A hash of the text and the columns of a document, in whatever order they are."""
    columns = sorted(document.columns.items(), key=lambda column: str(column[0]))
    return hash_of(json.dumps([document.text, columns]))


def _document(row: Any, number: int) -> IndexedDocument:
    """The document of a row; one without an id is known by all that it holds."""
    located = f"document {number:,}"
    if isinstance(row, IndexedDocument):
        return row
    cells: Mapping[str, Any] = {TEXT_COLUMN: row} if isinstance(row, str) else row
    if not isinstance(cells, Mapping) or not isinstance(cells.get(TEXT_COLUMN), str):
        raise InputError(
            f"{located} has no text; a document is a text, or a dict with a 'text' and perhaps an "
            "'id' and other columns; give it one."
        )
    text = cells[TEXT_COLUMN]
    if not text.strip():
        raise InputError(f"{located} is blank; a vector needs at least one word; drop it.")
    check_characters(text, located)
    name = next((column for column in ID_COLUMNS if cells.get(column) is not None), None)
    others = {
        column: cell
        for column, cell in cells.items()
        if column not in (TEXT_COLUMN, name) and _is_plain(cell)
    }
    if name is not None:
        return IndexedDocument(_id_in(cells[name], name, located), text, others, located)
    document = IndexedDocument("", text, others, located)
    content = _content(document) if others else hash_of(text)
    return replace(document, id=content.hex()[:16])


def _same_id(name: str, where: str, other: str) -> InputError:
    return InputError(
        f"{where} and {other} have the same id, {name!r}; ids must be unique; change one, or name "
        "another column with --id-column."
    )


@dataclass(frozen=True)
class CountedDocuments:
    """What a first look at documents found out."""

    count: int
    beginnings: Uint64Array
    """The first 8 bytes of the hash of each id."""


def count_documents(documents: DocumentSource) -> CountedDocuments:
    """Reads all documents once, so that what is wrong with the last is known before any work.

    Raises:
        InputError: If one cannot be used, or two have the same id.
    """
    digests = array("Q")
    for document in documents:
        digests.frombytes(hash_of(document.id)[:8])
    beginnings = np.frombuffer(digests, np.uint64)
    if len(np.unique(beginnings)) < len(beginnings):
        seen: dict[bytes, str] = {}
        for document in documents:
            digest = hash_of(document.id)
            if digest in seen:
                raise _same_id(document.id, document.source_location, seen[digest])
            seen[digest] = document.source_location
    return CountedDocuments(len(beginnings), beginnings)
