"""Texts from files and from standard input."""

import csv
import gzip
import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.texts import Places, read_texts, resolve_input
from clozeworks.errors import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    Path(name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return Path(name)


def read(name, content, **options):
    return read_texts(save(name, content), **options)


def refusal(name, content, **options):
    with pytest.raises(InputError) as caught:
        read(name, content, **options)
    return str(caught.value)


def refused(call, *arguments, **options):
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    return str(caught.value)


class TestLines:
    @pytest.mark.parametrize(
        "content", ["one\ntwo\n", "one\ntwo", "one\r\ntwo\r\n", "one\r\ntwo", "\ufeffone\ntwo\n"]
    )
    def test_one_text_per_line(self, content):
        found = read("notes.txt", content)
        assert found.texts == ["one", "two"]
        assert list(found.places) == ["notes.txt, line 1", "notes.txt, line 2"]
        assert found.origin == "notes.txt"
        assert len(found) == 2
        assert found.skipped == 0

    def test_only_line_ends_end_lines(self):
        line = "a\u2028b\u0085c\x0cd\x1ee\rf"
        assert read("notes.txt", f"{line}\n").texts == [line]

    def test_spaces_around_a_text_are_kept(self):
        assert read("notes.txt", " a \n").texts == [" a "]

    @pytest.mark.parametrize("blank", ["", " ", "\t", "\r", "\u3000"])
    def test_blank_lines_are_refused(self, blank):
        assert refusal("notes.txt", f"one\n{blank}\ntwo\n") == (
            "notes.txt, line 2: the text is blank; "
            "fill it in, or leave out such lines with --skip-blank."
        )

    def test_blank_lines_can_be_skipped_and_places_stay_right(self):
        found = read("notes.txt", "one\n\n  \nfour\n\n", skip_blank=True)
        assert found.texts == ["one", "four"]
        assert list(found.places) == ["notes.txt, line 1", "notes.txt, line 4"]
        assert found.skipped == 3

    def test_a_file_of_blank_lines_has_no_texts(self):
        assert refusal("notes.txt", "\n \n", skip_blank=True) == (
            "notes.txt holds only blank lines; it must hold at least one text."
        )

    def test_lines_have_no_columns(self):
        assert refusal("notes.txt", "one\n", column="body") == (
            "notes.txt has no columns, and --column is 'body'; each line is one text; "
            "leave out --column."
        )

    @given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"])), min_size=1))
    def test_what_was_written_is_read(self, texts):
        expected = [text for text in texts if text.strip()]
        stream = io.BytesIO("".join(f"{text}\n" for text in ["x", *texts]).encode())
        assert read_texts(stream, skip_blank=True).texts == ["x", *expected]


class TestPlaces:
    def test_they_are_made_when_asked_for(self):
        places = Places("reviews.csv", "row", range(2, 10_000_002))
        assert len(places) == 10_000_000
        assert places[8_410] == "reviews.csv, row 8,412"
        assert places[-1] == "reviews.csv, row 10,000,001"
        assert list(places[:2]) == ["reviews.csv, row 2", "reviews.csv, row 3"]


class TestJsonLines:
    def test_objects_and_strings(self):
        found = read("posts.jsonl", '{"id": 1, "text": "one"}\r\n"two"\n{"text": "\\ud83d\\ude00"}')
        assert found.texts == ["one", "two", "😀"]
        assert found.places[2] == "posts.jsonl, line 3"

    def test_another_field(self):
        assert read("posts.jsonl", '{"body": "one", "text": 3}\n', column="body").texts == ["one"]

    def test_a_missing_field_lists_the_others(self):
        lines = '{"body": "a", "text": "b"}\n{"body": "a", "Texts": "b"}\n'
        assert refusal("posts.jsonl", lines) == (
            "posts.jsonl, line 2 has no field 'text'; its fields: body, Texts; "
            "choose one with --column. Did you mean 'Texts'?"
        )
        assert refusal("posts.jsonl", "{}") == (
            "posts.jsonl, line 1 has no field 'text'; its fields: none; choose one with --column."
        )

    @pytest.mark.parametrize(
        ("value", "name"),
        [("3.5", "a number"), ("[]", "a list"), ("{}", "an object"), ("true", "true")],
    )
    def test_the_field_must_be_a_string(self, value, name):
        assert refusal("posts.jsonl", f'{{"text": {value}}}') == (
            f"posts.jsonl, line 1: the field 'text' is {name}; it must be a string; "
            "choose another field with --column, or put quotation marks around it."
        )

    def test_a_line_must_be_an_object_or_a_string(self):
        assert refusal("posts.jsonl", '["a"]\n') == (
            "posts.jsonl, line 1 is a list; it must be an object or a string."
        )
        assert refusal("posts.jsonl", "null\n") == (
            "posts.jsonl, line 1 is null; it must be an object or a string."
        )
        assert refusal("posts.jsonl", '"a"\n', column="body") == (
            "posts.jsonl, line 1 is a string; it must be an object with the field 'body'."
        )

    @pytest.mark.parametrize("line", ["", '""', '{"text": null}', '{"text": " "}'])
    def test_blank_texts(self, line):
        content = f'"one"\n{line}\n"three"\n'
        assert refusal("posts.jsonl", content) == (
            "posts.jsonl, line 2: the text is blank; "
            "fill it in, or leave out such lines with --skip-blank."
        )
        found = read("posts.jsonl", content, skip_blank=True)
        assert list(found.places) == ["posts.jsonl, line 1", "posts.jsonl, line 3"]

    def test_what_is_not_json(self):
        assert refusal("posts.jsonl", '"a"\n{"text": }\n') == (
            "posts.jsonl, line 2, character 10: this is not valid JSON (Expecting value); "
            "write one whole JSON object per line."
        )

    @pytest.mark.parametrize("line", ["[" * 100_000, "1" * 5_000])
    def test_json_that_cannot_be_read(self, line):
        assert refusal("posts.jsonl", line) == (
            "posts.jsonl, line 1: a number is too long or the nesting too deep to read; "
            "write one JSON object with the text per line."
        )

    def test_half_a_character(self):
        assert refusal("posts.jsonl", '"a"\n{"text": "a \\ud800 b"}\n') == (
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
    def test_the_column_text(self):
        found = read("reviews.csv", 'id,text\n1,"Good, but\nslow"\n2,"a ""b"" c"\r\n')
        assert found.texts == ["Good, but\nslow", 'a "b" c']
        assert list(found.places) == ["reviews.csv, row 2", "reviews.csv, row 3"]

    def test_another_column(self):
        content = "\ufefftitle,text\na,b\n"
        assert read("reviews.csv", content, column="title").texts == ["a"]

    def test_a_single_column_needs_no_name(self):
        assert read("reviews.csv", "review\na\n").texts == ["a"]

    def test_tabs_without_quoting(self):
        content = 'id\ttext\n1\t"so, he said\n2\t5" pipe\r\n'
        assert read("reviews.tsv", content).texts == ['"so, he said', '5" pipe']

    def test_a_missing_column_lists_the_others(self):
        assert refusal("reviews.csv", "id,review\n1,a\n") == (
            "reviews.csv, row 1 has no column 'text'; its columns: id, review; "
            "choose one with --column."
        )
        assert refusal("reviews.csv", "id,review\n1,a\n", column="Reviews") == (
            "reviews.csv, row 1 has no column 'Reviews'; its columns: id, review; "
            "choose one with --column. Did you mean 'review'?"
        )
        assert refusal("reviews.tsv", "id\t TEXT\n1\ta\n") == (
            "reviews.tsv, row 1 has no column 'text'; its columns: id,  TEXT; "
            "choose one with --column. Did you mean ' TEXT'?"
        )

    def test_a_column_may_not_occur_twice(self):
        assert refusal("reviews.csv", "text,text\na,b\n") == (
            "reviews.csv, row 1: the header has 2 columns 'text'; "
            "a name must be unique; rename the others."
        )

    def test_another_separator_is_noticed(self):
        assert refusal("reviews.csv", "id;text\n1;a\n") == (
            "reviews.csv, row 1: the header is one column, 'id;text'; in a .csv file a comma "
            "separates columns; convert the file, or name this column with --column."
        )
        assert refusal("reviews.tsv", "id,text\n1,a\n") == (
            "reviews.tsv, row 1: the header is one column, 'id,text'; in a .tsv file a tab "
            "separates columns; convert the file, or name this column with --column."
        )
        assert read("reviews.csv", "id;text\n1;a\n", column="id;text").texts == ["1;a"]

    def test_rows_with_too_few_or_too_many_cells(self):
        assert refusal("reviews.csv", "id,text\n1,a\n2\n") == (
            "reviews.csv, row 3 has 1 cell; the header has 2, and each row must have as "
            "many; put quotation marks around a text with commas in it, or mend the row."
        )
        assert refusal("reviews.csv", "id,text\n1,Good, but slow\n") == (
            "reviews.csv, row 2 has 3 cells; the header has 2, and each row must have as "
            "many; put quotation marks around a text with commas in it, or mend the row."
        )
        assert refusal("reviews.tsv", "id\ttext\n1\ta\tb\n") == (
            "reviews.tsv, row 2 has 3 cells; the header has 2, and each row must have as "
            "many; take tabs and line ends out of the texts, or mend the row."
        )

    def test_large_row_numbers_are_readable(self):
        content = "id,text\n" + "1,a\n" * 8_410 + "2\n"
        assert refusal("reviews.csv", content).startswith("reviews.csv, row 8,412 has 1 cell; ")

    def test_blank_cells(self):
        content = "id,text\n1,a\n2,\n3,c\n"
        assert refusal("reviews.csv", content) == (
            "reviews.csv, row 3: the text is blank; "
            "fill it in, or leave out such rows with --skip-blank."
        )
        assert list(read("reviews.csv", content, skip_blank=True).places) == [
            "reviews.csv, row 2",
            "reviews.csv, row 4",
        ]

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_lines_without_cells_count_but_are_no_rows(self, suffix):
        found = read(f"reviews.{suffix}", "text\na\n\nb\n\n")
        assert found.texts == ["a", "b"]
        assert found.places[1] == f"reviews.{suffix}, row 4"

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ('id,text\n1,"a\n2,b\n', "unexpected end of data"),
            ('id,text\n1,"a" b\n', "',' expected after '\"'"),
        ],
    )
    def test_quotation_marks_must_match(self, content, reason):
        assert refusal("reviews.csv", content) == (
            f"reviews.csv, row 2: the quotation marks do not match ({reason}); close each one, "
            'and write "" for a quotation mark inside a text.'
        )

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_a_header_alone_has_no_texts(self, suffix):
        assert refusal(f"reviews.{suffix}", "text\n") == (
            f"reviews.{suffix} holds a header but no rows; it must hold at least one text."
        )

    def test_empty_lines_alone_have_no_columns(self):
        assert refusal("reviews.csv", "\n\n") == (
            "reviews.csv, row 1 has no column 'text'; its columns: none; choose one with --column."
        )

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_very_long_cells_are_read_and_the_limit_is_put_back(self, suffix):
        before = csv.field_size_limit()
        long = "a" * (before + 1)
        assert read(f"reviews.{suffix}", f"text\n{long}\n").texts == [long]
        refusal(f"reviews.{suffix}", "text\n")
        assert csv.field_size_limit() == before

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
    def test_what_was_written_is_read(self, texts):
        with_one = ["x", *texts]
        with Path("property.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["id", "text"], *([1, text] for text in with_one)])
        expected = [text for text in with_one if text.strip()]
        assert read_texts(Path("property.csv"), skip_blank=True).texts == expected


class TestPacking:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.txt.gz", "one\n"),
            ("a.jsonl.gz", '"one"\n'),
            ("a.csv.gz", "text\none\n"),
            ("a.tsv.gz", "text\none\n"),
            ("A.TXT.GZ", "one\n"),
        ],
    )
    def test_every_format_may_be_packed(self, name, content):
        assert read(name, content).texts == ["one"]

    def test_several_packed_parts_are_one_file(self):
        Path("a.txt.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
        assert read_texts(Path("a.txt.gz")).texts == ["one", "two"]

    @pytest.mark.parametrize("kept", [5, 15, -9, -1])
    def test_a_cut_file(self, kept):
        Path("a.txt.gz").write_bytes(gzip.compress(b"one\n" * 100)[:kept])
        assert refused(read_texts, Path("a.txt.gz")) == (
            "a.txt.gz ends too early; its gzip data is cut off; copy or download it again."
        )

    @pytest.mark.parametrize("position", [12, -8, -1])
    def test_a_damaged_file(self, position):
        data = bytearray(gzip.compress(b"one\n" * 100, mtime=0))
        data[position] ^= 0xFF
        Path("a.txt.gz").write_bytes(data)
        assert refused(read_texts, Path("a.txt.gz")) == (
            "a.txt.gz is damaged; its gzip data does not unpack; copy or download it again."
        )

    def test_a_file_that_is_not_packed(self):
        Path("a.txt.gz").write_bytes(b"one\n")
        assert refused(read_texts, Path("a.txt.gz")) == (
            "a.txt.gz is not a gzip file, although its name says so; "
            "take .gz off the name, or pack it with gzip."
        )

    def test_a_packed_file_without_the_suffix(self):
        assert refusal("a.txt", gzip.compress(b"one\n")) == (
            "a.txt is packed with gzip; end its name in .gz, or unpack it with gzip -dc."
        )


class TestEncodings:
    def test_a_byte_that_is_not_utf_8(self):
        assert refusal("notes.txt", "one\ntwo\ncafé\n".encode("latin-1")) == (
            "notes.txt, line 3: byte 0xE9 is not valid UTF-8; "
            "convert the file, or say what it is with --encoding latin-1."
        )

    def test_curly_quotes_suggest_windows(self):
        assert refusal("notes.txt", "“one”\n".encode("cp1252")) == (
            "notes.txt, line 1: byte 0x93 is not valid UTF-8; "
            "convert the file, or say what it is with --encoding cp1252."
        )

    def test_a_character_cut_at_the_end(self):
        assert refusal("notes.txt", b"one\n\xe5\xb7").startswith(
            "notes.txt, line 2: byte 0xE5 is not valid UTF-8; "
        )

    def test_the_wrong_encoding_was_said(self):
        assert refusal("notes.txt", "one\ncafé\n", encoding="ascii") == (
            "notes.txt, line 2: byte 0xC3 is not valid ASCII; "
            "convert the file, or say what it is with --encoding utf-8."
        )

    @pytest.mark.parametrize(
        "encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "UTF8", "utf-8-sig"]
    )
    def test_the_right_encoding_was_said(self, encoding):
        assert read("notes.txt", "é\ncafé\n".encode(encoding), encoding=encoding).texts == [
            "é",
            "café",
        ]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_a_byte_order_mark_names_the_encoding(self, encoding):
        assert refusal("notes.txt", "one\n".encode(encoding)) == (
            f"notes.txt begins with the byte order mark of {encoding.upper()} but is read as "
            f"UTF-8; convert the file, or say what it is with --encoding {encoding}."
        )

    def test_a_byte_order_mark_of_the_other_order(self):
        assert "mark of UTF-16 but" in refusal("notes.txt", b"\xfe\xff\0a")
        assert read("notes.txt", b"\xfe\xff\0a", encoding="utf-16").texts == ["a"]
        assert read("notes.txt", b"\xff\xfea\0", encoding="utf-16-le").texts == ["a"]

    def test_a_byte_order_mark_of_utf_8_contradicts_another_encoding(self):
        assert refusal("notes.txt", "\ufeffone\n", encoding="cp1252") == (
            "notes.txt begins with the byte order mark of UTF-8 but is read as CP1252; "
            "convert the file, or say what it is with --encoding utf-8."
        )

    @pytest.mark.parametrize("order", ["le", "be"])
    def test_zero_bytes(self, order):
        assert refusal("notes.txt", "one\n".encode(f"utf-16-{order}")) == (
            "notes.txt, line 1: byte 0x00 does not occur in text; this is a binary file, or "
            "UTF-16; convert the file to text, or say what it is with "
            f"--encoding utf-16-{order}."
        )
        assert refusal("notes.csv", b"text\na\n\x00\n").startswith("notes.csv, line 3: byte 0x00 ")

    def test_zero_characters(self):
        assert refusal("notes.txt", "a\n\0\n".encode("utf-16"), encoding="utf-16") == (
            "notes.txt, line 2: character U+0000 does not occur in text; this is a binary file; "
            "convert the file to text."
        )

    @pytest.mark.parametrize("encoding", ["utf-9", "hex", "", "a\0b", "undefined"])
    def test_an_unknown_encoding(self, encoding):
        assert refusal("notes.txt", "one\n", encoding=encoding) == (
            f"--encoding is {encoding!r}; it must be a text encoding that Python knows; "
            "use for example utf-8, latin-1, cp1252 or utf-16."
        )


class TestFiles:
    @pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.tsv", "a.txt.gz"])
    @pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
    def test_an_empty_file(self, name, content):
        assert refusal(name, content) == (
            f"{name} is empty; it must hold at least one text; check where it comes from."
        )

    def test_a_packed_file_of_no_bytes(self):
        Path("a.txt.gz").touch()
        assert refused(read_texts, Path("a.txt.gz")).startswith("a.txt.gz is empty; ")

    def test_a_missing_file(self):
        Path("reviews.csv").touch()
        assert refused(read_texts, Path("other.txt")) == (
            "other.txt does not exist; check the name and the folder."
        )
        assert refused(read_texts, Path("review.csv")) == (
            "review.csv does not exist; check the name and the folder. Did you mean 'reviews.csv'?"
        )
        assert refused(read_texts, Path("gone/notes.md")) == (
            "gone/notes.md does not exist; check the name and the folder."
        )
        assert refused(read_texts, Path("reviews.csv/notes.txt")) == (
            "reviews.csv/notes.txt does not exist; check the name and the folder."
        )

    @pytest.mark.parametrize("name", ["corpus", "corpus.txt"])
    def test_a_folder(self, name):
        Path(name).mkdir()
        assert refused(read_texts, Path(name)) == (
            f"{name} is a folder; name one of the files in it."
        )

    def test_a_file_without_permission(self, monkeypatch):
        def refuse(*arguments):
            raise PermissionError(13, "Permission denied")

        path = save("notes.txt", "one\n")
        monkeypatch.setattr(Path, "open", refuse)
        assert refused(read_texts, path) == (
            "notes.txt may not be read by this user; change its permissions, or copy the file."
        )

    def test_a_disk_that_fails(self, monkeypatch):
        def fail(*arguments):
            raise OSError(5, "Input/output error")

        path = save("notes.txt", "one\n")
        monkeypatch.setattr(Path, "open", fail)
        assert refused(read_texts, path) == (
            "notes.txt could not be read: Input/output error; check the name and the disk."
        )

    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("notes.md", "has the suffix '.md'"),
            ("notes.md.gz", "has the suffix '.md.gz'"),
            ("notes.gz", "has the suffix '.gz'"),
            ("README", "has no suffix"),
        ],
    )
    def test_an_unknown_suffix(self, name, found):
        assert refusal(name, "one\n") == (
            f"{name} {found}; known: .csv, .jsonl, .tsv, .txt, each also with .gz; "
            "rename the file, or pipe its lines in with -."
        )

    def test_a_name_that_no_encoding_holds(self):
        path = Path(os.fsdecode(b"caf\xe9.txt"))
        path.write_bytes(b"one\n")
        assert read_texts(path).places[0] == "caf\\udce9.txt, line 1"


