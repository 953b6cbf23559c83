"""Reads a text file of any size as lines: unpacked, decoded and cut block by block."""

import bz2
import codecs
import gzip
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from clozeworks.data.files.encodings import (
    GZIP_MARK,
    binary,
    canonical_encoding,
    cut_off,
    damaged,
    invalid,
    is_wide,
    marked_encoding,
    not_packed,
    nul,
    open_file,
    packed,
    printable,
    wrong_mark,
)
from clozeworks.data.files.fields import check_characters
from clozeworks.errors import InputError, MissingExtra

Position = Callable[[int], None]

# A line must fit in memory, several times over.
LONGEST_LINE = 64_000_000
DEFAULT_ENCODING = "utf-8"
_BLOCK = 1 << 20
_LONGEST_MARK = 4
# Packed bytes unpacked at a time where the library does not bound what comes out of them.
_PACKED_BLOCK = 1 << 13


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Zstandard:
    """Unpacks frame after frame; unlike the library's own reader it notices a missing end."""

    def __init__(self, file: BinaryIO, library: Any) -> None:
        self._file = file
        # Trap: large collections are packed with a window that must be allowed for.
        self._library = library.ZstdDecompressor(max_window_size=2**31)
        self._frame: Any = None
        self._packed = b""

    def read(self, size: int, /) -> bytes:
        while True:
            self._packed = self._packed or self._file.read(_PACKED_BLOCK)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError
                return b""
            frame = self._frame or self._library.decompressobj()
            block: bytes = frame.decompress(self._packed)
            self._packed = frame.unused_data
            self._frame = None if frame.eof else frame
            if block:
                return block


class _Damaged(Exception):  # noqa: N818
    """What the library for .zst says of data that it cannot unpack."""


class _Told:
    """Passes on what a library for .zst reads, and its complaint under one name."""

    def __init__(self, source: _Readable, error: type[Exception]) -> None:
        self._source = source
        self._error = error

    def read(self, size: int, /) -> bytes:
        try:
            return self._source.read(size)
        except self._error as error:
            raise _Damaged from error


def _open_zstandard(file: BinaryIO) -> _Readable:
    library = _zstandard_library()
    own = library.__name__ != "zstandard"
    return _Told(library.ZstdFile(file) if own else _Zstandard(file, library), library.ZstdError)


def _zstandard_library() -> Any:
    for name in ("compression.zstd", "zstandard"):  # the first is Python's own, from 3.14 on
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtra("Reading .zst files", "zstandard", "zstd")


@dataclass(frozen=True)
class Packing:
    """A way to pack files.

    Attributes:
        name: Of the packing and of the program that does it.
        marks: What such a file can begin with.
        open: Gives the unpacked bytes of an open file.
        is_text: Whether a mark could be the beginning of a text.
    """

    name: str
    marks: tuple[bytes, ...]
    open: Callable[[BinaryIO], _Readable]
    is_text: bool = False


