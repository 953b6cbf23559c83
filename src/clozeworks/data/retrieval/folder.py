"""Reads a test collection for retrieval in BEIR's layout: documents, queries, judgements.

    corpus.jsonl     {"_id": "4983", "title": "…", "text": "…"}
    queries.jsonl    {"_id": "1", "text": "…"}
    qrels/test.tsv   query-id  corpus-id  score

Any of them may be compressed, and may be a table of another form (`corpus.tsv`: id and text;
`queries.csv`; `qrels/test.trec`, `qrels.txt`). A folder may be small and its corpus huge: documents
are read one after the other, twice; only their ids are held.

Compat: a document is its title, a space and its text, as in BEIR and mteb.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from clozeworks.data.files.compression import format_suffix
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.tables import TABLE_SUFFIXES, TableReader
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import wrong_text
from clozeworks.data.retrieval.qrels import column_of, id_of, read_qrels
from clozeworks.errors import InputError
from clozeworks.wording import counted

ID_COLUMNS = ("_id", "id", "doc_id", "docid", "query_id", "qid", "corpus_id", "pid")
TEXT_COLUMNS = ("text", "contents", "content", "body", "passage", "query", "question", "document")
TITLE_COLUMNS = ("title",)
# A name, the suffix of a form, and that of a compression.
_NAMED = re.compile(r"([^.]+)(\.\w+)?(\.(gz|bz2|xz|zst|zstd))?")
# What files of judgements end in; TREC's have any of the last ones, or nothing.
_JUDGEMENTS = frozenset({*TABLE_SUFFIXES, "", ".txt", ".trec", ".qrel", ".qrels"})
SPLITS = ("test", "dev", "validation", "train")
"""Judgements that are measured on, the first that there are."""


class StoredText(NamedTuple):
    """A document or a query as it stands in its file."""

    id: str
    text: str
    source_location: str


@dataclass(frozen=True)
class TestCollection:
    """Documents, queries and judgements."""

    name: str
    """What messages call it."""
    split: str
    """Which judgements these are."""
    queries: dict[str, str]
    """The text of each judged query, in the order of the judgements."""
    qrels: dict[str, dict[str, int]]
    """The grade of each judged document of each of them."""
    document_ids: list[str]
    """The ids of all documents that are not empty, in the order of the corpus."""
    unjudged: int
    """How many other queries there are."""
    notes: tuple[str, ...]
    """What a person should know, in sentences."""
    corpus: Path = field(repr=False)
    """The file of documents."""

    # pytest would take the name for that of tests.
    __test__ = False

    def documents(self) -> Iterator[StoredText]:
        """Documents that are not empty, in the order of `document_ids`, read as they are needed."""
        return (each for each in _distinct(self.corpus, BadRows(skip=True)) if each.text)


def is_collection(path: Path) -> bool:
    """Whether this is a folder in BEIR's layout, or the judgements of one."""
    return _root(path) is not None


def read_collection(
    path: Path, bad: BadRows | None = None, splits: Sequence[str] = SPLITS
) -> TestCollection:
    """Reads a test collection; the text of documents is only looked at.

    Args:
        path: The folder; or a file of judgements in it.
        bad: Collects rows that cannot be used, and decides whether they are dropped.
        splits: Which judgements of a folder are taken: the first of these that it has.

    Raises:
        InputError: If something is missing, or ids do not fit each other.
    """
    bad = bad or BadRows()
    root = _root(path)
    if root is None:
        raise InputError(
            f"{printable(path)} is not a test collection; that is a folder with corpus.jsonl, "
            "queries.jsonl and qrels/test.tsv."
        )
    judgements = _judgements(root, splits) if path == root else path
    corpus, asked = _table(root, "corpus"), _table(root, "queries")
    if corpus is None or asked is None:
        missing = "corpus.jsonl" if corpus is None else "queries.jsonl"
        raise InputError(f"{printable(root)} has no {missing}; put it there.")
    notes: list[str] = []
    qrels = read_qrels(judgements, bad, notes)
    texts = {each.id: each.text for each in _distinct(asked, bad)}
    has_text = {each.id: bool(each.text) for each in _distinct(corpus, bad)}
    qrels = _with_known_ids(qrels, texts, has_text, judgements, bad)
    bad.finish()
    if empty := sum(not full for full in has_text.values()):
        notes.append(f"{counted(empty, 'document is', 'documents are')} empty and cannot be found.")
    if not any(grade > 0 for each in qrels.values() for grade in each.values()):
        raise InputError(
            f"{printable(judgements)}: no query has a relevant document (a grade above 0); there "
            "is nothing to find; check the grades."
        )
    return TestCollection(
        name=printable(root),
        split=judgements.name.partition(".")[0],
        queries={query: texts[query] for query in qrels},
        qrels=qrels,
        document_ids=[each for each, full in has_text.items() if full],
        unjudged=len(texts) - len(qrels),
        notes=tuple(notes),
        corpus=corpus,
    )


