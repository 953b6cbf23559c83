"""Where texts come from: packed files, other encodings, files that fail, standard input."""

import bz2
import gzip
import io
import lzma
import os
from pathlib import Path

import pytest

from clozeworks.cli.inputs import resolve_input
from clozeworks.data.files.texts import read_texts
from clozeworks.errors import SettingError

pytestmark = pytest.mark.usefixtures("folder")


class TestCompression:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.txt", "one\n"),
            ("a.jsonl", '"one"\n'),
            ("a.json", '["one"]\n'),
            ("a.csv", "text\none\n"),
            ("a.tsv", "text\none\n"),
            ("A.TXT", "one\n"),
        ],
    )
    def test_every_format_may_be_compressed(self, save, name, content):
        compressors = {".GZ": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
        if zstandard := pytest.importorskip("zstandard"):
            compressors[".zst"] = zstandard.compress
        assert read_texts(save(name, content)).texts == ["one"]
        for suffix, compress in compressors.items():
            Path(name + suffix).write_bytes(compress(content.encode()))
            assert read_texts(Path(name + suffix)).texts == ["one"]

    def test_several_packed_parts_are_one_file(self):
        Path("a.txt.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
        assert read_texts(Path("a.txt.gz")).texts == ["one", "two"]

    @pytest.mark.parametrize("kept", [5, 15, -9, -1])
    def test_a_cut_file(self, complaint, kept):
        Path("a.txt.gz").write_bytes(gzip.compress(b"one\n" * 100)[:kept])
        assert complaint(read_texts, Path("a.txt.gz")) == (
            "a.txt.gz ends too early; its gzip data is cut off; copy or download it again."
        )

    @pytest.mark.parametrize("position", [12, -8, -1])
    def test_a_damaged_file(self, complaint, position):
        data = bytearray(gzip.compress(b"one\n" * 100, mtime=0))
        data[position] ^= 0xFF
        Path("a.txt.gz").write_bytes(data)
        assert complaint(read_texts, Path("a.txt.gz")) == (
            "a.txt.gz is damaged; its gzip data cannot be decompressed; copy or download it again."
        )

    def test_a_file_that_is_not_packed(self, complaint):
        Path("a.txt.gz").write_bytes(b"one\n")
        assert complaint(read_texts, Path("a.txt.gz")) == (
            "a.txt.gz is not a gzip file, although its name says so; "
            "take .gz off the name, or compress it with gzip."
        )

    def test_a_packed_file_without_the_suffix(self, read, complaint):
        assert complaint(read, "a.txt", gzip.compress(b"one\n")) == (
            "a.txt is compressed with gzip; end its name in .gz, or decompress it with gzip -dc."
        )


class TestEncodings:
    def test_a_byte_that_is_not_utf_8(self, read, complaint):
        assert complaint(read, "notes.txt", "one\ntwo\ncafé\n".encode("latin-1")) == (
            "notes.txt, line 3: byte 0xE9 is not valid UTF-8; "
            "convert the file, or say what it is with --encoding cp1252."
        )

    def test_curly_quotes_suggest_windows(self, read, complaint):
        assert complaint(read, "notes.txt", "“one”\n".encode("cp1252")) == (
            "notes.txt, line 1: byte 0x93 is not valid UTF-8; "
            "convert the file, or say what it is with --encoding cp1252."
        )

    def test_a_character_cut_at_the_end(self, read, complaint):
        assert complaint(read, "notes.txt", b"one\n\xe5\xb7").startswith(
            "notes.txt, line 2: byte 0xE5 is not valid UTF-8; "
        )

    def test_the_wrong_encoding_was_said(self, read, complaint):
        assert complaint(read, "notes.txt", "one\ncafé\n", encoding="ascii") == (
            "notes.txt, line 2: byte 0xC3 is not valid ASCII; "
            "convert the file, or say what it is with --encoding utf-8."
        )

    @pytest.mark.parametrize(
        "encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "UTF8", "utf-8-sig"]
    )
    def test_the_right_encoding_was_said(self, read, encoding):
        assert read("notes.txt", "é\ncafé\n".encode(encoding), encoding=encoding).texts == [
            "é",
            "café",
        ]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_a_byte_order_mark_names_the_encoding(self, read, complaint, encoding):
        assert read("notes.txt", "one\n".encode(encoding)).texts == ["one"]
        assert complaint(read, "notes.txt", "one\n".encode(encoding), encoding="cp1252") == (
            f"notes.txt begins with the byte order mark of {encoding.upper()} but is read as "
            f"CP1252; convert the file, or say what it is with --encoding {encoding}."
        )

    def test_a_byte_order_mark_of_the_other_order(self, read, complaint):
        assert "mark of UTF-16 but" in complaint(
            read, "notes.txt", b"\xfe\xff\0a", encoding="latin-1"
        )
        assert read("notes.txt", b"\xfe\xff\0a", encoding="utf-16").texts == ["a"]
        assert read("notes.txt", b"\xff\xfea\0", encoding="utf-16-le").texts == ["a"]

    def test_a_byte_order_mark_of_utf_8_contradicts_another_encoding(self, read, complaint):
        assert complaint(read, "notes.txt", "\ufeffone\n", encoding="cp1252") == (
            "notes.txt begins with the byte order mark of UTF-8 but is read as CP1252; "
            "convert the file, or say what it is with --encoding utf-8."
        )

    @pytest.mark.parametrize("order", ["le", "be"])
    def test_zero_bytes(self, read, complaint, order):
        assert complaint(read, "notes.txt", "one\n".encode(f"utf-16-{order}")) == (
            "notes.txt, line 1: byte 0x00 does not occur in text; this is UTF-16; convert the "
            f"file, or say what it is with --encoding utf-16-{order}."
        )
        assert complaint(read, "notes.csv", b"text\na\n\x00\n").startswith(
            "notes.csv, line 3: byte 0x00 "
        )

    def test_zero_characters(self, read, complaint):
        assert complaint(read, "notes.txt", "a\n\0\n".encode("utf-16"), encoding="utf-16") == (
            "notes.txt, line 2: character U+0000 does not occur in text; this is a binary file; "
            "convert the file to text."
        )

    @pytest.mark.parametrize("encoding", ["utf-9", "hex", "", "a\0b", "undefined"])
    def test_an_unknown_encoding(self, read, complaint, encoding):
        assert complaint(read, "notes.txt", "one\n", encoding=encoding) == (
            f"--encoding is {encoding!r}; it must be a text encoding that Python knows; "
            "use for example utf-8, latin-1, cp1252 or utf-16."
        )


class TestFiles:
    @pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.tsv", "a.txt.gz"])
    @pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
    def test_an_empty_file(self, read, complaint, name, content):
        assert complaint(read, name, content) == (
            f"{name} holds no texts; there must be at least one text; check the file."
        )

    def test_a_packed_file_of_no_bytes(self, complaint):
        Path("a.txt.gz").touch()
        assert complaint(read_texts, Path("a.txt.gz")).startswith("a.txt.gz ends too early; ")

    def test_a_missing_file(self, complaint):
        Path("reviews.csv").touch()
        assert complaint(read_texts, Path("other.txt")) == (
            "other.txt does not exist; check the name and the folder."
        )
        assert complaint(read_texts, Path("review.csv")) == (
            "review.csv does not exist; check the name and the folder. Did you mean 'reviews.csv'?"
        )
        assert complaint(read_texts, Path("gone/notes.md")) == (
            "gone/notes.md does not exist; check the name and the folder."
        )
        assert complaint(read_texts, Path("reviews.csv/notes.txt")) == (
            "reviews.csv/notes.txt does not exist; check the name and the folder."
        )

    @pytest.mark.parametrize("name", ["corpus", "corpus.txt"])
    def test_a_folder(self, complaint, name):
        Path(name).mkdir()
        assert complaint(read_texts, Path(name)) == (
            f"{name} is a folder; name one of the files in it."
        )

    def test_a_file_without_permission(self, save, complaint, monkeypatch):
        def refuse(*arguments):
            raise PermissionError(13, "Permission denied")

        path = save("notes.txt", "one\n")
        monkeypatch.setattr(Path, "open", refuse)
        assert complaint(read_texts, path) == (
            "notes.txt may not be read by this user; change its permissions, or copy the file."
        )

    def test_a_disk_that_fails(self, save, complaint, monkeypatch):
        def fail(*arguments):
            raise OSError(5, "Input/output error")

        path = save("notes.txt", "one\n")
        monkeypatch.setattr(Path, "open", fail)
        assert complaint(read_texts, path) == (
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
    def test_an_unknown_suffix(self, read, complaint, name, found):
        assert complaint(read, name, "one\n") == (
            f"{name} {found}; known: .csv, .json, .jsonl, .parquet, .tsv, .txt, all but .parquet "
            "also with .gz, .bz2, .xz, .zst; say what it is with --format, such as --format txt, "
            "or convert it."
        )

    def test_a_name_that_no_encoding_holds(self):
        path = Path(os.fsdecode(b"caf\xe9.txt"))
        path.write_bytes(b"one\n")
        assert read_texts(path).source_locations[0] == "caf\\udce9.txt, line 1"


class TestStandardInput:
    def test_bytes(self):
        found = read_texts(io.BytesIO(b"one\ntwo\n"))
        assert found.texts == ["one", "two"]
        assert found.origin == "standard input"
        assert found.source_locations[1] == "standard input, line 2"

    def test_mistakes_name_it(self, complaint):
        assert complaint(read_texts, io.BytesIO(b"caf\xe9\n")).startswith(
            "standard input, line 1: byte 0xE9 is not valid UTF-8; "
        )
        assert complaint(read_texts, io.BytesIO(b"")) == (
            "standard input holds no texts; there must be at least one text; check the file."
        )
        for name, value in (("column", "body"), ("header", False)):
            with pytest.raises(SettingError) as caught:
                read_texts(io.BytesIO(b"a\n"), **{name: value})
            assert str(caught.value) == (
                f"--{name} is set; standard input has no columns, each line is a text; leave "
                f"--{name} out."
            )

    def test_a_stream_that_fails(self, read, complaint):
        class Failing(io.BytesIO):
            def read1(self, size=-1):
                raise IsADirectoryError(21, "Is a directory")

        assert complaint(read_texts, Failing()) == (
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
            "and/or[MASK]",
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
        "name",
        ["reviews.csv", "reviews.CSV.gz", "a.json.zst", "my notes.txt", "data/reviews", "./x"],
    )
    def test_a_missing_file(self, complaint, name):
        assert complaint(resolve_input, name) == (
            f"{Path(name)} does not exist; check the name and the folder, "
            "or, if it is meant as a text, pipe it in with -."
        )

    def test_a_missing_file_suggests_its_neighbour(self, complaint):
        Path("reviews.csv").touch()
        assert complaint(resolve_input, "review.csv") == (
            "review.csv does not exist; check the name and the folder, "
            "or, if it is meant as a text, pipe it in with -. Did you mean 'reviews.csv'?"
        )

    def test_a_folder(self, complaint):
        Path("corpus").mkdir()
        assert complaint(resolve_input, "corpus") == (
            "corpus is a folder; name one of the files in it, "
            "or, if it is meant as a text, pipe it in with -."
        )

    @pytest.mark.parametrize("blank", ["", "  ", "\n"])
    def test_a_blank_input(self, complaint, blank):
        assert complaint(resolve_input, blank) == (
            "The input is blank; give a text, the name of a file, or - to pipe one."
        )

    def test_bytes_that_are_not_text(self, complaint):
        assert complaint(resolve_input, "caf\udce9 au lait") == (
            "The input holds the lone surrogate \\udce9; that is half a character; "
            "write the whole character."
        )

    def test_a_place_without_access_is_left_to_the_reader(self, monkeypatch):
        def refuse(*arguments, **options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "stat", refuse)
        assert resolve_input("closed/notes.txt") == Path("closed/notes.txt")
        assert resolve_input("a text") == "a text"
