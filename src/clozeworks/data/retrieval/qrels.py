"""Reads judgements: which document is how relevant to which query.

Three forms are known by what stands in them: BEIR's (a header, then query, document and grade
between tabs), TREC's (query, a number without meaning, document and grade between white space), and
tables of any other kind (.jsonl, .csv, .parquet) with columns of these names.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clozeworks.data.files.encodings import printable
from clozeworks.data.files.fields import listed, plain_name
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import read_lines
from clozeworks.data.files.tables import TableReader
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.errors import InputError
from clozeworks.wording import counted

QUERY_COLUMNS = ("query_id", "qid", "query", "topic")
DOCUMENT_COLUMNS = ("corpus_id", "doc_id", "docid", "document_id", "pid", "passage_id", "docno")
GRADE_COLUMNS = ("score", "relevance", "rel", "grade", "label", "judgement")
# Forms that tell their columns by name.
_LARGEST = 1_000_000  # grade
_TABLES = (".jsonl", ".json", ".csv", ".parquet")


def read_qrels(path: Path, bad: BadRows, notes: list[str]) -> dict[str, dict[str, int]]:
    """Reads judgements.

    Args:
        path: The file, compressed or not.
        bad: Collects rows that cannot be used, and decides whether they are dropped.
        notes: Is added to: what a person should know.

    Returns:
        The grade of each judged document of each query, in the order of the file.

    Raises:
        InputError: If the file cannot be read, or holds no judgement.
    """
    qrels: dict[str, dict[str, int]] = {}
    repeated = 0
    for location, query, document, cell in _rows(path, bad):
        grade = _grade(cell)
        if grade is None:
            rule = f"it must be a whole number of at most {_LARGEST:,}"
            bad.add(location, f"the grade is {str(cell)!r}; {rule}; correct it")
            continue
        grades = qrels.setdefault(query, {})
        repeated += grades.get(document) == grade
        if grades.setdefault(document, grade) != grade:
            bad.add(
                location,
                f"document {document!r} has the grade {grade} for query {query!r}, before it was "
                f"{grades[document]}; leave one of them out",
            )
    bad.finish()
    if repeated:
        notes.append(f"{counted(repeated, 'judgement stands', 'judgements stand')} there twice.")
    if not any(qrels.values()):
        raise InputError(
            f"{printable(path)} holds no judgement; each row names a query, a document and a "
            "grade; check the file."
        )
    return qrels


def _rows(path: Path, bad: BadRows) -> Iterator[tuple[str, str, str, Any]]:
    """Where each judgement stands, its query, its document, and what is said to be its grade."""
    if FileFormat().suffix_of(path) in _TABLES:
        reader = TableReader(path, on_bad_row=bad.add)
        table = reader.head
        places = [
            column_of(table.names, known, what, table.origin)
            for known, what in (
                (QUERY_COLUMNS, "queries"),
                (DOCUMENT_COLUMNS, "documents"),
                (GRADE_COLUMNS, "grades"),
            )
        ]
        for number, cells in reader.rows():
            query, document = (id_of(cells[place]) for place in places[:2])
            if query is None or document is None:
                bad.add(table.location(number), "a query or a document has no id; give it one")
                continue
            yield table.location(number), query, document, cells[places[2]]
        return
    origin = printable(path)
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t") if "\t" in line else line.split()
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        location = f"{origin}, line {number:,}"
        if len(cells) not in (3, 4) or not cells[0] or not cells[-2]:
            bad.add(
                location,
                f"this has {counted(len(cells), 'value')}; a judgement is query, document and "
                "grade, or in TREC's form query, 0, document and grade; correct it",
            )
            continue
        if number == 1 and _grade(cells[-1]) is None:
            continue  # a header
        yield location, cells[0], cells[-2], cells[-1]


def column_of(
    names: Sequence[str], known: Sequence[str], what: str, origin: str, *, required: bool = True
) -> int:
    """Which column has one of the usual names; -1 if none does and none is required.

    Raises:
        InputError: If one is required.
    """
    plain = [plain_name(name) for name in names]
    for name in known:
        if name in plain:
            return plain.index(name)
    if not required:
        return -1
    raise InputError(
        f"{origin} has no column of {what}; {listed(names)}; call one {' or '.join(known[:3])}."
    )


def _grade(cell: Any) -> int | None:
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and abs(number) <= _LARGEST else None


def id_of(cell: Any) -> str | None:
    """The id in a cell: a text or a whole number; None if there is none."""
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        return None
    return str(cell).strip() or None
