"""Files as lines: packed, in any encoding, damaged, of any size."""

import bz2
import codecs
import errno
import gzip
import io
import lzma
import os
import sys
import tracemalloc
from pathlib import Path
from types import ModuleType

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeworks.data.files import compression
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import read_lines
from clozeworks.errors import InputError, MissingExtra

pytestmark = pytest.mark.usefixtures("folder")

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
NO_GUESS = (
    "name its encoding with --encoding, or, if it is damaged, replace such bytes with --bad-bytes "
    "replace, or skip such rows with --bad-bytes skip-row."
)
NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}


@pytest.fixture
def refusal(complaint):
    """The sentence with which bytes are refused."""

    def message(name, data, **options):
        Path(name).write_bytes(data)
        return complaint(lambda: list(read_lines(Path(name), FileFormat(**options))))

    return message


def read(name, data, position=None, **options):
    Path(name).write_bytes(data)
    return list(read_lines(Path(name), FileFormat(**options), position=position))


@pytest.fixture(params=[1, 2, 3, 7])
def small_blocks(request, monkeypatch):
    monkeypatch.setattr(compression, "_BLOCK", request.param)


class TestLines:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (b"", []),
            (b"a", ["a"]),
            (b"a\n", ["a"]),
            (b"a\n\n", ["a", ""]),
            (b"\na\r\n\rb\r", ["", "a", "", "b"]),
            (b"\r\n\r\n", ["", ""]),
            ("é\u2028中\n😀".encode(), ["é\u2028中", "😀"]),
        ],
    )
    @pytest.mark.usefixtures("small_blocks")
    def test_ends(self, content, expected):
        assert read("a.txt", content) == expected

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.text("a\r\n中\u2028😀"), st.integers(1, 9), st.sampled_from(["utf-8", "utf-16"]))
    def test_blocks_do_not_matter(self, text, block, encoding):
        expected = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if not expected[-1]:
            expected.pop()
        before, compression._BLOCK = compression._BLOCK, block
        try:
            assert read("a.txt", text.encode(encoding)) == expected
        finally:
            compression._BLOCK = before

    def test_a_line_over_many_blocks(self):
        long = "0123456789" * 500_000
        assert read("a.txt", f"a\n{long}\nb\n".encode()) == ["a", long, "b"]

    def test_a_line_that_does_not_end(self, refusal):
        content = b"a\nb\n" + b"c" * 4_000_000
        assert refusal("a.txt", content, max_row_length=2_000_000) == (
            "a.txt, line 3 has more than 2,000,000 characters; a line must fit in memory; "
            "fold it into several (fold -s), or raise --max-row-length."
        )

    def test_a_line_that_is_too_long_within_a_block(self, refusal):
        assert refusal("a.txt", b"a\n" + b"c" * 11 + b"\nb\n", max_row_length=10).startswith(
            "a.txt, line 2 has more than 10 characters"
        )
        Path("a.txt").write_bytes(b"a\nb\n" + b"c" * 11 + b"\n")
        found = read_lines(Path("a.txt"), FileFormat(max_row_length=10))
        assert [next(found), next(found)] == ["a", "b"]

    def test_the_longest_line(self):
        assert FileFormat().max_row_length == 10_000_000

    def test_a_json_document_may_be_one_long_line(self):
        text = '"' + "a" * 200 + '"'
        assert read("a.json", text.encode(), max_row_length=100) == [text]

    def test_memory_does_not_grow_with_the_file(self):
        line = b"one line of a large file\n"
        Path("a.txt.gz").write_bytes(gzip.compress(line * 2_000_000, 1))
        tracemalloc.start()
        assert sum(1 for _ in read_lines(Path("a.txt.gz"))) == 2_000_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 25_000_000  # of 50 million bytes of text

    def test_how_far_it_is(self):
        data = gzip.compress(os.urandom(3_000_000).hex().encode())
        told = []
        read("a.txt.gz", data, position=told.append)
        assert told == sorted(told)
        assert len(told) > 3
        assert told[-1] == len(data)


