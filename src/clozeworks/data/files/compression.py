"""Compressed files: which suffix means which compression, and their bytes block by block."""

import bz2
import gzip
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from clozeworks.data.files.encodings import open_file, printable
from clozeworks.errors import InputError, MissingExtra

# Called now and then with the number of bytes of a file that have been read.
Position = Callable[[int], None]

_BLOCK = 1 << 20
# Compressed bytes that are read at a time where the library does not bound what comes out of them.
_COMPRESSED_BLOCK = 1 << 13


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Zstandard:
    """Decompresses frame after frame; unlike the library's own reader it notices a missing end."""

    def __init__(self, file: BinaryIO, library: Any) -> None:
        self._file = file
        # Trap: large collections are compressed with a window that must be allowed for.
        self._library = library.ZstdDecompressor(max_window_size=2**31)
        self._frame: Any = None
        self._compressed = b""

    def read(self, size: int, /) -> bytes:
        while True:
            self._compressed = self._compressed or self._file.read(_COMPRESSED_BLOCK)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError
                return b""
            frame = self._frame or self._library.decompressobj()
            block: bytes = frame.decompress(self._compressed)
            self._compressed = frame.unused_data
            self._frame = None if frame.eof else frame
            if block:
                return block


def _open_zstandard(file: BinaryIO) -> _Readable:
    library = _zstandard_library()
    return _Zstandard(file, library) if library.__name__ == "zstandard" else library.ZstdFile(file)


def _zstandard_library() -> Any:
    for name in ("compression.zstd", "zstandard"):  # the first is Python's own, from 3.14 on
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtra("Reading .zst files", "zstandard", "zstd")


@dataclass(frozen=True)
class Compression:
    """A way to compress files."""

    name: str
    """The name of the format and of the program that writes it."""
    marks: tuple[bytes, ...]
    """The bytes such a file can begin with."""
    open: Callable[[BinaryIO], _Readable]
    """Gives the decompressed bytes of an open file."""
    is_text: bool = False
    """Whether a mark could be the beginning of a text."""


COMPRESSIONS = {
    ".gz": Compression("gzip", (b"\x1f\x8b",), lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": Compression("bzip2", (b"BZh",), bz2.BZ2File, is_text=True),
    ".xz": Compression("xz", (b"\xfd7zXZ\0",), lzma.LZMAFile),
    ".zst": Compression(
        "zstd",
        # A frame, or one of the sixteen kinds of frames to be skipped.
        (b"\x28\xb5\x2f\xfd", *(bytes([kind]) + b"\x2a\x4d\x18" for kind in range(0x50, 0x60))),
        _open_zstandard,
    ),
}


def format_suffix(path: Path) -> str:
    """Gives the suffix that decides how a file is read: `.csv` for `a.csv` and `A.CSV.GZ`.

    A compressed parquet file keeps both suffixes, `.parquet.gz`: nothing reads such files.
    """
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return suffix
    inner = Path(path.stem).suffix.lower()
    return inner + suffix if inner == ".parquet" else inner


def check_decompressible(path: Path) -> None:
    """Insists that the library which decompresses a file is installed.

    Raises:
        MissingExtra: If it is not.
    """
    if path.suffix.lower() == ".zst":
        _zstandard_library()


def check_not_compressed(head: bytes, origin: str) -> None:
    """Insists that data with these first bytes is not compressed.

    Raises:
        InputError: If it begins as compressed data does.
    """
    for suffix, compression in COMPRESSIONS.items():
        if head.startswith(compression.marks) and not compression.is_text:
            raise InputError(
                f"{origin} is compressed with {compression.name}; end its name in {suffix}, "
                f"or decompress it with {compression.name} -dc."
            )


def read_blocks(path: Path, position: Position | None = None) -> Iterator[bytes]:
    """Reads a file as decompressed blocks; its suffix says whether and how it is compressed.

    Args:
        path: The file.
        position: Called, before each block is given, with the bytes of the file read so far.

    Yields:
        The blocks; the last one, and only that, is empty.

    Raises:
        InputError: If the file cannot be read, or is not what its suffix says.
        MissingExtra: If the library which decompresses it is not installed.
    """
    origin = printable(path)
    compression = COMPRESSIONS.get(path.suffix.lower())
    with open_file(path) as file:
        source = _decompressed(file, compression, origin, path.suffix)
        block = b" "
        while block:
            block = _read(source, compression, origin)
            if position is not None and block:
                position(file.tell())
            yield block


def _decompressed(
    file: BinaryIO, compression: Compression | None, origin: str, suffix: str
) -> _Readable:
    head = file.read(8)
    file.seek(0)
    if compression is None:
        check_not_compressed(head, origin)
        return file
    if not head:
        raise _cut_off(origin, compression)
    if not head.startswith(compression.marks):
        raise InputError(
            f"{origin} is not a {compression.name} file, although its name says so; take {suffix} "
            f"off the name, or compress it with {compression.name}."
        )
    return compression.open(file)


def _read(source: _Readable, compression: Compression | None, origin: str) -> bytes:
    try:
        return source.read(_BLOCK)
    except Exception as error:
        of_data = isinstance(error, (EOFError, OSError, zlib.error, lzma.LZMAError))
        of_data |= type(error).__name__ == "ZstdError"  # so it is called in both libraries
        # Only the system numbers its errors; that is about the disk, not about the data.
        if compression is None or not of_data or getattr(error, "errno", None) is not None:
            raise
        if isinstance(error, EOFError):
            raise _cut_off(origin, compression) from error
        raise InputError(
            f"{origin} is damaged; its {compression.name} data cannot be decompressed; copy or "
            "download it again."
        ) from error


def _cut_off(origin: str, compression: Compression) -> InputError:
    return InputError(
        f"{origin} ends too early; its {compression.name} data is cut off; copy or download it "
        "again."
    )