class TestStandardInput:
    def test_bytes(self):
        found = read_texts(io.BytesIO(b"one\ntwo\n"))
        assert found.texts == ["one", "two"]
        assert found.origin == "standard input"
        assert found.places[1] == "standard input, line 2"

    def test_a_text_stream_is_decoded_by_its_bytes(self):
        stream = io.TextIOWrapper(io.BytesIO("café\n".encode()), encoding="ascii")
        assert read_texts(stream).texts == ["café"]

    def test_a_text_stream_without_bytes(self):
        assert read_texts(io.StringIO("one\ntwo")).texts == ["one", "two"]

    def test_mistakes_name_it(self):
        assert refused(read_texts, io.BytesIO(b"caf\xe9\n")).startswith(
            "standard input, line 1: byte 0xE9 is not valid UTF-8; "
        )
        assert refused(read_texts, io.BytesIO(b"")) == (
            "standard input is empty; it must hold at least one text; check where it comes from."
        )
        assert refused(read_texts, io.BytesIO(b"a\n"), column="body").startswith(
            "standard input has no columns, "
        )

    def test_a_stream_that_fails(self):
        class Failing(io.BytesIO):
            def read(self, size=-1):
                raise IsADirectoryError(21, "Is a directory")

        assert refused(read_texts, Failing()) == (
            "standard input could not be read: Is a directory; pipe a text file in."
        )


