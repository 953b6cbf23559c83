"""What rows of a reranker hold decides what is learned; columns are found by name."""

import json

import pytest

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.data.labelled.splitting import SplitFractions, parted, split
from clozeworks.data.labelled.vocabulary_fit import token_counts
from clozeworks.errors import InputError
from clozeworks.tasks.rerank.items import RerankItem
from clozeworks.text.training.train import train_from_iterator

CASES = {
    "judged": (
        [
            {"id": 7, "label": 1, "passage": "p", "query": "q"},
            {"query": "q", "passage": "r", "label": 0},
        ],
        (("p",), (1.0,)),
    ),
    "scores": ([{"sentence1": "q", "sentence2": "p", "score": 3.5}], (("p",), (3.5,))),
    "lists": (
        [{"query": "q", "docs": ["p", "r", "s"], "labels": [2, 0, True]}],
        (("p", "r", "s"), (2.0, 0.0, 1.0)),
    ),
    "tuples": (
        [{"anchor": "q", "positive": "p", "negative_1": "r", "negative_2": "s"}],
        (("p", "r", "s"), (1.0, 0.0, 0.0)),
    ),
    "margins": (
        [{"query": "q", "positive": "p", "negative": ["r", "s"], "teacher": [5, 1, 2]}],
        (("p", "r", "s"), (5.0, 1.0, 2.0)),
    ),
    "pairs": ([{"query": "q", "positive": "p"}], (("p",), (1.0,))),
    "classes": ([{"query": "q", "document": "p", "label": "maybe"}], None),
    "none": ([{"query": "q", "document": "p"}], (("p",), None)),
}


def read(tmp_path, rows, bad=None, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return read_items(path, RerankItem, Reading(**options), bad=bad)


@pytest.mark.parametrize("kind", CASES)
def test_what_a_row_teaches(tmp_path, kind):
    rows, wanted = CASES[kind]
    found = read(tmp_path, rows)
    item = found.items[0]
    assert (found.kind, item.kind, item.query) == (kind, kind, "q")
    if wanted is not None:
        assert (item.documents, item.known) == wanted
    assert "the rows hold" in found.description


def test_margins_and_scores_of_a_teacher_mean_the_same(tmp_path):
    row = {"query": "q", "positive": "p", "negative_1": "r", "negative_2": "s"}
    for said in ({"teacher": [4.0, 3.0]}, {"label": [4.0, 3.0]}, {"teacher": [5.0, 1.0, 2.0]}):
        [item] = read(tmp_path, [{**row, **said}]).items
        known = item.known
        assert item.kind == "margins"
        assert [known[0] - other for other in known[1:]] == [4.0, 3.0]


def test_a_teacher_teaches_and_labels_measure(tmp_path):
    [item] = read(tmp_path, [{"query": "q", "document": "p", "label": 1, "logit": 7.5}]).items
    assert (item.kind, item.known, item.label) == ("scores", (7.5,), (1.0,))


def test_what_a_first_stage_scored_is_kept_and_written(tmp_path):
    row = {"query": "q", "documents": ["p", "r"], "labels": [1, 0], "bm25": [3.0, 4.0]}
    [item] = read(tmp_path, [row]).items
    assert item.first_stage == (3.0, 4.0)
    assert item.to_dict() == {
        "query": "q",
        "documents": ["p", "r"],
        "label": [1.0, 0.0],
        "first_stage": [3.0, 4.0],
    }


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"query": "q", "document": " ", "label": 1}, "the document is empty; give it one"),
        ({"query": "", "document": "p", "label": 1}, "the query is empty; give it one"),
        ({"query": "q", "documents": ["p", ""], "label": [1, 0]}, "the document is empty"),
        (
            {"query": "q", "documents": ["p", "r"], "label": [1]},
            "there are 2 documents and 1 labels; each document needs one; correct them",
        ),
        (
            {"query": "q", "documents": ["p", "r"], "label": [1, "x"]},
            "the label is 'x'; it must be a finite number; correct it",
        ),
        (
            {"query": "q", "positive": "p", "negative": "p"},
            "'p' is a positive and a negative; leave one out",
        ),
        (
            {"query": "q", "positive": "p", "negative": ["r", "s", "t"], "teacher": [1, 2]},
            "there are 4 documents and 2 scores of the teacher",
        ),
        (
            {"query": "q", "positive": ["p", "o"], "negative": ["r"], "teacher": [1, 2, 3]},
            "there are several positives, and a teacher's margins are between one and each",
        ),
        (
            {"query": "q", "document": "p", "label": 1, "bm25": [1, 2]},
            "there are 1 documents and 2 scores of the first stage",
        ),
        ({"query": "q", "document": "p", "teacher": "inf"}, "the teacher's score is 'inf'"),
    ],
)
def test_bad_rows_are_sentences(tmp_path, row, sentence):
    with pytest.raises(InputError) as told:
        read(tmp_path, [row])
    assert str(told.value).startswith(str(tmp_path / "rows.jsonl"))
    assert sentence in str(told.value)


def test_rows_of_another_kind_are_bad(tmp_path):
    rows = [{"query": "q", "positive": "p", "negative": "r"}] * 2 + [
        {"query": "q", "positive": "p"}
    ]
    bad = BadRows(skip=True)
    found = read(tmp_path, rows, bad)
    assert len(found.items) == 2
    assert "this row has queries with a positive alone, most have queries with a positive and" in (
        str(bad.rows[0])
    )


def test_rows_of_one_query_stay_together(tmp_path):
    rows = [{"query": f"q{n // 3}", "document": f"d{n}", "label": n % 2} for n in range(30)]
    items = read(tmp_path, rows).items
    train, dev = split(items, 0.2, seed=1)
    assert {item.query for item in train}.isdisjoint(item.query for item in dev)
    assert len(dev) == 6
    parts = parted(items, SplitFractions(0.2, 0.2), seed=1)
    assert parts.together == "query"
    queries = [{item.query for item in part} for part in parts.parts.values()]
    assert sum(map(len, queries)) == len(set().union(*queries)) == 10
    with pytest.raises(InputError, match="two items of a label, or two queries; add some"):
        split(items[:3], 0.2, seed=1)


def test_tokens_are_counted_for_each_pair():
    tokenizer = train_from_iterator(["a b c d e"] * 3, kind="wordpiece", size=60)
    items = [RerankItem("a b", ("c", "c d e")), RerankItem("a", ("b",))]
    assert token_counts(items, tokenizer)[0] == [6, 8, 5]
