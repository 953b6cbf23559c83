"""Cells and how they are written: quoted or not, and by what they are separated."""

import csv
import io

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.tables import read_table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import SettingError, UnknownName
from clozeworks.tasks.classify import TextItem

pytestmark = pytest.mark.usefixtures("folder")

TAKEN_OFF = "Quotation marks around cells are taken off; --quoting none keeps them."
KEPT = "Quotation marks around cells are part of them; --quoting double takes them off."
TEXTS = ["plain", 'He said "yes".', "two\nlines", "a\ttab", '"quoted"', "", 'six " of one']
LABELS = ["good", "bad", "good", "bad", "good", "bad", "good"]


def rows(path, **options):
    table = read_table(path, FileFormat(**options))
    return [table.names, *(tuple(cells) for _, cells in table.rows)]


@pytest.mark.parametrize("separator", [None, ";", "|", ","])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_what_pandas_writes_is_read_again(tmp_path, separator, quoting):
    frame = pandas.DataFrame({"text": TEXTS, "label": LABELS, "n": range(7)})
    path = tmp_path / "a.tsv"
    frame.to_csv(path, sep=separator or "\t", index=False, quoting=quoting)
    read = rows(path, separator=separator)
    assert read[0] == ("text", "label", "n")
    assert [row[0] for row in read[1:]] == TEXTS and [row[1] for row in read[1:]] == LABELS
    assert [row[2] for row in read[1:]] == list("0123456")


@pytest.mark.parametrize("text", [text for text in TEXTS[1:] if text])
def test_one_cell_that_needs_quotation_marks_shows_them(tmp_path, text):
    frame = pandas.DataFrame({"text": ["x", text, "y"], "label": [1, 0, 1]})
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    assert [row[0] for row in rows(tmp_path / "a.tsv")[1:]] == ["x", text, "y"]


PLAIN = {
    "a mark that never ends": 'text\tlabel\n"It is good\t1\nx\t0\n',
    "two that would be a cell over lines": 'text\tlabel\n"It is\t1\nx\t0\nthe end"\t0\n',
    "marks within": 'text\tlabel\nhe said "yes" to it\t1\n"No," she said\t0\n',
    "whole sentences": 'text\tlabel\n"It is good."\t1\n"It is bad," he said.\t0\n',
    "a whole sentence alone": 'text\tlabel\n"It is good."\t1\nIt is bad.\t0\n',
    "one column": 'text\n"It is\ngood"\n',
    "inches": 'text\tlabel\na 12" disc\t1\n"\t0\n""\t0\n',
}


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_marks_of_plain_tables_are_part_of_the_texts(save, content):
    read = rows(save("a.tsv", content))
    assert read == [tuple(line.split("\t")) for line in content.splitlines()]


def test_what_was_taken_is_stated(save, labelled_rows):
    quoted = 'text\tlabel\n"two\nlines"\tgood\n"say ""x"""\tbad\n'
    read = labelled_rows(save("a.tsv", quoted))
    assert [item.text for item in read.items] == ["two\nlines", 'say "x"']
    assert read.description.endswith(f"; the label is one name. {TAKEN_OFF}")
    assert read.notes == (TAKEN_OFF,)
    read = labelled_rows(save("b.tsv", PLAIN["a whole sentence alone"]))
    assert read.description.endswith(f"; the label is one name. {KEPT}")
    assert labelled_rows(save("c.tsv", PLAIN["a mark that never ends"])).notes == ()
    assert labelled_rows(save("d.csv", 'text,label\n"a, b",good\nc,bad\n')).notes == ()


def test_a_person_decides(save, complaint):
    path = save("a.tsv", PLAIN["a whole sentence alone"])
    assert rows(path, quoting="double")[1] == ("It is good.", "1")
    quoted = save("b.tsv", 'text\tlabel\n"a ""b"""\t1\nc\t0\n')
    assert rows(quoted)[1] == ('a "b"', "1")
    assert rows(quoted, quoting="none")[1] == ('"a ""b"""', "1")
    plain = save("c.csv", 'text,label\n"yes,1\nno" or so,0\n')
    assert rows(plain, quoting="none")[1] == ('"yes', "1")
    assert complaint(rows, plain).endswith("or say --quoting none if they are part of the texts.")


def test_torn_rows_name_the_way_out(save, complaint):
    torn = save("a.tsv", 'text\tlabel\n"two\nlines"\tgood\nhe said "no" to it\tbad\n')
    assert complaint(rows, torn) == (
        "a.tsv, row 2: there is 1 cell; the first row has 2; take tabs and line ends out of the "
        "texts, or say --quoting double if quotation marks stand around them."
    )


