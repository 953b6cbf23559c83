"""Which column is what: by name, by number, by what it holds; and whether there is a header."""

import pytest

from clozeworks.data.labelled.columns import parse_columns
from clozeworks.errors import SettingError, UnknownName
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem

COLA = "source\tlabel\tstar\tsentence\ngj04\t1\t\tThe cat sat.\ngj04\t0\t*\tCat the sat.\n"
SNLI = "1\t1\tA man walks.\tHe moves.\n3\t3\tA dog runs.\tIt sleeps.\n1\t1\tA child.\tAn adult.\n"


def roles(read):
    return {column.role: (column.number, column.how) for column in read.columns}


def test_what_a_person_writes():
    assert parse_columns(" text = review,label=5", TextItem) == {"text": "review", "label": "5"}
    for written in ("text", "text=", ""):
        with pytest.raises(SettingError) as caught:
            parse_columns(written, PairItem)
        assert str(caught.value) == (
            f"--columns is {written!r}; it must name columns or their numbers; write it like "
            "--columns first=1,second=2,label=3."
        )
    with pytest.raises(UnknownName) as caught:
        parse_columns("txt=1", TextItem)
    assert str(caught.value) == (
        "--columns for classify is 'txt'; known: label, text. Did you mean 'text'?"
    )
    with pytest.raises(SettingError, match=r"it names 'text' twice, and a role has one column"):
        parse_columns("text=1,text=2", TextItem)


def test_usual_names_go_first(labelled):
    read = labelled("a.tsv", COLA)
    assert roles(read) == {"text": (4, "known"), "label": (2, "known")}
    assert [item.text for item in read.items] == ["The cat sat.", "Cat the sat."]
    content = "id,Sentence 1,question1,question2,Is-Duplicate\n7,no,a,b,1\n8,no,c,d,0\n"
    read = labelled("a.csv", content, "compare")
    assert [column.name for column in read.columns] == ["question1", "question2", "Is-Duplicate"]


def test_names_and_numbers(labelled):
    content = "stars,summary,review\n1,bad,It broke.\n5,good,It works.\n"
    read = labelled("a.csv", content, columns={"text": "summary", "label": "1"})
    assert roles(read) == {"text": (2, "named"), "label": (1, "named")}
    assert read.description == (
        "Columns: text=summary (as named), label=stars (as named); the label is one name."
    )
    # What is not named is found, and never the same column twice.
    read = labelled("a.csv", content, columns={"label": "review"})
    assert roles(read) == {"text": (2, "content"), "label": (3, "named")}


def test_columns_that_are_not_there(wrong):
    content = "stars,review\n1,bad\n"
    wrong(
        "a.csv has no column 'Revue'; its columns: stars, review; choose one with --columns. "
        "Did you mean 'review'?",
        *("a.csv", content),
        columns={"text": "Revue"},
    )
    wrong(
        "a.csv has no column '3'; its columns: stars, review; choose one with --columns.",
        *("a.csv", content),
        columns={"text": "3"},
    )
    wrong(
        "a.tsv has no column '5'; it has 4 columns and no header; choose one with --columns.",
        *("a.tsv", SNLI),
        columns={"label": "5"},
    )
    wrong(
        "--columns gives column stars of a.csv to text and to label; a column has one role; "
        "correct --columns.",
        *("a.csv", content),
        columns={"text": "1", "label": "stars"},
    )
    wrong(
        "a.csv has 2 columns 'x'; a name must be unique; rename the others, or give the "
        "number of one: --columns text=2.",
        *("a.csv", "label,x,x\n1,a,b\n"),
        columns={"text": "x"},
    )


def test_by_what_they_hold(labelled, wrong):
    rows = "".join(
        f"{n},a comment of some length {n},{'ja' if n % 2 else 'nein'}\n" for n in range(4)
    )
    read = labelled("a.csv", "nummer,kommentar,urteil\n" + rows)
    assert roles(read) == {"text": (2, "content"), "label": (3, "content")}
    assert "text=kommentar (by what it holds)" in read.description
    rows = "".join(f"{n % 2},left text {n},right text {n}\n" for n in range(4))
    read = labelled("a.csv", "urteil,links,rechts\n" + rows, "compare")
    assert roles(read) == {
        "first": (2, "content"),
        "second": (3, "content"),
        "label": (1, "content"),
    }
    wrong(
        "a.csv has no column that looks like the text; its columns: x, label; name it with "
        "--columns text=NAME.",
        *("a.csv", "x,label\n1,a\n2,b\n"),
    )
    wrong(
        "a.jsonl has no column that looks like the first; its columns: text, label; name it with "
        "--columns first=NAME.",
        *("a.jsonl", '{"text": "some text", "label": 1}\n', "compare"),
    )


