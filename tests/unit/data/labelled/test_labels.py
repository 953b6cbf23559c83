"""What kind labels are, what a cell says, and whether one can learn from them."""

import json

import pytest

from clozeworks.data.labelled.labels import (
    check_labels,
    kind_of_labels,
    label_set,
    ordered,
    read_label,
    shown,
)
from clozeworks.errors import InputError


@pytest.fixture
def rows(labelled):
    """Reads objects with these labels and texts of their own."""

    def read(*labels, name="a.jsonl", **options):
        lines = (json.dumps({"text": f"t{n}", "label": v}) for n, v in enumerate(labels))
        return labelled(name, "\n".join(lines), **options)

    return read


def refused(sentence, *parts):
    with pytest.raises(InputError) as caught:
        check_labels(*parts)
    assert str(caught.value) == sentence


def test_kinds():
    assert kind_of_labels(["0", "1", "1"]) == "one"
    assert kind_of_labels([0, 1.0, True]) == "one"
    assert kind_of_labels(["3.5", "4", "0"]) == "numbers"
    assert kind_of_labels([0.5, 1, None]) == "numbers"
    assert kind_of_labels(["v1.5", "2"]) == "one"
    assert kind_of_labels(["1_2.5", "2"]) == "one"
    assert kind_of_labels(["1.5", "a", "b"]) == "one"
    assert kind_of_labels(["nan", "inf", "1"]) == "one"
    assert kind_of_labels(["1.5"] * 20 + ["3,5"]) == "numbers"
    assert kind_of_labels([["a"], [], "b"]) == "several"
    assert kind_of_labels(["a|b"], "|") == "several"
    assert kind_of_labels(["a|b"]) == "one"
    assert kind_of_labels([None, " ", float("nan")]) == "none"


def test_names(rows):
    assert [i.label for i in rows(" a ", 1, 2.0, True, 0.5).items] == ["a", "1", "2", "true", "0.5"]
    read = rows(["b", 1, "b"], [], ["a"])
    assert (read.kind, [item.label for item in read.items]) == ("several", [("b", "1"), (), ("a",)])


def test_numbers_if_asked(rows):
    read = rows("1", 2, "3.5", labels="numbers")
    assert (read.kind, [item.label for item in read.items]) == ("numbers", [1.0, 2.0, 3.5])
    assert rows("1.5", "2.5", labels="one").items[0].label == "1.5"


def test_labels_of_another_kind(labelled, bad):
    header = "text,label\n"
    bad(
        *(
            "a.csv, row 3",
            "the label is '3,5'; it must be a number; write it with a point, like 3.5",
        ),
        *("a.csv", header + 'x,1\ny,"3,5"\n'),
        labels="numbers",
    )
    bad(
        *("a.csv, row 22", "the label is 'inf'; it must be a number; write it, like 3.5"),
        *("a.csv", header + "x,1.5\n" * 20 + "y,inf\n"),
    )
    bad(
        *("a.csv, row 22", "the label is empty; give it a number"),
        *("a.csv", header + "x,1.5\n" * 20 + "y,\n"),
    )
    lists = '{"text": "x", "label": ["a"]}\n{"text": "y", "label": ["b"]}\n'
    bad(
        *("a.jsonl, line 3", "the label is a string; others are lists; write a list"),
        *("a.jsonl", lists + '{"text": "z", "label": "a"}\n'),
    )
    bad(
        *("a.jsonl, line 3", "a label is empty; it must be a string or a number; correct it"),
        *("a.jsonl", lists + '{"text": "z", "label": [""]}\n'),
    )
    bad(
        *("a.jsonl, line 3", "the label is empty; give it a list"),
        *("a.jsonl", lists + '{"text": "z", "label": null}\n'),
    )
    bad(
        *("a.jsonl, line 1", "a label is an object; it must be a string or a number; correct it"),
        *("a.jsonl", '{"text": "z", "label": {}}\n{"text": "y", "label": "a"}\n'),
    )
    bad(
        *("a.jsonl, line 1", "the label is true; it must be a number; write it, like 3.5"),
        *("a.jsonl", '{"text": "z", "label": true}\n{"text": "y", "label": 1}\n'),
        labels="numbers",
    )