def test_other_separators(save, complaint):
    assert rows(save("a.csv", 'text;label\n"a;b";1\nc, d;0\n'), separator=";") == [
        ("text", "label"),
        ("a;b", "1"),
        ("c, d", "0"),
    ]
    for separator in ("\t", "tab", "\\t"):
        assert rows(save("b.csv", "text\tlabel\nx\t1\n"), separator=separator)[1] == ("x", "1")
    assert rows(save("c.tsv", 'a ||| b\n"x ||| 1\n'), separator=" ||| ")[1] == ('"x', "1")
    message = complaint(rows, save("d.csv", "text,label\nx,a|b\n"), separator="|")
    assert message == (
        "d.csv, row 1: this is one cell, 'text,label'; '|' separates cells; say what does with "
        "--separator ','; between several labels of a cell it is --label-separator."
    )
    assert complaint(rows, save("e.csv", "a;b\n1;2;3\n"), separator=";") == (
        "e.csv, row 2: there are 3 cells; the first row has 2; put quotation marks around a text "
        "with ';' in it."
    )


def test_separators_that_cannot_be(save):
    for options, message in (
        ({"separator": ""}, "separator is empty; it must be what stands between cells, such as ; "),
        ({"separator": "\n"}, r"separator is '\\n'; it must be what stands between cells"),
        (
            {"separator": "||", "quoting": "double"},
            r"separator is '\|\|'; cells in quotation marks are separated by one character; choose",
        ),
        ({"quoting": "single"}, "quoting is 'single'; it must be one of 'auto', 'none', 'double'"),
        ({"max_row_length": 0}, "max_row_length is 0; it must be at least 1"),
        ({"bad_bytes": "drop"}, "bad_bytes is 'drop'; it must be one of 'refuse', 'replace'"),
    ):
        with pytest.raises(SettingError, match=message):
            FileFormat(**options)
    path = save("a.jsonl", '{"text": "x"}\n')
    for name, value in (("separator", ";"), ("quoting", "none")):
        with pytest.raises(SettingError) as caught:
            read_table(path, FileFormat(**{name: value}))
        assert str(caught.value) == (
            f"{name} is {value!r}; a.jsonl is read as .jsonl, which has no cells; leave `{name}` "
            "out, or name the format."
        )


def test_any_suffix_can_be_read(save, complaint):
    content = "text\tlabel\nx\t1\n"
    for name in ("a.txt", "a.dat", "a", "a.csv"):
        assert rows(save(name, content), format="tsv")[1] == ("x", "1")
    assert rows(save("a.tab", content))[1] == ("x", "1")
    for name in ("a.ndjson", "a.jl"):
        assert rows(save(name, '{"text": "x"}\n{"text": "y"}\n')) == [("text",), ("x",), ("y",)]
    with pytest.raises(UnknownName, match=r"^format is 'xml'; known: csv, json, jsonl, parquet, "):
        rows(save("a.txt", content), format="xml")


@pytest.mark.parametrize(
    ("content", "guess"),
    [
        ("text\tlabel\nx\t1\n", "tsv"),
        ("text,label\nx,1\n", "csv"),
        ('{"text": "x"}\n{"text": "y"}\n', "jsonl"),
        ('[{"text": "x"}]', "json"),
        ('{\n "data": []}', ""),
        ("x\ny\n", ""),
        ("", ""),
        (b"\xff\xfe\x00", ""),
    ],
)
def test_an_unknown_suffix_names_the_format(save, complaint, content, guess):
    message = complaint(rows, save("a.dat", content))
    say = "say what it is with --format, such as --format csv"
    if guess:
        say = f"it looks like {guess}: say --format {guess}"
    assert message == (
        "a.dat has the suffix '.dat'; known: .csv, .tsv, .jsonl, .json, .parquet, all but .parquet "
        f"also with .gz, .bz2, .xz, .zst; {say}, or convert it."
    )


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
cell = st.one_of(st.text(characters), st.text(st.sampled_from('ab"\t\n ')))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(cell, st.sampled_from(["0", "1"])), min_size=1))
def test_every_table_with_tabs_that_a_program_writes(save, pairs):
    written = io.StringIO()
    csv.writer(written, delimiter="\t", lineterminator="\n").writerows([("text", "label"), *pairs])
    assert rows(save("a.tsv", written.getvalue()), quoting="double")[1:] == pairs
    lines = [line for line in written.getvalue().split("\n") if line]
    if any('"' in text for text, _ in pairs) or any(line.count("\t") != 1 for line in lines):
        assert rows(save("a.tsv", written.getvalue()))[1:] == pairs


@pytest.fixture
def labelled_rows():
    """Reads labelled texts."""
    return lambda path, **options: read_items(path, TextItem, Reading(**options), bad=BadRows())
