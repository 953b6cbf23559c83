"""Reads text files of any size, and standard input, as lines: decoded and cut block by block."""

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

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
    lone_surrogate,
    marked_encoding,
    printable,
)
from clozeworks.data.files.file_format import DEFAULT_ENCODING, FileFormat
from clozeworks.errors import InputError
from clozeworks.wording import counted

STANDARD_INPUT = "standard input"
# A JSON document must fit in memory, several times over.
LONGEST_JSON = 400_000_000
_STREAM_BLOCK = 1 << 16
# Stands for bytes that are not text. No file can hold it: it is half a character.
BAD_BYTE = "\udcff"
_HALF = re.compile("[\ud800-\udfff]")


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return BAD_BYTE, error.end


codecs.register_error("clozeworks.mark", _mark)


@dataclass
class FileNotes:
    """What there is to say about how files were read."""

    found: list[str] = field(default_factory=list)
    """What was found out about them, in sentences."""
    bad_bytes: int = 0
    """How many bytes were not text, where they need not be refused."""
    first: str = ""
    """Where the first stood."""
    skipped: list[str] = field(default_factory=list)
    """The rows that were left out because of them."""

    def skips(self, source_location: str, row: object) -> bool:
        """Whether a line, cells or a JSON value holds such bytes; then it is noted as left out."""
        if not self.bad_bytes or not _is_damaged(row):
            return False
        self.skipped.append(source_location)
        return True

    def sentences(self) -> tuple[str, ...]:
        """All of it, for people."""
        return (*self.found, *self.about_bytes())

    def about_bytes(self) -> tuple[str, ...]:
        """What became of bad bytes, in a sentence, if there were any."""
        if not self.bad_bytes:
            return ()
        bad = f"{counted(self.bad_bytes, 'bad byte')}, the first in {self.first}"
        rows = counted(len(self.skipped), "row was", "rows were")
        lost = f"{rows} left out because of {bad}." if self.skipped else f"U+FFFD stands for {bad}."
        return (lost,)


def _is_damaged(value: Any) -> bool:
    if isinstance(value, str):
        return BAD_BYTE in value
    if isinstance(value, dict):
        return any(map(_is_damaged, value)) or any(map(_is_damaged, value.values()))
    return isinstance(value, list | tuple) and any(map(_is_damaged, value))


def read_lines(
    path: Path,
    file_format: FileFormat | None = None,
    *,
    position: Position | None = None,
    notes: FileNotes | None = None,
) -> Iterator[str]:
    r"""Reads a file line by line; no more of it is held than a block and one line.

    Args:
        path: The file. If its name ends in `.gz`, `.bz2`, `.xz` or `.zst` it is decompressed.
        file_format: How it is read. A byte order mark is recognised and dropped; the default
            encoding gives way to it.
        position: Called, at each block, with the bytes of the file read so far.
        notes: Collects what there is to say, such as bytes that are not text. Where rows are to be
            skipped, lines hold `BAD_BYTE` in their place: whoever makes rows asks `notes.skips`.

    Yields:
        The lines without their ends, which are `\n`, `\r\n` or `\r`. Nothing follows the last end.

    Raises:
        InputError: If the file cannot be read as text, with the line where that is.
        MissingExtra: If the library which decompresses it is not installed.
    """
    file_format = file_format or FileFormat()
    is_document = file_format.suffix_of(path) == ".json"
    limit = LONGEST_JSON if is_document else file_format.max_row_length
    decoder = _Decoder(printable(path), file_format, notes)
    for lines in _lines(decoder.text(read_blocks(path, position)), decoder.origin, limit):
        yield from lines


class LineReader:
    """The lines of a file, and how much of it they are so far.

    Args:
        path: The file, compressed or not.
        file_format: How it is read.
        notes: Collects what there is to say, such as bytes that are not text.
    """

    def __init__(
        self, path: Path, file_format: FileFormat | None = None, notes: FileNotes | None = None
    ) -> None:
        self.origin = printable(path)
        self.notes = notes if notes is not None else FileNotes()
        self._path = path
        self._file_format = file_format
        self._compressed = path.suffix.lower() in COMPRESSIONS
        self._done = 0

    def __iter__(self) -> Iterator[str]:
        lines = read_lines(self._path, self._file_format, position=self._note, notes=self.notes)
        for line in lines:
            # What has been read is ahead of what was given by a block.
            self._done += 0 if self._compressed else len(line.encode(errors="replace")) + 1
            yield line

    def _note(self, read: int) -> None:
        self._done = read if self._compressed else self._done

    def fraction_read(self) -> float:
        """The fraction of the file that has been given."""
        return min(1.0, self._done / max(1, self._path.stat().st_size))


def stream_lines(
    stream: BinaryIO,
    file_format: FileFormat | None = None,
    *,
    origin: str = STANDARD_INPUT,
    notes: FileNotes | None = None,
) -> Iterator[list[str]]:
    """Reads the lines of a stream, such as `sys.stdin.buffer`, as they arrive.

    Yields:
        The lines that have become complete, without their ends.

    Raises:
        InputError: If the stream cannot be read as text, with the line where that is. The lines
            before it are given first.
    """
    file_format = file_format or FileFormat()
    decoder = _Decoder(origin, file_format, notes)
    text = decoder.text(_stream_blocks(stream, origin))
    return _lines(text, origin, file_format.max_row_length)


