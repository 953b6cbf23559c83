"""Test collections in BEIR's layout and its relatives, and what may be wrong with them."""

import gzip
import json
from pathlib import Path

import pytest

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.retrieval.folder import is_collection, read_collection
from clozeworks.errors import InputError

SCIFACT = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "retrieval" / "scifact"
CORPUS = [
    {"_id": "9", "title": "Rivers", "text": "Water runs downhill."},
    {"_id": "10", "title": "", "text": "Cats sleep a lot."},
    {"_id": "empty", "title": " ", "text": ""},
    {"_id": "d", "text": "No title here.", "metadata": {"a": 1}},
]
QUERIES = [{"_id": "q1", "text": "river"}, {"_id": "q2", "text": "cat"}, {"_id": "q3", "text": "x"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\t9\t2\nq1\t10\t0\nq2\t10\t1\n"


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def collection(tmp_path):
    def make(*, corpus=CORPUS, queries=QUERIES, qrels=QRELS, split="test.tsv"):
        (tmp_path / "corpus.jsonl").write_text(lines(corpus))
        (tmp_path / "queries.jsonl").write_text(lines(queries))
        (tmp_path / "qrels").mkdir(exist_ok=True)
        (tmp_path / "qrels" / split).write_text(qrels)
        return tmp_path

    return make


def test_a_folder_is_read(collection):
    folder = collection()
    found = read_collection(folder)
    assert found.qrels == {"q1": {"9": 2, "10": 0}, "q2": {"10": 1}}
    assert found.queries == {"q1": "river", "q2": "cat"}
    assert (found.unjudged, found.split, found.name) == (1, "test", str(folder))
    assert found.notes == ("1 document is empty and cannot be found.",)
    documents = list(found.documents())
    assert [each.id for each in documents] == found.document_ids == ["9", "10", "d"]
    assert [each.text for each in documents] == [
        "Rivers Water runs downhill.",
        "Cats sleep a lot.",
        "No title here.",
    ]
    assert documents[2].source_location == f"{folder / 'corpus.jsonl'}, line 4"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test.trec", "q1 0 9 2\nq1 Q0 10 0\n\nq2\t0\t10\t1\n"),
        ("test.tsv", "q1\t9\t2\nq1\t10\t0\nq2\t10\t1\n"),
        ("test.txt", "q1 9 2.0\nq1 10 0\nq2 10 1\n"),
        (
            "test.jsonl",
            '{"query-id": "q1", "corpus-id": 9, "score": 2}\n'
            '{"query-id": "q1", "corpus-id": "10", "score": 0}\n'
            '{"query-id": "q2", "corpus-id": "10", "score": 1}\n',
        ),
        ("test.csv", "qid,docid,relevance\nq1,9,2\nq1,10,0\nq2,10,1\n"),
    ],
)
def test_judgements_of_other_forms(collection, name, text):
    found = read_collection(collection(qrels=text, split=name))
    assert found.qrels == {"q1": {"9": 2, "10": 0}, "q2": {"10": 1}}


def test_tables_of_other_forms_and_compressed(tmp_path):
    (tmp_path / "corpus.tsv.gz").write_bytes(gzip.compress(b"9\tA river\n10\tA cat\n"))
    (tmp_path / "queries.csv").write_text('id,text\nq1,"water, running"\n')
    (tmp_path / "qrels.txt").write_text("q1 0 9 1\n")
    found = read_collection(tmp_path)
    assert [each.text for each in found.documents()] == ["A river", "A cat"]
    assert found.queries == {"q1": "water, running"}


