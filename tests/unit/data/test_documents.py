"""Documents of every format: what one is, where its text is, what is said if it is not there."""

import csv
import json
import sys
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from clozeworks.data.files import documents as module
from clozeworks.data.files.documents import Document, read_documents
from clozeworks.data.files.file_format import LONGEST_ROW, FileFormat
from clozeworks.errors import InputError, MissingExtra, UnknownName

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def read(save):
    """Writes a file and reads its documents."""

    def read_saved(name, content, max_row_length=LONGEST_ROW, **options):
        file_format = FileFormat(max_row_length=max_row_length)
        return list(read_documents(save(name, content), file_format=file_format, **options))

    return read_saved


@pytest.fixture
def texts(read):
    return lambda *arguments, **options: [found.text for found in read(*arguments, **options)]


@pytest.fixture
def table():
    """Writes a parquet file."""

    def write(columns, **options):
        parquet.write_table(pyarrow.table(columns), "a.parquet", **options)
        return Path("a.parquet")

    return write


def lines(*objects):
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in objects)


class TestText:
    content = "\n \none\n two \n\nthree\n\t\n\n\nfour"

    def test_blank_lines_stand_between_documents(self, read):
        assert read("a.txt", self.content) == [
            Document("one\n two ", "a.txt", 3),
            Document("three", "a.txt", 6),
            Document("four", "a.txt", 10),
        ]

    def test_each_line_is_one(self, read):
        assert read("a.txt", self.content, documents="line") == [
            Document("one", "a.txt", 3),
            Document(" two ", "a.txt", 4),
            Document("three", "a.txt", 6),
            Document("four", "a.txt", 10),
        ]

    def test_the_file_is_one(self, read):
        assert read("a.txt", self.content + "\n \n\n", documents="file") == [
            Document("one\n two \n\nthree\n\t\n\n\nfour", "a.txt", 3)
        ]

    @pytest.mark.parametrize("documents", ["blank-line", "line", "file"])
    @pytest.mark.parametrize("content", ["", "\n", " \n\u3000\n", "\ufeff"])
    def test_nothing(self, read, content, documents):
        assert read("a.txt", content, documents=documents) == []

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_ends_of_lines(self, read, end):
        content = end.join(["one", "two", "", "three", ""])
        assert read("a.txt", content) == [
            Document("one\ntwo", "a.txt", 1),
            Document("three", "a.txt", 4),
        ]

    def test_separators_inside_texts_stay(self, texts):
        content = "a\u2028b\x0cc\x85d\x1ee\u2029f"
        assert texts("a.txt", content, documents="line") == [content]

    def test_a_document_that_does_not_end(self, read, complaint, monkeypatch):
        monkeypatch.setattr(module, "LONGEST_DOCUMENT", 10)
        assert complaint(read, "a.txt", "\none\ntwo\nthree\n") == (
            "a.txt, line 2: the document that begins here has more than 10 characters; a document "
            "must fit in memory; put blank lines between documents, or make each line one with "
            "--documents line."
        )
        assert len(read("a.txt", "one\ntwo\n\nsix\nten\n")) == 2

    def test_columns_are_for_others(self, read, complaint):
        assert complaint(read, "a.txt", "one\n", columns=["text"]) == (
            "a.txt has no columns, and --column is 'text'; a .txt file is nothing but text; "
            "leave out --column."
        )

    def test_another_way_to_part_documents(self, read):
        with pytest.raises(UnknownName) as caught:
            read("a.txt", "one\n", documents="lines")
        assert str(caught.value) == (
            "documents is 'lines'; known: blank-line, file, line. Did you mean 'line'?"
        )