class TestResolveInput:
    def test_a_dash_is_standard_input(self):
        assert resolve_input("-") is None

    @pytest.mark.parametrize("name", ["reviews.csv", "my notes.txt", "README", "./reviews.csv"])
    def test_an_existing_file(self, name):
        Path(name).touch()
        assert resolve_input(name) == Path(name)

    @pytest.mark.parametrize(
        "text",
        [
            "Paris is the [MASK] of France.",
            "Paris",
            "Either/or is the question.",
            "<mask></s>",
            "version 1.5",
            "a" * 100_000,
            "巴黎是[MASK]国的首都。",
            "line one\nline two",
            "a\0b",
        ],
    )
    def test_everything_else_is_a_text(self, text):
        assert resolve_input(text) == text

    @pytest.mark.parametrize(
        "name", ["reviews.csv", "reviews.CSV.gz", "my notes.txt", "data/reviews", "./x"]
    )
    def test_a_missing_file(self, name):
        assert refused(resolve_input, name) == (
            f"{Path(name)} does not exist; check the name and the folder, "
            "or, if it is meant as a text, pipe it in with -."
        )

    def test_a_missing_file_suggests_its_neighbour(self):
        Path("reviews.csv").touch()
        assert refused(resolve_input, "review.csv") == (
            "review.csv does not exist; check the name and the folder, "
            "or, if it is meant as a text, pipe it in with -. Did you mean 'reviews.csv'?"
        )

    def test_a_folder(self):
        Path("corpus").mkdir()
        assert refused(resolve_input, "corpus") == (
            "corpus is a folder; name one of the files in it, "
            "or, if it is meant as a text, pipe it in with -."
        )

    @pytest.mark.parametrize("blank", ["", "  ", "\n"])
    def test_a_blank_input(self, blank):
        assert refused(resolve_input, blank) == (
            "The input is blank; give a text, the name of a file, or - to pipe one."
        )

    def test_bytes_that_are_not_text(self):
        assert refused(resolve_input, "caf\udce9 au lait") == (
            "The input holds the lone surrogate \\udce9; that is half a character; "
            "write the whole character."
        )

    def test_a_place_without_access_is_left_to_the_reader(self, monkeypatch):
        def refuse(*arguments, **options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "stat", refuse)
        assert resolve_input("closed/notes.txt") == Path("closed/notes.txt")
        assert resolve_input("a text") == "a text"