def test_a_file_of_judgements_names_the_split(collection):
    folder = collection()
    other = folder / "qrels" / "dev.tsv"
    other.write_text("q2\t9\t1\n")
    assert is_collection(folder) and is_collection(other)
    assert not is_collection(folder / "corpus.jsonl") and not is_collection(folder / "absent.tsv")
    assert read_collection(folder).split == "test"
    found = read_collection(other)
    assert (found.split, found.qrels) == ("dev", {"q2": {"9": 1}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qrels": "q1\tx\t1\n"}, "document 'x' of query 'q1' is not in the corpus; add it, or"),
        ({"qrels": "q7\t9\t1\n"}, "query 'q7' is not among the queries; add it, or leave its"),
        ({"qrels": "q1\t9\t0\n"}, "no query has a relevant document (a grade above 0); there is"),
        ({"qrels": ""}, "holds no judgement; each row names a query, a document and a grade;"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "test.tsv holds no judgement; each row"),
        ({"qrels": "q1\t9\t1\nq1\t9\tgood\n"}, "line 2: the grade is 'good'; it must be a whole"),
        ({"qrels": "q1\t9\t0.5\nq2\t9\t1\nq2\t9\t.5\n"}, "line 3: the grade is '.5'; it must be"),
        ({"qrels": "q1\t9\t1\nq1\t9\t2\n"}, "the grade 2 for query 'q1', before it was 1; leave"),
        ({"qrels": "q1 9\n"}, "line 1: this has 2 values; a judgement is query, document and"),
        ({"corpus": [*CORPUS, CORPUS[0]]}, "line 5: the id '9' stands there twice; give each"),
        (
            {"corpus": [{"_id": "9", "name": "x"}]},
            "has no column of texts; its columns: _id, name;",
        ),
        ({"corpus": [{"key": "9", "text": "x"}]}, "has no column of ids; its columns: key, text;"),
        ({"corpus": [{"_id": "9", "text": ["x"]}]}, "the text is a list; it must be a string;"),
        ({"corpus": []}, "corpus.jsonl holds no rows; there must be at least one; check the file."),
        ({"queries": []}, "queries.jsonl holds no rows; there must be at least one; check the"),
        ({"queries": [{"_id": "q1", "text": ""}]}, "query 'q1' is empty; add it, or leave its"),
        ({"queries": [{"_id": "", "text": "x"}]}, "queries.jsonl, line 1: there is no id; give it"),
    ],
)
def test_what_is_wrong_is_a_sentence(collection, change, message):
    with pytest.raises(InputError) as caught:
        read_collection(collection(**change))
    assert message in str(caught.value)


def test_unknown_ids_may_be_dropped_and_are_counted(collection):
    bad = BadRows(skip=True)
    found = read_collection(collection(qrels="q1\t9\t1\nq1\tx\t1\nq7\t9\t1\n"), bad)
    assert found.qrels == {"q1": {"9": 1}}
    assert len(bad.rows) == 2


def test_equal_judgements_count_once_and_are_said(collection):
    found = read_collection(collection(qrels="q1\t9\t1\nq1\t9\t1\n"))
    assert found.qrels == {"q1": {"9": 1}}
    assert "1 judgement stands there twice." in found.notes


def test_a_folder_without_a_part_says_which(tmp_path):
    with pytest.raises(InputError, match="is not a test collection; that is a folder with corpus"):
        read_collection(tmp_path)
    (tmp_path / "corpus.jsonl").write_text(lines(CORPUS))
    with pytest.raises(InputError, match="has no judgements; put them into qrels/test"):
        read_collection(tmp_path)
    (tmp_path / "qrels.tsv").write_text(QRELS)
    with pytest.raises(InputError, match=r"has no queries\.jsonl; put it there\."):
        read_collection(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not SCIFACT.exists(), reason="needs the real data folder")
def test_scifact():
    found = read_collection(SCIFACT)
    assert (len(found.document_ids), len(found.queries), found.unjudged) == (5183, 300, 809)


def test_copies_that_were_left_behind_are_not_read(collection):
    folder = collection()
    for name in ("test.tsv.bak", "test.tsv~", "test.backup.tsv", ".test.tsv.swp"):
        (folder / "qrels" / name).write_text("query-id\tcorpus-id\tscore\nq1\td\t1\n")
    (folder / "corpus.backup.jsonl").write_text(lines(CORPUS[:1]))
    (folder / "queries.old.jsonl").write_text(lines(QUERIES[:1]))
    found = read_collection(folder)
    assert found.qrels == {"q1": {"9": 2, "10": 0}, "q2": {"10": 1}}
    assert found.document_ids == ["9", "10", "d"]