def test_labels_of_thousands_of_digits(labelled):
    long = "1" * 4301
    items = labelled("a.csv", f"text,label\nx,{long}\ny,2\n").items
    assert label_set(items) == (long, "2")
    huge = 10**400
    assert kind_of_labels([huge, 2]) == "one"
    with pytest.raises(ValueError, match="a label is a number of more than 300 digits; correct it"):
        read_label(huge, "one")
    with pytest.raises(ValueError, match=r"it must be a number; write it, like 3\.5"):
        read_label(huge, "numbers")


def test_order(rows):
    assert ordered(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert ordered(["10", "9", "x"]) == ("10", "9", "x")
    assert ordered(["b", "B", "ä"]) == ("B", "b", "ä")
    assert label_set(rows(2, 10, 1).items) == ("1", "2", "10")
    assert label_set(rows(["b", "a"], ["c"]).items) == ("a", "b", "c")


class TestLearnable:
    def test_labels(self, rows):
        train = rows("b", "a", "b", "a")
        checked = check_labels(train, rows("a", name="d.jsonl"))
        assert (checked.labels, checked.warnings) == (("a", "b"), ())
        assert check_labels(rows(["a"], ["a"], [])).labels == ("a",)
        assert check_labels(rows(0.5, 1.5)).labels == ()

    def test_seen_once(self, rows):
        assert check_labels(rows("b", "a", "b")).warnings == (
            "The label 'a' stands in one row of a.jsonl; that is too little to learn from.",
        )
        assert check_labels(rows("b", "a")).warnings == (
            "These labels stand in one row each of a.jsonl: a, b; that is too little to learn "
            "from.",
        )

    def test_no_labels(self, labelled):
        refused(
            "a.csv has no labels, and training needs them; name their column with --columns "
            "label=NAME. Columns: text=text (by its name); no column looks like the label.",
            labelled("a.csv", "text,other\nx,1\n"),
        )
        refused(
            "a.csv has no labels, and training needs them; name their column with --columns "
            "label=NAME. Columns: text=text (by its name), label=label (by its name); the label is "
            "empty everywhere.",
            labelled("a.csv", "text,label\nx,\n"),
        )
        refused(
            "a.bio has no labels, and training needs them; name their column with --columns "
            "tags=NAME. Columns: words=1 (by its place).",
            labelled("a.bio", "x\ny\n", "tag"),
        )
        assert check_labels(labelled("a.txt", "x\n", "fill")).labels == ()

    def test_one_label(self, rows, labelled):
        refused(
            "a.jsonl: the only label is 'a'; there must be at least two to learn from; add rows "
            "with others.",
            rows("a", "a"),
        )
        refused(
            "a.jsonl: no row has any label; there must be at least one to learn from; add rows "
            "with others.",
            rows([], []),
        )
        refused(
            "a.jsonl: every label is 1.5; there is nothing to learn; add rows with other numbers.",
            rows(1.5, 1.5),
        )
        refused(
            "a.bio: the only label is 'O'; there must be at least two to learn from; add rows with "
            "others.",
            labelled("a.bio", "x O\ny O\n", "tag"),
        )

    def test_development_asks_more(self, rows, labelled):
        refused(
            "d.jsonl, line 2: the label 'c' does not occur in the training data, which has: a, b; "
            "correct it, or add such rows to the training data.",
            *(rows("a", "b"), rows("a", "c", name="d.jsonl")),
        )
        refused(
            "d.jsonl has several labels per row, and a.jsonl has one label per row; both must be "
            "of one kind; correct one, or name the column of the label with --columns.",
            *(rows("a", "b"), rows(["a"], name="d.jsonl")),
        )
        train = labelled("a.bio", "x B-PER\ny O\n\n", "tag")
        assert check_labels(train, labelled("d.bio", "x S-PER\ny O\n", "tag")).labels == (
            *("B-PER", "O"),
        )
        refused(
            "d.bio, line 1: the type 'LOC' does not occur in the training data, which has: O, PER; "
            "correct it, or add such rows to the training data.",
            *(train, labelled("d.bio", "x O\ny B-LOC\n", "tag")),
        )

    def test_many_labels_are_cut(self, rows):
        train = rows(*(f"l{number:02}" for number in range(20)))
        assert "l11 and 8 more; that is" in check_labels(train).warnings[0]


def test_long_labels_are_shown_in_part():
    assert shown(["a", "9" * 4301]) == f"a, {'9' * 59}…"