PACKINGS = {
    ".gz": Packing("gzip", (GZIP_MARK,), lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": Packing("bzip2", (b"BZh",), bz2.BZ2File, is_text=True),
    ".xz": Packing("xz", (b"\xfd7zXZ\0",), lzma.LZMAFile),
    ".zst": Packing(
        "zstd",
        # A frame, or one of the sixteen kinds of frames to be skipped.
        (b"\x28\xb5\x2f\xfd", *(bytes([kind]) + b"\x2a\x4d\x18" for kind in range(0x50, 0x60))),
        _open_zstandard,
    ),
}


def check_readable(path: Path) -> None:
    """Insists that the library which unpacks a file is there.

    Args:
        path: The file; its suffix decides.

    Raises:
        MissingExtra: If it is not installed.
    """
    if path.suffix.lower() == ".zst":
        _zstandard_library()


def read_lines(
    path: Path, *, encoding: str = DEFAULT_ENCODING, position: Position | None = None
) -> Iterator[str]:
    r"""Reads a file line by line, of which it holds no more than a block and one line.

    Args:
        path: The file. If its name ends in `.gz`, `.bz2`, `.xz` or `.zst` it is unpacked.
        encoding: The encoding of the characters. A byte order mark is recognised and dropped; the
            default gives way to it.
        position: Told, after each block, how many bytes of the file have been read.

    Yields:
        The lines without their ends, which are `\n`, `\r\n` or `\r`. Nothing follows the last end.

    Raises:
        InputError: If the file cannot be read as text, with the line where that is.
        MissingExtra: If the library which unpacks it is not installed.
    """
    origin = printable(path)
    number = 1  # of the line that is being read
    parts: list[str] = []  # what is known of it
    length = 0
    for text in _characters(path, origin, encoding, position):
        # Trap: splitlines also cuts at U+2028, U+0085 and form feeds, which occur inside texts.
        first, *lines = text.split("\n")
        parts.append(first)
        length += len(first)
        if length > LONGEST_LINE:
            raise _too_long(origin, number)
        if not lines:
            continue
        yield "".join(parts)
        rest = lines.pop()
        number += len(lines) + 1
        yield from lines
        parts, length = [rest], len(rest)
    if length:
        yield "".join(parts)


def _too_long(origin: str, number: int) -> InputError:
    return InputError(
        f"{origin}, line {number:,} has more than {LONGEST_LINE:,} characters; a line must fit in "
        "memory; fold it into several (fold -s), or write one document per line."
    )


def _characters(path: Path, origin: str, encoding: str, position: Position | None) -> Iterator[str]:
    r"""Reads a file as stretches of characters; each line ends in `\n`.

    What stands before a place that is wrong is given before that is said.
    """
    name = canonical_encoding(encoding)
    decoder: codecs.IncrementalDecoder | None = None
    line = 1  # on which the next block begins
    place = 0  # bytes before the next block
    held = ""  # a `\r` that may be half of a line end
    wrong: InputError | None = None
    for block in _blocks(path, origin, position):
        if decoder is None:
            name = _agreed(name, marked_encoding(block) if block else name, origin)
            decoder = codecs.getincrementaldecoder(name)()
        if not is_wide(name) and (start := block.find(b"\0")) >= 0:
            block = block[:start]
            ends = _one_kind_of_end(held.encode() + block).count(b"\n")
            wrong = binary(origin, line + ends, place + start)
        before = decoder.getstate()
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            decoder.setstate(before)
            text = ""
            with suppress(UnicodeError):  # from decoders that look ahead
                text = decoder.decode(block[: max(0, error.start - len(before[0]))])
            ends = (held + text).replace("\r\n", "\n").replace("\r", "\n").count("\n")
            wrong = wrong or invalid(origin, line + ends, name, error.object, error.start)
        except UnicodeError as error:
            raise InputError(
                f"{origin} is not valid {name.upper()} ({error}); convert the file, or say what it "
                "is with --encoding."
            ) from error
        if name != DEFAULT_ENCODING:  # some encodings can write half a character
            check_characters(text, f"{origin}, read as {name.upper()},")
        if place == 0:
            text = text.removeprefix("\ufeff")
        place += len(block)
        if held or "\r" in text:
            text = held + text
            held = "\r" if text.endswith("\r") and block and not wrong else ""
            text = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
        if is_wide(name) and (start := text.find("\0")) >= 0:
            text = text[:start]
            wrong = nul(origin, line + text.count("\n"))
        line += text.count("\n")
        yield text
        if wrong:
            raise wrong


def _one_kind_of_end(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _agreed(name: str, marked: str | None, origin: str) -> str:
    """Chooses between the encoding that was said and the one that a file's mark says."""
    if marked is None and name in ("utf-16", "utf-32"):
        raise InputError(
            f"{origin} has no byte order mark, so {name.upper()} does not say which byte comes "
            f"first; say it with --encoding {name}-le or --encoding {name}-be."
        )
    if marked is None or name.startswith(marked):
        return name
    if name != DEFAULT_ENCODING:
        raise wrong_mark(origin, marked, name)
    return marked


def _blocks(path: Path, origin: str, position: Position | None) -> Iterator[bytes]:
    """Reads a file as unpacked blocks, of which the last and only the last is empty."""
    packing = PACKINGS.get(path.suffix.lower())
    with open_file(path) as file:
        source = _unpacked(file, packing, origin, path.suffix)
        # The first block is long enough to hold a byte order mark, if the file is.
        block = b""
        while len(block) < _LONGEST_MARK and (more := _read(source, packing, origin)):
            block += more
        while block:
            if position is not None:
                position(file.tell())
            yield block
            block = _read(source, packing, origin)
        yield block


def _unpacked(file: BinaryIO, packing: Packing | None, origin: str, suffix: str) -> _Readable:
    head = file.read(8)
    file.seek(0)
    if packing is None:
        _check_not_packed(head, origin)
        return file
    if not head:
        raise cut_off(origin, packing.name)
    if not head.startswith(packing.marks):
        raise not_packed(origin, packing.name, suffix)
    return packing.open(file)


def _read(source: _Readable, packing: Packing | None, origin: str) -> bytes:
    try:
        return source.read(_BLOCK)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, _Damaged) as error:
        # Only the system numbers its errors; that is about the disk, not about the data.
        if packing is None or getattr(error, "errno", None) is not None:
            raise
        wrong = cut_off if isinstance(error, EOFError) else damaged
        raise wrong(origin, packing.name) from error


def _check_not_packed(head: bytes, origin: str) -> None:
    for suffix, packing in PACKINGS.items():
        if head.startswith(packing.marks) and not packing.is_text:
            raise packed(origin, packing.name, suffix)