class TestPacking:
    @pytest.mark.parametrize("suffix", [*PACK, ".GZ"])
    def test_all_kinds(self, suffix):
        data = PACK[suffix.lower()]("one\n二\n".encode())
        assert read(f"a.txt{suffix}", data) == ["one", "二"]

    @pytest.mark.parametrize("suffix", PACK)
    def test_several_parts_are_one_file(self, suffix):
        data = PACK[suffix](b"one\nt") + PACK[suffix](b"") + PACK[suffix](b"wo\n")
        assert read(f"a.txt{suffix}", data) == ["one", "two"]

    @pytest.mark.parametrize("suffix", PACK)
    def test_nothing(self, suffix):
        assert read(f"a.txt{suffix}", PACK[suffix](b"")) == []

    @pytest.mark.parametrize("suffix", PACK)
    @pytest.mark.parametrize("kept", [-1, -5, 15, 0])
    def test_cut_off(self, refusal, suffix, kept):
        data = PACK[suffix](os.urandom(3_000).hex().encode())
        assert refusal(f"a.txt{suffix}", data[:kept]) == (
            f"a.txt{suffix} ends too early; its {NAMES[suffix]} data is cut off; "
            "copy or download it again."
        )

    @pytest.mark.parametrize("suffix", PACK)
    def test_damaged(self, refusal, suffix):
        data = bytearray(PACK[suffix](os.urandom(3_000).hex().encode()))
        data[len(data) // 2 : len(data) // 2 + 64] = b"\xff" * 64
        if suffix == ".zst":  # its frames carry a sum only if asked for
            data[4] = 0xFF
        assert refusal(f"a.txt{suffix}", bytes(data)) == (
            f"a.txt{suffix} is damaged; its {NAMES[suffix]} data cannot be decompressed; "
            "copy or download it again."
        )

    @pytest.mark.parametrize("suffix", PACK)
    def test_not_packed(self, refusal, suffix):
        assert refusal(f"a.txt{suffix}", b"one\n") == (
            f"a.txt{suffix} is not a {NAMES[suffix]} file, although its name says so; "
            f"take {suffix} off the name, or compress it with {NAMES[suffix]}."
        )

    @pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
    def test_packed_without_the_suffix(self, refusal, suffix):
        assert refusal("a.txt", PACK[suffix](b"one\n")) == (
            f"a.txt is compressed with {NAMES[suffix]}; end its name in {suffix}, "
            f"or decompress it with {NAMES[suffix]} -dc."
        )

    def test_a_text_that_begins_like_a_packed_file(self):
        assert read("a.txt", b"BZh is how bzip2 begins\n") == ["BZh is how bzip2 begins"]

    def test_wide_windows_and_frames_to_skip(self):
        options = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
        data = zstandard.ZstdCompressor(compression_params=options).compressobj()
        packed = data.compress(b"one\n") + data.flush()
        skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
        assert read("a.txt.zst", skipped + packed) == ["one"]

    def test_the_library_for_zst_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "zstandard", None)
        monkeypatch.setitem(sys.modules, "compression.zstd", None)
        with pytest.raises(MissingExtra) as caught:
            read("a.txt.zst", PACK[".zst"](b"one"))
        assert str(caught.value) == (
            "Reading .zst files needs the library 'zstandard', which is not installed; "
            "install it with: pip install 'clozeworks[zstd]'."
        )

    def test_pythons_own_library_goes_first(self, monkeypatch, refusal):
        class ZstdError(Exception):
            pass

        class ZstdFile(io.BytesIO):
            def __init__(self, file):
                super().__init__(zstandard.decompress(file.read()))

            def read(self, size):
                block = super().read(size)
                if b"damage" in block:
                    raise ZstdError
                return block

        own = ModuleType("compression.zstd")
        own.ZstdFile, own.ZstdError = ZstdFile, ZstdError
        monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
        monkeypatch.setitem(sys.modules, "compression.zstd", own)
        monkeypatch.setitem(sys.modules, "zstandard", None)
        assert read("a.txt.zst", PACK[".zst"](b"one")) == ["one"]
        assert refusal("a.txt.zst", PACK[".zst"](b"damage")).startswith("a.txt.zst is damaged; ")