class TestJson:
    def test_one_document_per_line(self, read):
        content = lines({"text": "one\ntwo", "id": 1}, {"text": "三\u2028"}) + "\n" + '"four"\n'
        assert read("a.jsonl", content[: content.rindex('"four"')]) == [
            Document("one\ntwo", "a.jsonl", 1),
            Document("三\u2028", "a.jsonl", 2),
        ]

    def test_strings(self, texts):
        assert texts("a.jsonl", '"one"\n\n"two"\n') == ["one", "two"]

    def test_blank_ones_are_left_out(self, read):
        content = lines({"text": ""}, {"text": None}, {"text": " \n"}, {"text": "one"})
        assert read("a.jsonl", content) == [Document("one", "a.jsonl", 4)]

    def test_the_only_string_is_the_text(self, texts):
        content = lines({"id": 1, "content": "one"}, {"id": 2, "content": "two"})
        assert texts("a.jsonl", content) == ["one", "two"]

    def test_text_goes_before_a_guess(self, complaint, read):
        content = lines({"text": None, "title": "one"}, {"text": 3, "title": "two"})
        assert complaint(read, "a.jsonl", content) == (
            "a.jsonl, line 2: the field 'text' is a number; it must be a string; choose another "
            "field with --column, or put quotation marks around it."
        )

    def test_several_strings(self, complaint, read):
        content = lines({"title": "one", "texts": "two", "id": 3})
        assert complaint(read, "a.jsonl", content) == (
            "a.jsonl, line 1 has no field 'text'; its fields: title, texts, id; "
            "choose one with --column. Did you mean 'texts'?"
        )

    def test_several_columns_are_lines(self, read):
        content = lines({"a": "one\r\nmore\nthan that", "b": "two", "c": "three"})
        assert read("a.jsonl", content, columns=["c", "a"]) == [
            Document("three\none more than that", "a.jsonl", 1)
        ]

    def test_one_of_several_is_blank(self, read, complaint):
        content = lines({"a": "", "b": None}, {"a": "one", "b": " "})
        assert complaint(read, "a.jsonl", content, columns=["a", "b"]) == (
            "a.jsonl, line 2: 'b' is blank; each of several columns is a line of the document; "
            "fill it in, or drop the line."
        )

    def test_ends_of_lines_inside(self, texts):
        assert texts("a.jsonl", lines({"text": "a\r\nb\rc"})) == ["a\nb\nc"]

    def test_half_a_character(self, complaint, read):
        content = '{"text": "a"}\n{"text": "\\ud83d\\ude00"}\n{"text": "b\\ud83d"}\n'
        assert complaint(read, "a.jsonl", content) == (
            "a.jsonl, line 3: the text holds the lone surrogate \\ud83d; that is half a "
            "character; write the whole character."
        )

    def test_a_zero_character(self, complaint, read):
        assert complaint(read, "a.jsonl", '{"text": "a\\u0000b"}\n') == (
            "a.jsonl, line 1: the text holds the character U+0000; it does not occur in text; "
            "take it out."
        )

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (
                '{"text": "a"}\n{"text": \n',
                "a.jsonl, line 2, character 10: this is not valid JSON (Expecting value); "
                "write one whole JSON object per line.",
            ),
            ("[1]\n", "a.jsonl, line 1: this is a list; it must be an object with a text; fix it."),
            (
                '{"body": "a"}\n"b"\n',
                "a.jsonl, line 2 has no field 'body'; its fields: text; choose one with --column.",
            ),
            (
                '{"text": "a"}\n{"Text": "b"}\n',
                "a.jsonl, line 2 has no field 'text'; its fields: Text; choose one with --column. "
                "Did you mean 'Text'?",
            ),
        ],
    )
    def test_refusals(self, complaint, read, content, expected):
        assert complaint(read, "a.jsonl", content) == expected

    def test_what_came_before_is_given(self, save):
        found = read_documents(save("a.jsonl", '{"text": "one"}\n{"text": \n'))
        assert next(found).text == "one"
        with pytest.raises(InputError):
            next(found)


class TestTables:
    def test_a_row_is_a_document(self, read):
        content = 'id,text\n1,one\n\n2,"two, ""quoted""\r\nlines"\n3,\n4,four\n'
        assert read("a.csv", content) == [
            Document("one", "a.csv", 2),
            Document('two, "quoted"\nlines', "a.csv", 4),
            Document("four", "a.csv", 6),
        ]

    def test_tabs(self, read):
        assert read("a.tsv", 'text\tid\n"one"\t1\n\ntwo\t2\n') == [
            Document('"one"', "a.tsv", 2),
            Document("two", "a.tsv", 4),
        ]

    def test_several_columns_are_lines(self, texts):
        content = 'a,b,c\none,"two\nmore",three\n'
        assert texts("a.csv", content, columns=["b", "a"]) == ["two more\none"]

    def test_one_of_several_is_blank(self, complaint, read):
        assert complaint(read, "a.csv", "a,b\none,two\n,four\n", columns=["a", "b"]) == (
            "a.csv, row 3: 'a' is blank; each of several columns is a line of the document; "
            "fill it in, or drop the row."
        )

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", "review\none\n"),
            ("a.csv", "id,review,score\n1,one,0.5\n"),
            ("a.tsv", "id\treview\tscore\n1\tone\t\n"),
        ],
    )
    def test_the_only_column_of_words(self, texts, name, content):
        assert texts(name, content) == ["one"]

    def test_several_columns_of_words(self, complaint, read):
        assert complaint(read, "a.csv", "title,body\none,two\n") == (
            "a.csv, row 1 has no column 'text'; its columns: title, body; choose one with --column."
        )

    def test_a_column_that_is_not_there(self, complaint, read):
        assert complaint(read, "a.csv", "title,body\n", columns=["bodi"]) == (
            "a.csv, row 1 has no column 'bodi'; its columns: title, body; choose one with "
            "--column. Did you mean 'body'?"
        )

    def test_a_column_that_is_there_twice(self, complaint, read):
        assert complaint(read, "a.csv", "text,text\none,two\n") == (
            "a.csv, row 1 has 2 columns 'text'; a name must be unique; rename the others, or give "
            "the number of one: --column 1."
        )

    def test_another_separator(self, complaint, read):
        assert complaint(read, "a.csv", "id;text\n1;one\n") == (
            "a.csv, row 1: this is one cell, 'id;text'; a comma separates cells; say what does "
            "with --separator ';'."
        )

    def test_cells_missing(self, complaint, read):
        assert complaint(read, "a.csv", "id,text\n1,one\n2\n") == (
            "a.csv, row 3: there is 1 cell; the first row has 2; put quotation marks around a text "
            "with commas in it."
        )

    def test_an_open_quotation_mark(self, complaint, read):
        assert complaint(read, "a.csv", 'text\none\n"two\nthree\n').startswith(
            "a.csv, row 3: the quotation marks do not match ("
        )

    def test_an_open_quotation_mark_in_a_large_file(self, complaint, read):
        content = "text\n" + "one\n" * 50 + '"two\n' + "three\n" * 50
        assert complaint(read, "a.csv", content, max_row_length=100) == (
            "a.csv, row 52 has more than 100 characters; a row must fit in memory; check that each "
            "quotation mark is closed, read them as text with --quoting none, or raise "
            "--max-row-length."
        )

    def test_long_cells_and_the_limit_of_the_process(self, save, texts):
        before = csv.field_size_limit()
        long = "a" * (before + 1)
        found = read_documents(save("a.csv", f"text\n{long}\n{long}\n"))
        assert next(found).text == long
        assert csv.field_size_limit() == before
        assert next(found).text == long
        assert texts("b.csv", f"text\n{long}\n") == [long]

    @pytest.mark.parametrize("content", ["", "text\n", "text\n\n\n", "\n\n"])
    def test_no_rows(self, read, content):
        assert read("a.csv", content) == []