def test_numbers_of_rows_are_no_labels(labelled):
    read = labelled("a.csv", "id,text\n1,one\n1,two\n2,three\n")
    assert (read.kind, [item.label for item in read.items]) == ("none", [None] * 3)
    assert read.description == "Columns: text=text (by its name); no column looks like the label."


def test_of_two_columns_that_could_be_the_label_none_is_taken(labelled):
    """Which of them is meant only the person knows."""
    rows = "".join(f"a comment of some length {n},{n % 2},{n % 3}\n" for n in range(6))
    read = labelled("a.csv", "kommentar,urteil,herkunft\n" + rows)
    assert (read.kind, [item.label for item in read.items]) == ("none", [None] * 6)
    assert "no column looks like the label" in read.description


class TestHeaders:
    def test_data_where_the_header_should_be(self, wrong):
        say = "or say --header (data.header=true in a recipe)."
        wrong(
            "a.tsv, row 1 looks like data, not like a header ('1' stands in column 1 again); name "
            f"the columns by number, for example --columns first=3,second=4,label=1, {say}",
            *("a.tsv", SNLI, "compare"),
        )
        wrong(
            "a.csv, row 1 looks like data, not like a header ('pos' stands in column 2 again); "
            f"name the columns by number, for example --columns text=1,label=2, {say}",
            *("a.csv", "good film,pos\nbad film,neg\nfine,pos\n"),
        )
        wrong(
            "a.csv, row 1 looks like data, not like a header (column 2 holds numbers, and '4.5' is "
            f"one); name the columns by number, for example --columns text=1,label=2, {say}",
            *("a.csv", "good film,4.5\n"),
        )
        long = "very " * 20
        wrong(
            "a.csv, row 1 looks like data, not like a header (column 1 is 100 characters long); "
            f"name the columns by number, for example --columns text=1,label=2, {say}",
            *("a.csv", f"{long},x\nfine,y\n"),
        )

    def test_numbers_tell_data_from_a_header(self, labelled):
        numbers = {"first": "3", "second": "4", "label": "1"}
        read = labelled("a.tsv", SNLI, "compare", columns=numbers)
        assert (len(read.items), read.items[0].source_location) == (3, "a.tsv, row 1")
        assert read.description == (
            "Columns: first=3 (as named), second=4 (as named), label=1 (as named); there is no "
            "header; the label is one name."
        )
        read = labelled("a.tsv", COLA, columns={"text": "4", "label": "2"})
        assert (len(read.items), read.items[0].source_location) == (2, "a.tsv, row 2")
        content = "kommentar,urteil\ngut,ja\nschlecht,nein\nbesser,ja\n"
        assert len(labelled("a.csv", content, columns={"text": "1", "label": "2"}).items) == 3

    def test_a_label_that_is_a_usual_name_is_data(self, labelled, wrong):
        content = "What is this?,question\nIt is a book.,answer\nWhose is it?,question\n"
        wrong(
            "a.csv, row 1 looks like data, not like a header ('question' stands in column 2 "
            "again); name the columns by number, for example --columns text=1,label=2, or say "
            "--header (data.header=true in a recipe).",
            *("a.csv", content),
        )
        assert len(labelled("a.csv", content, columns={"text": "1", "label": "2"}).items) == 3

    def test_a_year_may_be_a_name(self, labelled):
        content = "2024,urteil\ngood film,ja\nbad film,nein\nfine film,ja\n"
        read = labelled("a.csv", content)
        assert [(column.name, column.how) for column in read.columns] == [
            ("2024", "content"),
            ("urteil", "content"),
        ]

    def test_it_can_be_said(self, labelled):
        content = "0,1\ngood,1\nbad,0\n"
        named = {"text": "1", "label": "2"}
        assert len(labelled("a.csv", content, columns=named).items) == 3
        assert len(labelled("a.csv", content, columns=named, header=True).items) == 2
        assert (
            len(labelled("a.csv", "text,label\ngood,1\n", columns=named, header=False).items) == 2
        )

    def test_other_separators(self, wrong):
        wrong(
            "a.csv, row 1: this is one cell, 'text;label'; a comma separates cells; say what does "
            "with --separator ';'.",
            *("a.csv", "text;label\nx;1\n"),
        )
        wrong(
            "a.csv, row 1: this is one cell, 'text\\tlabel'; a comma separates cells; say what "
            "does with --separator tab.",
            *("a.csv", "text\tlabel\nx\t1\n"),
        )
        long = "x" * 60
        wrong(
            f"a.tsv, row 1: this is one cell, '{long}…'; a tab separates cells; say what does "
            "with --separator ','.",
            *("a.tsv", f"{long},1\n"),
        )
