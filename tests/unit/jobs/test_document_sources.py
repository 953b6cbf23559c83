"""Documents of files and of programs: ids, texts, columns, and what is wrong with them."""

import numpy as np
import pandas
import pytest

from clozeworks.errors import InputError
from clozeworks.jobs.search.sources import FileDocuments, count_documents, documents_of
from clozeworks.search.documents import IndexedDocument, hash_of


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_table_with_ids_and_columns(written):
    path = written("a.csv", "ID,text,year,note\n7,A cat.,2001,\n8,A dog.,2002,old\n")
    first, second = FileDocuments([path])
    assert (first.id, first.text, first.columns) == ("7", "A cat.", {"year": "2001"})
    assert second.columns == {"year": "2002", "note": "old"}
    assert second.source_location == f"{path}, row 3"
    (named, _) = FileDocuments([path], id_column="year")
    assert named.id == "2001" and named.columns == {"ID": "7"}


def test_several_columns_are_one_text_and_stay_columns(written):
    path = written("a.jsonl", '{"_id": 5, "title": "Cats", "text": "They sleep.", "tags": ["x"]}\n')
    (document,) = FileDocuments([path], columns=("title", "text"))
    assert (document.id, document.text) == ("5", "Cats\nThey sleep.")
    assert document.columns == {"title": "Cats"}


def test_tables_without_header_and_lines(written):
    path = written("a.tsv", "A cat.\t1\nA dog.\t2\n")
    assert [
        (each.id, each.text, each.columns)
        for each in FileDocuments([path], columns=("1",), header=False)
    ] == [(f"{path}:1", "A cat.", {"2": "1"}), (f"{path}:2", "A dog.", {"2": "2"})]
    text = written("b.txt", "one\ntwo\n\nthree\n")
    assert [each.id for each in FileDocuments([text])] == [f"{text}:{n}" for n in (1, 2, 4)]
    paragraphs = FileDocuments([text], documents="blank-line")
    assert [each.text for each in paragraphs] == ["one\ntwo", "three"]
    (whole,) = FileDocuments([text], documents="file")
    assert (whole.id, whole.text) == (str(text), "one\ntwo\n\nthree")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"text": " "}', "line 1: the text is blank; fill it in, or leave out such lines with"),
        ('{"text": 5}', "line 1: the column 'text' is a number; it must be a string; choose"),
        ('{"text": "a", "id": ""}', "line 1: the id 'id' is blank; it must be a string or a whole"),
        ('{"text": "a", "id": [1]}', "line 1: the id 'id' is a list; it must be a string or a"),
        ('{"text": "a", "id": "\\ud800"}', "line 1: the id holds"),
        ('{"a": "x", "b": "y"}', "has no column 'text'; its columns: a, b; choose one with"),
    ],
)
def test_rows_that_cannot_be_used(written, content, sentence):
    path = written("a.jsonl", content + "\n")
    with pytest.raises(InputError) as error:
        count_documents(FileDocuments([path]))
    assert sentence in str(error.value)


def test_blank_rows_can_be_left_out(written):
    path = written("a.jsonl", '{"text": ""}\n{"text": "a"}\n{"text": null}\n')
    assert count_documents(FileDocuments([path], skip_blank=True)).count == 1


def test_a_first_look_counts_and_hashes(written):
    path = written("a.txt", "one\ntwo\n")
    counted = count_documents(FileDocuments([path]))
    expected = b"".join(hash_of(f"{path}:{n}")[:8] for n in (1, 2))
    assert counted.count == 2
    assert (counted.beginnings == np.frombuffer(expected, np.uint64)).all()


def test_what_a_program_hands_over():
    frame = pandas.DataFrame({"id": [1, 2], "text": ["A cat.", "A dog."], "year": [3, None]})
    assert [(each.id, each.text, each.columns) for each in documents_of(frame)] == [
        ("1", "A cat.", {"year": 3.0}),
        ("2", "A dog.", {}),
    ]
    (one,) = documents_of("A cat.")
    assert one.id == hash_of("A cat.").hex()[:16]
    with pytest.raises(InputError, match="document 2 is blank; a vector needs at least one word"):
        documents_of(["a", " "])
    with pytest.raises(InputError, match="document 1 has no text; a document is a text, or a dict"):
        documents_of([("a", "b")])


def test_rows_with_one_id_are_the_same_or_refused():
    row = {"id": "a", "text": "A cat.", "year": 1, "kind": "pet"}
    same = {"kind": "pet", "year": 1, "text": "A cat.", "id": "a"}
    (document,) = documents_of([row, same])
    assert document.columns == {"year": 1, "kind": "pet"}
    for other in ({**row, "year": 2}, {**row, "text": "A dog."}, {"id": "a", "text": "A cat."}):
        with pytest.raises(InputError) as error:
            documents_of([{"text": "B."}, row, same, other])
        assert str(error.value) == (
            "document 4 and document 2 have the same id, 'a'; ids must be unique; change one, or "
            "name another column with --id-column."
        )
    given = IndexedDocument("a", "A cat.", {"year": 1, "kind": "pet"})
    assert documents_of([given, row]) == [given]
    with pytest.raises(InputError, match="document 2 and document 1 have the same id, 'a'; ids"):
        documents_of([given, {**row, "year": 3}])


def test_texts_without_ids_keep_their_columns():
    rows = [
        {"text": "A cat.", "year": 1},
        "A dog.",
        {"text": "A cat.", "year": 2},
        "A dog.",
        {"text": "A cat.", "year": 2},
        {"text": "A cat.", "year": 1},
    ]
    found = documents_of(rows)
    assert [(each.text, each.columns) for each in found] == [
        ("A cat.", {"year": 1}),
        ("A dog.", {}),
        ("A cat.", {"year": 2}),
    ]
    ids = [each.id for each in found]
    assert len({*ids}) == 3 and ids[1] == hash_of("A dog.").hex()[:16]
    assert [each.id for each in documents_of(rows)] == ids
    # One at a time, or in another order, they are the same documents.
    assert [documents_of([row])[0].id for row in rows[:3]] == ids
    assert {each.id for each in documents_of(rows[::-1])} == {*ids}
    assert count_documents(found).count == 3