class TestEncodings:
    @pytest.mark.parametrize(
        ("mark", "encoding"),
        [
            (codecs.BOM_UTF8, "utf-8"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF32_BE, "utf-32-be"),
        ],
    )
    def test_a_mark_says_what_it_is(self, mark, encoding):
        data = mark + "one\n二\r\n\ufeff".encode(encoding)
        assert read("a.txt", data) == ["one", "二", "\ufeff"]
        assert read("a.txt", data, encoding=encoding) == ["one", "二", "\ufeff"]

    def test_a_mark_that_contradicts(self, refusal):
        data = codecs.BOM_UTF16_LE + "one".encode("utf-16-le")
        assert refusal("a.txt", data, encoding="latin-1") == (
            "a.txt begins with the byte order mark of UTF-16 but is read as ISO8859-1; "
            "convert the file, or say what it is with --encoding utf-16."
        )

    @pytest.mark.parametrize("encoding", ["gb18030", "big5", "shift_jis", "cp1252", "utf-16-le"])
    @pytest.mark.usefixtures("small_blocks")
    def test_others(self, encoding):
        text = "café" if encoding == "cp1252" else "一二\n三"
        assert read("a.txt", text.encode(encoding), encoding=encoding) == text.split("\n")

    @pytest.mark.usefixtures("small_blocks")
    def test_a_byte_that_is_not_valid(self, refusal):
        assert refusal("a.txt", "one\r\ntwo\rcafé\n".encode("latin-1")) == (
            "a.txt, line 3: byte 0xE9 is not valid UTF-8; "
            "convert the file, or say what it is with --encoding cp1252."
        )

    @pytest.mark.parametrize("block", [1, 4, 1 << 20])
    @pytest.mark.parametrize(
        "data",
        [
            b"one\r\ntwo\r\xff",
            "one\ntwo\n三".encode()[:-1],
            b"one\ntwo\nthr\0ee",
            b"one\ntwo\nthr\xffee\0",
            "one\ntwo\n\0".encode("utf-16"),
            "one\ntwo\n\0".encode("utf-16") + b"\0",
        ],
    )
    def test_what_comes_before_is_given(self, monkeypatch, data, block):
        monkeypatch.setattr(compression, "_BLOCK", block)
        Path("a.txt").write_bytes(data)
        lines = read_lines(Path("a.txt"))
        assert [next(lines), next(lines)] == ["one", "two"]
        with pytest.raises(InputError, match=r"a\.txt, line 3: "):
            next(lines)

    def test_a_byte_far_into_the_file(self, refusal):
        assert refusal("a.txt", b"one\n" * 1_000_000 + b"\x93two\x94") == (
            f"a.txt, line 1,000,001: byte 0x93 is not valid UTF-8; {NO_GUESS}"
        )

    @pytest.mark.usefixtures("small_blocks")
    def test_a_character_cut_at_the_end(self, refusal):
        assert refusal("a.txt", b"one\n\xe5\xb7").startswith(
            "a.txt, line 2: byte 0xE5 is not valid UTF-8; "
        )
        data = codecs.BOM_UTF16_BE + "one\ntwo".encode("utf-16-be")
        assert refusal("a.txt", data[:-1]).startswith(
            "a.txt, line 2: byte 0x00 is not valid UTF-16;"
        )

    @pytest.mark.usefixtures("small_blocks")
    def test_zero_bytes(self, refusal):
        assert refusal("a.txt", b"one\r\ntwo\r\0") == (
            "a.txt, line 3: byte 0x00 does not occur in text; this is a binary file, or damaged; "
            f"{NO_GUESS}"
        )

    def test_zero_bytes_far_into_the_file(self, refusal):
        data = b"one\n" * 1_000_000 + "two".encode("utf-16-le")
        assert refusal("a.txt", data) == (
            "a.txt, line 1,000,001: byte 0x00 does not occur in text; this is a binary file, or "
            f"damaged; {NO_GUESS}"
        )

    def test_zero_characters(self, refusal):
        assert refusal("a.txt", "one\ntwo\0".encode("utf-16")) == (
            "a.txt, line 2: character U+0000 does not occur in text; this is a binary file; "
            "convert the file to text."
        )

    def test_no_such_encoding(self, refusal):
        assert refusal("a.txt", b"one", encoding="utf-9").startswith("--encoding is 'utf-9'; ")


class TestDisk:
    def test_missing(self, complaint):
        Path("notes.txt").touch()
        assert complaint(lambda: list(read_lines(Path("note.txt")))) == (
            "note.txt does not exist; check the name and the folder. Did you mean 'notes.txt'?"
        )

    @pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.bz2"])
    def test_it_fails_while_it_is_read(self, complaint, monkeypatch, name):
        class Failing(io.BytesIO):
            def read(self, size=-1):
                if self.tell() > 2_000_000:
                    raise OSError(errno.EIO, "Input/output error")
                return super().read(size)

        content = os.urandom(3_000_000).hex().encode()
        data = PACK[Path(name).suffix](content) if Path(name).suffix in PACK else content
        Path(name).touch()
        monkeypatch.setattr(Path, "open", lambda *_: Failing(data))
        assert complaint(lambda: list(read_lines(Path(name)))) == (
            f"{name} could not be read: Input/output error; check the name and the disk."
        )