class TestParquet:
    def test_rows_over_groups(self, table):
        found = [f"text {number}" for number in range(300)]
        path = table({"text": found, "id": list(range(300))}, row_group_size=70)
        read = list(read_documents(path))
        assert [document.text for document in read] == found
        assert [document.line for document in read] == list(range(1, 301))
        assert read[0].origin == "a.parquet"

    def test_blank_ones_are_left_out(self, table):
        read = list(read_documents(table({"text": [None, "", " ", "a\r\nb"]})))
        assert read == [Document("a\nb", "a.parquet", 4)]

    def test_several_columns_are_lines(self, table):
        path = table({"a": ["one"], "b": ["two"], "c": [["x"]]})
        assert [found.text for found in read_documents(path, columns=["b", "a", "b"])] == [
            "two\none\ntwo"
        ]

    def test_the_only_column_of_strings(self, table):
        path = table({"id": [1], "content": pyarrow.array(["one"]).dictionary_encode()})
        assert [found.text for found in read_documents(path)] == ["one"]

    @pytest.mark.parametrize(
        ("columns", "asked", "expected"),
        [
            (
                {"a": ["x"], "b": ["y"]},
                None,
                "a.parquet has no column 'text'; its columns: a, b; choose one with --column.",
            ),
            (
                {"id": [1]},
                ["id"],
                "a.parquet: the column 'id' holds int64; it must hold strings; choose another "
                "with --column, or convert it.",
            ),
            (
                {"text": ["a", "b\0"]},
                None,
                "a.parquet, row 2: the text holds the character U+0000; it does not occur in "
                "text; take it out.",
            ),
        ],
    )
    def test_refusals(self, complaint, table, columns, asked, expected):
        path = table(columns)
        assert complaint(lambda: list(read_documents(path, columns=asked))) == expected

    def test_text_that_is_none(self, complaint, table):
        raw = pyarrow.array([b"good", b"caf\xe9"], pyarrow.binary())
        path = table({"text": raw.view(pyarrow.string())})
        assert complaint(lambda: list(read_documents(path))) == (
            "a.parquet, row 2: the text is not valid UTF-8, which strings in parquet files must "
            "be; write the file again."
        )

    def test_damaged(self, complaint, table):
        data = table({"text": ["one"] * 1000}).read_bytes()
        for broken in (b"", b"not parquet at all", data[:-100], data[:4] + data[40:]):
            Path("b.parquet").write_bytes(broken)
            message = complaint(lambda: list(read_documents(Path("b.parquet"))))
            assert message.startswith("b.parquet is damaged or not a parquet file (")
            assert message.endswith("); copy or download it again.")

    def test_missing(self, complaint):
        assert complaint(lambda: list(read_documents("a.parquet"))) == (
            "a.parquet does not exist; check the name and the folder."
        )

    def test_its_library_is_missing(self, table, monkeypatch):
        path = table({"text": ["one"]})
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingExtra) as caught:
            list(read_documents(path))
        assert str(caught.value) == (
            "Reading parquet needs the library 'pyarrow', which is not installed; "
            "install it with: pip install 'clozeworks[parquet]'."
        )

    def test_how_far_it_is(self, table):
        told = []
        path = table({"text": ["one"] * 200})
        list(read_documents(path, position=told.append))
        assert told == sorted(told)
        assert told[-1] == path.stat().st_size


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]))))
def test_every_format_gives_back_what_was_written(given_texts):
    """The same texts, whatever they hold, come out of every format that can hold them."""
    expected = [text for text in given_texts if text.strip()]
    Path("a.jsonl").write_text(lines(*({"text": text} for text in given_texts)), encoding="utf-8")
    with Path("a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in given_texts)])
    parquet.write_table(pyarrow.table({"text": pyarrow.array(given_texts, "string")}), "a.parquet")
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        assert [found.text for found in read_documents(name)] == expected
