"""Reads text files of any size, and standard input, as lines: decoded and cut block by block."""

import codecs
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from clozeworks.data.files.compression import (
    COMPRESSIONS,
    Position,
    check_not_compressed,
    read_blocks,
)
from clozeworks.data.files.encodings import (
    BYTE_ORDER_MARKS,
    binary,
    canonical_encoding,
    check_characters,
    invalid,
    is_wide,
    marked_encoding,
    printable,
)
from clozeworks.errors import InputError

STANDARD_INPUT = "standard input"
# A line must fit in memory, several times over.
LONGEST_LINE = 64_000_000
DEFAULT_ENCODING = "utf-8"
_STREAM_BLOCK = 1 << 16


def read_lines(
    path: Path, *, encoding: str = DEFAULT_ENCODING, position: Position | None = None
) -> Iterator[str]:
    r"""Reads a file line by line; no more of it is held than a block and one line.

    Args:
        path: The file. If its name ends in `.gz`, `.bz2`, `.xz` or `.zst` it is decompressed.
        encoding: The encoding of the characters. A byte order mark is recognised and dropped; the
            default gives way to it.
        position: Called, at each block, with the bytes of the file read so far.

    Yields:
        The lines without their ends, which are `\n`, `\r\n` or `\r`. Nothing follows the last end.

    Raises:
        InputError: If the file cannot be read as text, with the line where that is.
        MissingExtra: If the library which decompresses it is not installed.
    """
    origin = printable(path)
    for lines in _lines(_decoded(read_blocks(path, position), origin, encoding), origin):
        yield from lines


class LineReader:
    """The lines of a file, and how much of it they are so far.

    Args:
        path: The file, compressed or not.
        encoding: What it is written in.
    """

    def __init__(self, path: Path, encoding: str = DEFAULT_ENCODING) -> None:
        self.origin = printable(path)
        self._path = path
        self._encoding = encoding
        self._compressed = path.suffix.lower() in COMPRESSIONS
        self._done = 0

    def __iter__(self) -> Iterator[str]:
        for line in read_lines(self._path, encoding=self._encoding, position=self._note):
            # What has been read is ahead of what was given by a block.
            self._done += 0 if self._compressed else len(line.encode(errors="replace")) + 1
            yield line

    def _note(self, read: int) -> None:
        self._done = read if self._compressed else self._done

    def fraction_read(self) -> float:
        """The fraction of the file that has been given."""
        return min(1.0, self._done / max(1, self._path.stat().st_size))


def stream_lines(
    stream: BinaryIO, *, encoding: str = DEFAULT_ENCODING, origin: str = STANDARD_INPUT
) -> Iterator[list[str]]:
    """Reads the lines of a stream, such as `sys.stdin.buffer`, as they arrive.

    Yields:
        The lines that have become complete, without their ends.

    Raises:
        InputError: If the stream cannot be read as text, with the line where that is. The lines
            before it are given first.
    """
    return _lines(_decoded(_stream_blocks(stream, origin), origin, encoding), origin)


def read_text(
    source: Path | BinaryIO, *, encoding: str = DEFAULT_ENCODING, origin: str = STANDARD_INPUT
) -> str:
    """Reads all of a file, compressed or not, or of a stream; line ends stay as they are.

    Raises:
        InputError: If it cannot be read as text, with the line where that is.
    """
    if isinstance(source, Path):
        origin, blocks = printable(source), read_blocks(source)
    else:
        blocks = _stream_blocks(source, origin)
    return "".join(_decoded(blocks, origin, encoding, keep_line_ends=True))


def _stream_blocks(stream: BinaryIO, origin: str) -> Iterator[bytes]:
    block, first = b" ", True
    while block:
        try:
            # What is there, at least one byte; `read` would wait for a whole block.
            block = stream.read1(_STREAM_BLOCK)  # type: ignore[attr-defined]
        except OSError as error:
            raise InputError(
                f"{origin} could not be read: {error.strerror or error}; pipe a text file in."
            ) from error
        if first:
            check_not_compressed(block, origin)
            first = False
        yield block


def _lines(stretches: Iterator[str], origin: str) -> Iterator[list[str]]:
    """Cuts stretches of text into lines; gives those that each stretch completes."""
    number = 1  # of the line that is being read
    begun: list[str] = []  # what is known of it
    length = 0
    for text in stretches:
        # Trap: splitlines also cuts at U+2028, U+0085 and form feeds, which occur inside texts.
        first, *lines = text.split("\n")
        begun.append(first)
        length += len(first)
        if length > LONGEST_LINE:
            raise InputError(
                f"{origin}, line {number:,} has more than {LONGEST_LINE:,} characters; a line must "
                "fit in memory; fold it into several (fold -s)."
            )
        if not lines:
            continue
        lines = ["".join(begun), *lines]
        begun = [lines.pop()]
        length = len(begun[0])
        number += len(lines)
        yield lines
    if length:
        yield ["".join(begun)]


def _decoded(
    blocks: Iterator[bytes], origin: str, encoding: str, *, keep_line_ends: bool = False
) -> Iterator[str]:
    r"""Decodes blocks as stretches of characters, in which each line ends in `\n`.

    What stands before an invalid byte is given before the error.
    """
    name = canonical_encoding(encoding)
    decoder: codecs.IncrementalDecoder | None = None
    line = 1  # on which the next block begins
    index = 0  # bytes before the next block
    held = ""  # a `\r` that may be half of a line end
    wrong: InputError | None = None
    for block in _with_whole_mark(blocks):
        if decoder is None:
            name = _agreed(name, marked_encoding(block) if block else name, origin)
            decoder = codecs.getincrementaldecoder(name)()
        if not is_wide(name) and (start := block.find(b"\0")) >= 0:
            block = block[:start]
            ends = _one_kind_of_end(held.encode() + block).count(b"\n")
            wrong = binary(origin, line + ends, index + start)
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
        if index == 0:
            text = text.removeprefix("\ufeff")
        index += len(block)
        if not keep_line_ends and (held or "\r" in text):
            text = held + text
            held = "\r" if text.endswith("\r") and block and not wrong else ""
            text = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
        if is_wide(name) and (start := text.find("\0")) >= 0:
            text = text[:start]
            ends = text.count("\n")
            wrong = InputError(
                f"{origin}, line {line + ends:,}: character U+0000 does not occur "
                "in text; this is a binary file; convert the file to text."
            )
        line += text.count("\n")
        yield text
        if wrong:
            raise wrong


def _with_whole_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Joins the first blocks until a byte order mark is complete, if they begin with one."""
    first = next(blocks)
    ended = not first
    while not ended and any(
        mark.startswith(first) and mark != first for mark, _ in BYTE_ORDER_MARKS
    ):
        more = next(blocks)
        ended = not more
        first += more
    if first:
        yield first
    if ended:
        yield b""
    yield from blocks


def _one_kind_of_end(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _agreed(name: str, marked: str | None, origin: str) -> str:
    """Chooses between the encoding that was named and the one that a file's mark says."""
    if marked is None and name in ("utf-16", "utf-32"):
        raise InputError(
            f"{origin} has no byte order mark, so {name.upper()} does not say which byte comes "
            f"first; say it with --encoding {name}-le or --encoding {name}-be."
        )
    if marked is None or name.startswith(marked):
        return name
    if name != DEFAULT_ENCODING:
        raise InputError(
            f"{origin} begins with the byte order mark of {marked.upper()} but is read as "
            f"{name.upper()}; convert the file, or say what it is with --encoding {marked}."
        )
    return marked
