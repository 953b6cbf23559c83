"""What rows hold decides what is learned; columns are found by name."""

import json

import pytest

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.embed.class_pairs import ClassPairs
from clozeworks.tasks.embed.items import EmbedItem

CASES = {
    "pairs": ([{"id": 7, "query": "a cat", "document": "it is a cat"}], None),
    "tuples": ([{"anchor": "a", "positive": "b", "negative": "c"}], None),
    "scores": ([{"sentence1": "a", "sentence2": "b", "score": 3.5}], 3.5),
    "judged": (
        [
            {"question1": "a", "question2": "b", "is_duplicate": 1},
            {"question1": "a", "question2": "c", "is_duplicate": 0},
        ],
        True,
    ),
    "classes": ([{"premise": "a", "hypothesis": "b", "label": "entailment"}], "entailment"),
    "groups": ([{"text": "a long text", "label": "sport"}], "sport"),
    "texts": ([{"url": "http://somewhere/else", "text": "a text"}], None),
    "vectors": ([{"text": "a", "teacher": [0.5, 1]}], None),
    "lists": ([{"query": "q", "positive": "a", "negative": ["b"], "teacher": [2.0, 1.0]}], None),
}


def read(tmp_path, rows, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return read_items(path, EmbedItem, Reading(**options))


@pytest.mark.parametrize("kind", CASES)
def test_columns_are_found_by_name(tmp_path, kind):
    rows, label = CASES[kind]
    found = read(tmp_path, rows)
    assert found.kind == kind
    assert [item.kind for item in found.items] == [kind] * len(rows)
    assert found.items[0].label == label
    assert "url" not in found.description


def test_negatives_of_several_columns_or_a_list_are_one_row(tmp_path):
    rows = [{"anchor": "a", "positive": "p", "negative_1": "x", "negative_2": "y"}]
    assert read(tmp_path, rows).items[0].others == ("p", "x", "y")
    rows = [{"query": "a", "pos": "p", "neg": ["x", "y"]}]
    assert read(tmp_path, rows).items[0].others == ("p", "x", "y")


def test_several_positives_are_rows_of_one_group(tmp_path):
    items = read(tmp_path, [{"query": "a", "pos": ["p", "q"], "neg": ["x"]}]).items
    assert [item.others for item in items] == [("p", "x"), ("q", "x")]
    assert {item.group for item in items} == {"a"}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"anchor": "a", "positive": "b", "negative": "a"}, "the anchor is also a negative"),
        ({"anchor": "a", "positive": "b", "negative": "b"}, "the positive is also a negative"),
        ({"anchor": "", "positive": "b"}, "the anchor is empty"),
        ({"anchor": "a", "negative": "b"}, "there is a negative and no positive"),
        ({"anchor": "a", "positive": 3}, "the positive is a number"),
        ({"anchor": "a", "teacher": ["x"]}, "the teacher's number is 'x'; it must be a finite"),
        ({"anchor": "a", "teacher": 0.5}, "is a number; it must be a list of finite numbers"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, row, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, [row])


def test_rows_of_several_kinds_are_told(tmp_path):
    rows = [{"anchor": "a", "positive": "b"}, {"anchor": "c", "positive": "d"}, {"anchor": "e"}]
    with pytest.raises(InputError, match="this row has texts alone, most have pairs of texts"):
        read(tmp_path, rows)


def test_dropped_rows_do_not_count_for_the_kind(tmp_path):
    rows = [{"anchor": f"a {n}", "teacher": [0.5, 1.0]} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [
        {"anchor": "a", "positive": "b", "negative": "c"}, *rows])))  # fmt: skip
    bad = BadRows(skip=True)
    found = read_items(tmp_path / "rows.jsonl", EmbedItem, Reading(), bad=bad)
    assert (found.kind, len(found.items), len(bad.rows)) == ("vectors", 3, 1)


def test_a_score_that_is_no_number(tmp_path):
    (tmp_path / "rows.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1.5\nc\td\tnan\n")
    bad = BadRows(skip=True)
    found = read_items(tmp_path / "rows.tsv", EmbedItem, Reading(), bad=bad)
    assert [item.label for item in found.items] == [1.5]


def test_a_headless_file_is_shown_its_columns(tmp_path):
    rows = [f"some words {n}\tother words {n}\t{n % 5}.0" for n in range(12)]
    (tmp_path / "rows.tsv").write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match="--columns anchor=1,positive=2,label=3"):
        read_items(tmp_path / "rows.tsv", EmbedItem, Reading())
    named = {"anchor": "1", "positive": "2", "label": "3"}
    found = read_items(tmp_path / "rows.tsv", EmbedItem, Reading(columns=named, header=False))
    assert found.kind == "scores"
    assert len(found.items) == 12


def test_a_text_meets_all_of_its_class():
    texts = {"x": "abcd", "y": "ef", "z": "g"}
    items = [EmbedItem(text, label=label) for label, several in texts.items() for text in several]
    pairs = ClassPairs.of([*items, items[0]])
    rows = pairs.paired([*items, items[0]])
    assert [row.anchor for row in rows] == [*"abcdef", "a"]  # z has one text
    for row in rows:
        met = [pairs(row, epoch, 0).others[0] for epoch in range(len(texts[row.group]) - 1)]
        assert sorted([row.anchor, *met]) == sorted(texts[row.group])
        assert row == pairs(row, 0, 0) == pairs(row, len(met), 0)


def test_teachers_of_other_widths_are_named(tmp_path):
    file = tmp_path / "rows.jsonl"
    widths = [3, 3, 2, 3]
    file.write_text("".join(json.dumps({"text": "a", "teacher": [1.0] * n}) + "\n" for n in widths))
    words = r"line 3: the teacher's vector has 2 numbers, and most have 3; give vectors of one"
    with pytest.raises(InputError, match=words):
        read_items(file, EmbedItem)
    assert len(read_items(file, EmbedItem, bad=BadRows(skip=True)).items) == 3


def test_lines_of_a_text_file_are_texts_alone(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("a cat\n\na dog, or two\n")
    read = read_items(file, EmbedItem)
    assert [item.texts for item in read.items] == [("a cat",), ("a dog, or two",)]
    assert read.kind == "texts"
    with pytest.raises(SettingError, match=r"each line of .*texts\.txt is a text"):
        read_items(file, EmbedItem, Reading(columns={"anchor": "text"}))
