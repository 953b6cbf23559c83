"""Turns the bytes of a file into characters, or says precisely why that does not work."""

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from clozeworks.errors import InputError

# Trap: the mark of UTF-32-LE begins with the mark of UTF-16-LE, so the longer ones come first.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)
# Two or more in a row of the usual characters and marks. Korean and Japanese have such rows, too.
_CHINESE = {
    "gb18030": re.compile(rb"(?:[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]){2,}"),
    "big5": re.compile(rb"(?:[\xa1-\xc6][\x40-\x7e\xa1-\xfe]){2,}"),
}
_HIGH = re.compile(rb"[\x80-\xff]")
# Bytes after a wrong one that are looked at to guess what they are.
_LOOKED_AT = 2_000


def printable(path: Path) -> str:
    """Names a file in a message, even if its name is not valid in any encoding."""
    return str(path).encode(errors="backslashreplace").decode()


def lone_surrogate(text: str) -> str | None:
    """Finds half a character, which JSON escapes can produce and no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None


def check_characters(text: str, where: str) -> None:
    """Insists that a text, which messages call `where`, has whole characters only.

    Raises:
        InputError: If it holds half a character, which JSON escapes can produce.
    """
    if surrogate := lone_surrogate(text):
        raise InputError(
            f"{where} holds the lone surrogate {surrogate}; that is half a character; "
            "write the whole character."
        )


def missing_file(path: Path, advice: str = "check the name and the folder") -> InputError:
    """Makes the error for a file that is not there, with the nearest name that is."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        names = []
    near = get_close_matches(path.name, names, n=1, cutoff=0.8)
    hint = f" Did you mean {printable(path.with_name(near[0]))!r}?" if near else ""
    return InputError(f"{printable(path)} does not exist; {advice}.{hint}")


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading; what the system refuses becomes an error with advice."""
    origin = printable(path)
    try:
        if path.is_dir():
            raise InputError(f"{origin} is a folder; name one of the files in it.")
        with path.open("rb") as file:
            yield file
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing_file(path) from error
    except PermissionError as error:
        raise InputError(
            f"{origin} may not be read by this user; change its permissions, or copy the file."
        ) from error
    except OSError as error:
        raise InputError(
            f"{origin} could not be read: {error.strerror or error}; check the name and the disk."
        ) from error


def canonical_encoding(encoding: str) -> str:
    """Gives the one name Python has for an encoding, so that `UTF8` and `utf-8` are equal.

    Raises:
        InputError: If there is no such encoding, or it is not one for text.
    """
    try:
        name = codecs.lookup(encoding).name
        # Codecs such as `hex` do exist, but turn bytes into bytes; decoding refuses those.
        b"\0\0\0\0".decode(name, errors="replace")
    except (LookupError, ValueError) as error:
        raise InputError(
            f"--encoding is {encoding!r}; it must be a text encoding that Python knows; "
            "use for example utf-8, latin-1, cp1252 or utf-16."
        ) from error
    return name


def marked_encoding(data: bytes) -> str | None:
    """Reads the byte order mark, if the data begins with one."""
    return next((name for mark, name in BYTE_ORDER_MARKS if data.startswith(mark)), None)


def is_wide(name: str) -> bool:
    """Says whether zero bytes are part of an encoding's plainest letters."""
    return name.startswith(("utf-16", "utf-32"))


def binary(origin: str, line: int, position: int) -> InputError:
    """Makes the error for a zero byte; its position says which UTF-16 it may be."""
    order = "le" if position % 2 else "be"
    return InputError(
        f"{origin}, line {line:,}: byte 0x00 does not occur in text; this is a binary file, "
        "or UTF-16; convert the file to text, or say what it is with "
        f"--encoding utf-16-{order}."
    )


def invalid(origin: str, line: int, name: str, data: bytes, start: int) -> InputError:
    """Makes the error for a byte that is not valid at this position of the data."""
    return InputError(
        f"{origin}, line {line:,}: byte 0x{data[start]:02X} is not valid "
        f"{name.upper()}; convert the file, or say what it is with "
        f"--encoding {_likely_encoding(data, start, name)}."
    )


def _likely_encoding(data: bytes, wrong: int, tried: str) -> str:
    """Guesses what a file is that was not what it was read as."""
    if tried != "utf-8":
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return "utf-8"
    begin = data.rfind(b"\n", 0, wrong) + 1
    for name, characters in _CHINESE.items():
        if name != tried and _is_mostly(characters, data[begin : wrong + _LOOKED_AT]):
            return name
    # Where Latin-1 has control characters, Windows has its curly quotes and dashes.
    return "cp1252" if 0x80 <= data[wrong] <= 0x9F and tried != "cp1252" else "latin-1"


def _is_mostly(characters: re.Pattern[bytes], data: bytes) -> bool:
    """Whether nearly all bytes beyond ASCII belong to rows of these characters."""
    count = sum(len(_HIGH.findall(row)) for row in characters.findall(data))
    return count > 0.9 * len(_HIGH.findall(data))