def read_text(
    source: Path | BinaryIO,
    file_format: FileFormat | None = None,
    *,
    origin: str = STANDARD_INPUT,
) -> str:
    """Reads all of a file, compressed or not, or of a stream; line ends stay as they are.

    Raises:
        InputError: If it cannot be read as text, with the line where that is.
    """
    if isinstance(source, Path):
        origin, blocks = printable(source), read_blocks(source)
    else:
        blocks = _stream_blocks(source, origin)
    decoder = _Decoder(origin, file_format or FileFormat(), None)
    text = "".join(decoder.text(blocks, keep_line_ends=True))
    if BAD_BYTE in text:
        text = "".join(line for line in re.split("(?<=\n)", text) if BAD_BYTE not in line)
    return text


def numbered_lines(
    lines: Iterable[str], origin: str, notes: FileNotes, first: int = 1
) -> Iterator[tuple[int, str]]:
    """Lines that are rows, with their numbers; those with bad bytes are left out."""
    for number, line in enumerate(lines, start=first):
        if not notes.bad_bytes or not notes.skips(f"{origin}, line {number:,}", line):
            yield number, line


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


def _lines(stretches: Iterator[str], origin: str, limit: int) -> Iterator[list[str]]:
    """Cuts stretches of text into lines; gives those that each stretch completes."""
    number = 1  # of the line that is being read
    begun: list[str] = []  # what is known of it
    length = 0
    for text in stretches:
        # Trap: splitlines also cuts at U+2028, U+0085 and form feeds, which occur inside texts.
        first, *lines = text.split("\n")
        begun.append(first)
        length += len(first)
        if length > limit:
            raise _too_long(origin, number, limit)
        if not lines:
            continue
        lines = ["".join(begun), *lines]
        begun = [lines.pop()]
        length = len(begun[0])
        if len(text) > limit and max(map(len, lines)) > limit:
            long = next(index for index, line in enumerate(lines) if len(line) > limit)
            if long:
                yield lines[:long]
            raise _too_long(origin, number + long, limit)
        number += len(lines)
        yield lines
    if length:
        yield ["".join(begun)]


def _too_long(origin: str, number: int, limit: int) -> InputError:
    advice = "write one object per line, as .jsonl"
    if limit != LONGEST_JSON:
        advice = "fold it into several (fold -s), or raise --max-row-length"
    return InputError(
        f"{origin}, line {number:,} has more than {limit:,} characters; a line must fit in memory; "
        f"{advice}."
    )


class _Decoder:
    """Decodes blocks of bytes.

    Args:
        origin: Where they come from.
        file_format: How they are read.
        notes: Collects what there is to say, such as bytes that are not text.
    """

    def __init__(self, origin: str, file_format: FileFormat, notes: FileNotes | None) -> None:
        self.origin = origin
        self._format = file_format
        self._notes = notes if notes is not None else FileNotes()
        self._line = 1  # on which the next block begins

    def text(self, blocks: Iterator[bytes], *, keep_line_ends: bool = False) -> Iterator[str]:
        r"""Gives stretches of characters, in which each line ends in `\n`.

        What stands before an invalid byte is given before the error.
        """
        name = canonical_encoding(self._format.encoding)
        refuses = self._format.bad_bytes == "refuse"
        decoder: codecs.IncrementalDecoder | None = None
        index = 0  # bytes before the next block
        held = ""  # a `\r` that may be half of a line end
        wrong: InputError | None = None
        for block in _with_whole_mark(blocks):
            if decoder is None:
                name = _agreed(name, marked_encoding(block) if block else name, self.origin)
                errors = "strict" if refuses else "clozeworks.mark"
                decoder = codecs.getincrementaldecoder(name)(errors)
            if refuses and not is_wide(name) and (start := block.find(b"\0")) >= 0:
                ends = _one_kind_of_end(held.encode() + block[:start]).count(b"\n")
                whole = block[index % 2 :]
                wrong = binary(self.origin, self._line + ends, whole)
                block = block[:start]
            before = decoder.getstate()
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                decoder.setstate(before)
                text = ""
                with suppress(UnicodeError):  # from decoders that look ahead
                    text = decoder.decode(block[: max(0, error.start - len(before[0]))])
                ends = (held + text).replace("\r\n", "\n").replace("\r", "\n").count("\n")
                line = self._line + ends
                wrong = wrong or invalid(self.origin, line, name, error.object, error.start)
            except UnicodeError as error:
                raise InputError(
                    f"{self.origin} is not valid {name.upper()} ({error}); convert the file, or "
                    "say what it is with --encoding."
                ) from error
            if refuses and name != DEFAULT_ENCODING:  # some encodings can write half a character
                check_characters(text, f"{self.origin}, read as {name.upper()},")
            if index == 0:
                text = text.removeprefix("\ufeff")
            index += len(block)
            if not keep_line_ends and (held or "\r" in text):
                text = held + text
                held = "\r" if text.endswith("\r") and block and not wrong else ""
                text = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
            if not refuses:
                text = self._without_bad_bytes(text)
            elif is_wide(name) and (start := text.find("\0")) >= 0:
                text = text[:start]
                wrong = InputError(
                    f"{self.origin}, line {self._line + text.count(chr(10)):,}: character U+0000 "
                    "does not occur in text; this is a binary file; convert the file to text."
                )
            self._line += text.count("\n")
            yield text
            if wrong:
                raise wrong

    def _without_bad_bytes(self, text: str) -> str:
        """Counts what is not text, and replaces it, or marks it where rows are to be skipped."""
        text = text.replace("\0", BAD_BYTE)
        if lone_surrogate(text):  # some encodings can write half a character
            text = _HALF.sub(BAD_BYTE, text)
        if count := text.count(BAD_BYTE):
            if not self._notes.bad_bytes:
                line = self._line + text.count("\n", 0, text.index(BAD_BYTE))
                self._notes.first = f"{self.origin}, line {line:,}"
            self._notes.bad_bytes += count
        return text.replace(BAD_BYTE, "\ufffd") if self._format.bad_bytes == "replace" else text


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