def _root(path: Path) -> Path | None:
    """The folder of a collection, for itself or for a file of its judgements."""
    if path.is_dir():
        return path if _table(path, "corpus") is not None else None
    for folder in path.parents[:2]:
        if path.is_file() and _table(folder, "corpus") not in (None, path):
            return folder
    return None


def _table(folder: Path, name: str) -> Path | None:
    """The file of a folder with a name and any suffix of a table, compressed or not."""
    if not folder.is_dir():
        return None
    found = [each for each in sorted(folder.iterdir()) if _called(each) == name]
    usable = [each for each in found if format_suffix(each) in TABLE_SUFFIXES and each.is_file()]
    return usable[0] if usable else None


def _called(path: Path) -> str | None:
    """The name of a file without its suffix; None if it has several, such as `test.tsv.bak`."""
    match = _NAMED.fullmatch(path.name)
    return match[1] if match else None


def _judgements(root: Path, splits: Sequence[str]) -> Path:
    """The judgements of a collection: the first split there is."""
    folder = root / "qrels" if (root / "qrels").is_dir() else root
    files: dict[str | None, Path] = {}
    for each in sorted(folder.iterdir()):
        if each.is_file() and format_suffix(each) in _JUDGEMENTS:
            files.setdefault(_called(each), each)
    for split in (*splits, "qrels"):
        if split in files:
            return files[split]
    raise InputError(
        f"{printable(root)} has no judgements; put them into qrels/test.tsv, with the columns "
        "query-id, corpus-id and score."
    )


def _distinct(path: Path, bad: BadRows) -> Iterator[StoredText]:
    """The texts of a file, each id once."""
    seen: set[str] = set()
    for each in _stored(path, bad):
        if each.id in seen:
            what = f"the id {each.id!r} stands there twice; give each text its own"
            bad.add(each.source_location, what)
        else:
            seen.add(each.id)
            yield each


def _stored(path: Path, bad: BadRows) -> Iterator[StoredText]:
    """The texts of a file, a title and a space before them; "" for one without any."""
    reader = TableReader(path, on_bad_row=bad.add)
    table = reader.head
    known = column_of(table.names, ID_COLUMNS, "ids", table.origin, required=False)
    if known < 0 and table.doubtful is not None and len(table.names) == 2:
        # MS MARCO's files: an id, a tab and a text, without a header.
        table = table.without_header()
        places = [0, -1, 1]
    else:
        places = [
            column_of(table.names, ID_COLUMNS, "ids", table.origin),
            column_of(table.names, TITLE_COLUMNS, "titles", table.origin, required=False),
            column_of(table.names, TEXT_COLUMNS, "texts", table.origin),
        ]
    for number, cells in reader.rows(table):
        location = table.location(number)
        cell, *parts = (cells[place] if place >= 0 else None for place in places)
        own = id_of(cell)
        parts = [part.strip() if isinstance(part, str) else part for part in parts]
        wrong = [wrong_text(part, "text") for part in parts if part not in (None, "")]
        if own is None or any(wrong):
            bad.add(location, next(filter(None, wrong), "there is no id; give it one"))
            continue
        yield StoredText(own, " ".join(filter(None, parts)), location)


def _with_known_ids(
    qrels: Mapping[str, Mapping[str, int]],
    queries: Mapping[str, str],
    documents: Collection[str],
    path: Path,
    bad: BadRows,
) -> dict[str, dict[str, int]]:
    """The judgements whose query and document there are; others are bad rows."""
    known: dict[str, dict[str, int]] = {}
    for query, grades in qrels.items():
        if not queries.get(query):
            why = "is not among the queries" if query not in queries else "is empty"
            bad.add(printable(path), f"query {query!r} {why}; add it, or leave its judgements out")
            continue
        for document, grade in grades.items():
            if document in documents:
                known.setdefault(query, {})[document] = grade
            else:
                what = f"document {document!r} of query {query!r} is not in the corpus; add it, or"
                bad.add(printable(path), f"{what} leave the judgement out")
    return known
