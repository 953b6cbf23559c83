"""Texts from lines, JSON lines and tables."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.files.texts import SourceLocations, read_texts
from clozeworks.errors import InputError, SettingError

pytestmark = pytest.mark.usefixtures("folder")


class TestLines:
    @pytest.mark.parametrize(
        "content", ["one\ntwo\n", "one\ntwo", "one\r\ntwo\r\n", "one\r\ntwo", "\ufeffone\ntwo\n"]
    )
    def test_one_text_per_line(self, read, content):
        found = read("notes.txt", content)
        assert found.texts == ["one", "two"]
        assert list(found.source_locations) == ["notes.txt, line 1", "notes.txt, line 2"]
        assert found.origin == "notes.txt"
        assert len(found) == 2
        assert found.skipped == 0

    def test_only_line_ends_end_lines(self, read):
        line = "a\u2028b\u0085c\x0cd\x1ee"
        assert read("notes.txt", f"{line}\n").texts == [line]

    def test_spaces_around_a_text_are_kept(self, read):
        assert read("notes.txt", " a \n").texts == [" a "]

    @pytest.mark.parametrize("blank", ["", " ", "\t", "\r", "\u3000"])
    def test_blank_lines_are_refused(self, read, complaint, blank):
        assert complaint(read, "notes.txt", f"one\n{blank}\ntwo\n") == (
            "notes.txt, line 2: the text is blank; "
            "fill it in, or leave out such lines with --skip-blank."
        )

    def test_blank_lines_can_be_skipped_and_places_stay_right(self, read):
        found = read("notes.txt", "one\n\n  \nfour\n\n", skip_blank=True)
        assert found.texts == ["one", "four"]
        assert list(found.source_locations) == ["notes.txt, line 1", "notes.txt, line 4"]
        assert found.skipped == 3

    def test_a_file_of_blank_lines_has_no_texts(self, read, complaint):
        assert complaint(read, "notes.txt", "\n \n", skip_blank=True) == (
            "notes.txt holds only blank lines; there must be at least one text; check the file."
        )

    def test_lines_have_no_columns(self, read, complaint):
        assert complaint(read, "notes.txt", "one\n", column="body") == (
            "notes.txt has no columns, and --column is 'body'; a .txt file is nothing but text; "
            "leave out --column."
        )

    @given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"])), min_size=1))
    def test_what_was_written_is_read(self, texts):
        expected = [text for text in texts if text.strip()]
        stream = io.BytesIO("".join(f"{text}\n" for text in ["x", *texts]).encode())
        assert read_texts(stream, skip_blank=True).texts == ["x", *expected]


class TestPlaces:
    def test_they_are_made_when_asked_for(self):
        places = SourceLocations(range(2, 10_000_002), "reviews.csv, row {:,}".format)
        assert len(places) == 10_000_000
        assert places[8_410] == "reviews.csv, row 8,412"
        assert places[-1] == "reviews.csv, row 10,000,001"
        assert list(places[:2]) == ["reviews.csv, row 2", "reviews.csv, row 3"]


class TestJsonLines:
    def test_objects_and_strings(self, read):
        found = read("posts.jsonl", '{"id": 1, "text": "one"}\r\n"two"\n{"text": "\\ud83d\\ude00"}')
        assert found.texts == ["one", "two", "😀"]
        assert found.source_locations[2] == "posts.jsonl, line 3"

    def test_another_field(self, read):
        assert read("posts.jsonl", '{"body": "one", "text": 3}\n', column="body").texts == ["one"]

    def test_a_missing_field_lists_the_others(self, read, complaint):
        lines = '{"body": "a", "text": "b"}\n{"body": "a", "Texts": "b"}\n'
        assert complaint(read, "posts.jsonl", lines) == (
            "posts.jsonl, line 2 has no field 'text'; its fields: body, Texts; "
            "choose one with --column. Did you mean 'Texts'?"
        )
        assert complaint(read, "posts.jsonl", "{}") == (
            "posts.jsonl, line 1 has no field 'text'; its fields: none; choose one with --column."
        )

    @pytest.mark.parametrize(
        ("value", "name"),
        [("3.5", "a number"), ("[]", "a list"), ("{}", "an object"), ("true", "true")],
    )
    def test_the_field_must_be_a_string(self, read, complaint, value, name):
        assert complaint(read, "posts.jsonl", f'{{"text": {value}}}') == (
            f"posts.jsonl, line 1: the field 'text' is {name}; it must be a string; "
            "choose another field with --column, or put quotation marks around it."
        )

    def test_a_line_must_be_an_object_or_a_string(self, read, complaint):
        assert complaint(read, "posts.jsonl", '["a"]\n') == (
            "posts.jsonl, line 1: this is a list; it must be an object with a text; fix it."
        )
        assert complaint(read, "posts.jsonl", "null\n") == (
            "posts.jsonl, line 1: this is null; it must be an object with a text; fix it."
        )
        assert complaint(read, "posts.jsonl", '"a"\n', column="body") == (
            "posts.jsonl, line 1 has no field 'body'; its fields: text; choose one with --column."
        )

    @pytest.mark.parametrize("line", ['""', '{"text": null}', '{"text": " "}'])
    def test_blank_texts(self, read, complaint, line):
        content = f'"one"\n{line}\n"three"\n'
        assert complaint(read, "posts.jsonl", content) == (
            "posts.jsonl, line 2: the text is blank; "
            "fill it in, or leave out such lines with --skip-blank."
        )
        found = read("posts.jsonl", content, skip_blank=True)
        assert list(found.source_locations) == ["posts.jsonl, line 1", "posts.jsonl, line 3"]

    def test_what_is_not_json(self, read, complaint):
        assert complaint(read, "posts.jsonl", '"a"\n{"text": }\n') == (
            "posts.jsonl, line 2, character 10: this is not valid JSON (Expecting value); "
            "write one whole JSON object per line."
        )

    @pytest.mark.parametrize("line", ["[" * 100_000, "1" * 5_000])
    def test_json_that_cannot_be_read(self, read, complaint, line):
        assert complaint(read, "posts.jsonl", line) == (
            "posts.jsonl, line 1: a number is too long or the nesting too deep to read; "
            "write one whole JSON object per line."
        )

    def test_half_a_character(self, read, complaint):
        assert complaint(read, "posts.jsonl", '"a"\n{"text": "a \\ud800 b"}\n') == (
            "posts.jsonl, line 2: the text holds the lone surrogate \\ud800; "
            "that is half a character; write the whole character."
        )

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
    def test_what_was_written_is_read(self, texts):
        with_one = ["x", *texts]
        lines = "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in with_one)
        path = Path("property.jsonl")
        path.write_bytes(lines.encode())
        expected = [text for text in with_one if text.strip()]
        assert read_texts(path, skip_blank=True).texts == expected


class TestTables:
    def test_the_column_text(self, read):
        found = read("reviews.csv", 'id,text\n1,"Good, but\nslow"\n2,"a ""b"" c"\r\n')
        assert found.texts == ["Good, but\nslow", 'a "b" c']
        assert list(found.source_locations) == ["reviews.csv, row 2", "reviews.csv, row 3"]

    def test_another_column(self, read):
        content = "\ufefftitle,text\na,b\n"
        assert read("reviews.csv", content, column="title").texts == ["a"]

    def test_a_single_column_needs_no_name(self, read):
        assert read("reviews.csv", "review\na\n").texts == ["a"]

    def test_tabs_without_quoting(self, read):
        content = 'id\ttext\n1\t"so, he said\n2\t5" pipe\r\n'
        assert read("reviews.tsv", content).texts == ['"so, he said', '5" pipe']

    def test_a_missing_column_lists_the_others(self, read, complaint):
        assert complaint(read, "reviews.csv", "title,review\nx,a\n") == (
            "reviews.csv, row 1 has no column 'text'; its columns: title, review; "
            "choose one with --column."
        )
        assert complaint(read, "reviews.csv", "id,review\n1,a\n", column="Reviews") == (
            "reviews.csv, row 1 has no column 'Reviews'; its columns: id, review; "
            "choose one with --column. Did you mean 'review'?"
        )
        assert complaint(read, "reviews.tsv", "id\t TEXT\nx\ta\n") == (
            "reviews.tsv, row 1 has no column 'text'; its columns: id,  TEXT; "
            "choose one with --column. Did you mean ' TEXT'?"
        )

    def test_a_column_may_not_occur_twice(self, read, complaint):
        assert complaint(read, "reviews.csv", "text,text\na,b\n") == (
            "reviews.csv, row 1 has 2 columns 'text'; a name must be unique; rename the others, or "
            "give the number of one: --column 1."
        )

    def test_another_separator_is_noticed(self, read, complaint):
        assert complaint(read, "reviews.csv", "id;text\n1;a\n") == (
            "reviews.csv, row 1: this is one cell, 'id;text'; a comma separates cells; say "
            "what does with --separator ';'."
        )
        assert complaint(read, "reviews.tsv", "id,text\n1,a\n") == (
            "reviews.tsv, row 1: this is one cell, 'id,text'; a tab separates cells; say what "
            "does with --separator ','."
        )
        assert read("reviews.csv", "id;text\n1;a\n", column="id;text").texts == ["1;a"]

    def test_rows_with_too_few_or_too_many_cells(self, read, complaint):
        assert complaint(read, "reviews.csv", "id,text\n1,a\n2\n") == (
            "reviews.csv, row 3: there is 1 cell; the first row has 2; put quotation marks around "
            "a text with commas in it."
        )
        assert complaint(read, "reviews.csv", "id,text\n1,Good, but slow\n") == (
            "reviews.csv, row 2: there are 3 cells; the first row has 2; put quotation marks "
            "around a text with commas in it."
        )
        assert complaint(read, "reviews.tsv", "id\ttext\n1\ta\tb\n") == (
            "reviews.tsv, row 2: there are 3 cells; the first row has 2; take tabs and line ends "
            "out of the texts."
        )

    def test_large_row_numbers_are_readable(self, read, complaint):
        content = "id,text\n" + "1,a\n" * 8_410 + "2\n"
        assert complaint(read, "reviews.csv", content).startswith(
            "reviews.csv, row 8,412: there is 1 cell; "
        )

    def test_blank_cells(self, read, complaint):
        content = "id,text\n1,a\n2,\n3,c\n"
        assert complaint(read, "reviews.csv", content) == (
            "reviews.csv, row 3: the text is blank; "
            "fill it in, or leave out such rows with --skip-blank."
        )
        assert list(read("reviews.csv", content, skip_blank=True).source_locations) == [
            "reviews.csv, row 2",
            "reviews.csv, row 4",
        ]

    @pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
    def test_lines_without_cells_count_but_are_no_rows(self, read, suffix):
        lines = ["text", "a", "", "b", "", ""]
        if suffix == "jsonl":
            lines = [line and f'"{line}"' for line in lines]
        found = read(f"reviews.{suffix}", "\n".join(lines))
        assert found.texts[-2:] == ["a", "b"]
        unit = "line" if suffix == "jsonl" else "row"
        assert found.source_locations[-1] == f"reviews.{suffix}, {unit} 4"

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ('id,text\n1,"a\n2,b\n', "unexpected end of data"),
            ('id,text\n1,"a" b\n', "',' expected after '\"'"),
        ],
    )
    def test_quotation_marks_must_match(self, read, complaint, content, reason):
        assert complaint(read, "reviews.csv", content) == (
            f"reviews.csv, row 2: the quotation marks do not match ({reason}); close each one, "
            'and write "" for one inside a text, or say --quoting none if they are part of the '
            "texts."
        )

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_a_header_alone_has_no_texts(self, read, complaint, suffix):
        assert complaint(read, f"reviews.{suffix}", "text\n") == (
            f"reviews.{suffix} holds no texts; there must be at least one text; check the file."
        )

    def test_empty_lines_alone_have_no_texts(self, read, complaint):
        assert complaint(read, "reviews.csv", "\n\n") == (
            "reviews.csv holds no texts; there must be at least one text; check the file."
        )

    def test_a_column_by_its_number(self, read):
        assert read("reviews.csv", "id,text\n1,a\n", column="1").texts == ["1"]
        assert read("reviews.jsonl", '{"id": "1", "text": "a"}\n', column="1").texts == ["1"]
        assert read("reviews.csv", "2,1\na,b\n", column="2").texts == ["a"]  # a name goes first

    def test_a_table_without_a_header(self, read):
        found = read("reviews.csv", "1,one\n2,two\n", header=False)
        assert found.texts == ["one", "two"]
        assert list(found.source_locations) == ["reviews.csv, row 1", "reviews.csv, row 2"]
        assert read("a.tsv", "x\tone\ny\ttwo\n", header=False, column="1").texts == ["x", "y"]

    def test_a_header_where_there_is_none(self, read):
        for header, option in ((True, "--header"), (False, "--no-header")):
            with pytest.raises(SettingError) as caught:
                read("a.jsonl", '"one"', header=header)
            assert str(caught.value) == (
                f"{option} is set; no input is a .csv or .tsv file, and no other has a "
                f"header; leave {option} out."
            )

    def test_parquet_with_names_that_are_not_utf8(self, read):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"body": ["one"]}), "a.parquet", store_schema=False)
        path = Path("a.parquet")
        path.write_bytes(path.read_bytes().replace(b"body", b"b\xd1dy"))
        with pytest.raises(InputError) as caught:
            read_texts(path)
        assert str(caught.value).startswith("a.parquet is damaged or not a parquet file (")

    def test_json_lists_and_parquet(self, read):
        found = read("a.json", '[{"text": "one"},\n "two"]')
        assert found.texts == ["one", "two"]
        assert found.source_locations[1] == "a.json, object 2"
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"id": [1, 2], "body": ["one", "two"]}), "a.parquet")
        found = read_texts(Path("a.parquet"))
        assert found.texts == ["one", "two"]
        assert found.source_locations[1] == "a.parquet, row 2"
        assert read_texts(Path("a.parquet"), column="2").texts == ["one", "two"]

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_very_long_cells_are_read_and_the_limit_is_put_back(self, read, complaint, suffix):
        before = csv.field_size_limit()
        long = "a" * (before + 1)
        assert read(f"reviews.{suffix}", f"text\n{long}\n").texts == [long]
        complaint(read, f"reviews.{suffix}", "text\n")
        assert csv.field_size_limit() == before

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
    def test_what_was_written_is_read(self, texts):
        with_one = ["x", *texts]
        with Path("property.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["id", "text"], *([1, text] for text in with_one)])
        with_one = [text.replace("\r\n", "\n").replace("\r", "\n") for text in with_one]
        expected = [text for text in with_one if text.strip()]
        assert read_texts(Path("property.csv"), skip_blank=True).texts == expected
