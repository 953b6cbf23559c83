"""Lines of standard input as they arrive: what is there is given, nothing waits for the end."""

import codecs
import sys
from collections.abc import Iterator
from typing import Any

from clozeworks.data.files.encodings import (
    GZIP_MARK,
    binary,
    canonical_encoding,
    decode,
    invalid,
    is_wide,
    packed,
)
from clozeworks.data.files.streaming import LONGEST_LINE
from clozeworks.data.files.texts import STANDARD_INPUT
from clozeworks.errors import InputError

_BLOCK = 1 << 16


def arriving_lines(encoding: str) -> Iterator[list[str]]:
    r"""Reads standard input.

    Args:
        encoding: What it is written in.

    Yields:
        The lines that have become complete, without their ends, which are `\n` or `\r\n`.

    Raises:
        InputError: It cannot be read as text, with the line where that is. The lines before it are
            given first.
    """
    decoder = codecs.getincrementaldecoder(name := canonical_encoding(encoding))()
    number, place, length, marked = 1, 0, 0, True
    begun: list[str] = []  # what is known of the line that is not complete
    while True:
        ended = not (block := _read())
        if not place and block.startswith(GZIP_MARK):
            raise packed(STANDARD_INPUT, "gzip", ".gz")
        before = decoder.getstate()
        wrong: InputError | None = None
        if not is_wide(name) and (start := block.find(b"\0")) >= 0:
            block = block[:start]
            wrong = binary(STANDARD_INPUT, number + block.count(b"\n"), place + start)
        try:
            text = decoder.decode(block, final=ended)
        except UnicodeDecodeError as error:
            decoder.setstate(before)
            text = decoder.decode(block[: max(0, error.start - len(before[0]))])
            line = number + text.count("\n")
            wrong = invalid(STANDARD_INPUT, line, name, error.object, error.start)
        if marked and text:  # only what comes first can be a byte order mark
            text, marked = text.removeprefix("\ufeff"), False
        place += len(block)
        first, *lines = text.split("\n")
        begun.append(first)
        length += len(first)
        if lines:
            lines = ["".join(begun), *lines]
            begun = [lines.pop()]
            length = len(begun[0])
            number += len(lines)
        if length and ended and wrong is None:
            lines.append("".join(begun))
        if lines:
            yield [line.removesuffix("\r") for line in lines]
        if wrong is not None:
            raise wrong
        if ended:
            return
        if length > LONGEST_LINE:
            raise InputError(
                f"{STANDARD_INPUT}, line {number:,} has more than {LONGEST_LINE:,} characters; a "
                "line must fit in memory; fold it into several (fold -s)."
            )


def whole_input(encoding: str) -> str:
    """All of standard input as one text.

    Raises:
        InputError: It cannot be read as text.
    """
    blocks = []
    while block := _read():
        blocks.append(block)
    return decode(b"".join(blocks), STANDARD_INPUT, encoding)


def _read() -> bytes:
    stream: Any = sys.stdin.buffer
    try:
        # What is there, at least one byte; `read` would wait for a whole block.
        block: bytes = stream.read1(_BLOCK)
        return block
    except OSError as error:
        raise InputError(
            f"{STANDARD_INPUT} could not be read: {error.strerror or error}; pipe a text file in."
        ) from error
