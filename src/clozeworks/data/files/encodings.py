"""Turns the bytes of a file into characters, or says precisely why that does not work."""

import codecs
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from clozeworks.data.files.encoding_guess import likely_encoding, likely_utf16
from clozeworks.errors import InputError

# Trap: the mark of UTF-32-LE begins with the mark of UTF-16-LE, so the longer ones come first.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)


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


def check_plain(path: Path) -> None:
    """Insists that something is a file: a pipe would keep one waiting, a device never ends.

    Raises:
        InputError: If it is a folder, a pipe, a socket or a device.
        OSError: If the system says nothing about it.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"{printable(path)} is a folder; name one of the files in it.")
    if not stat.S_ISREG(mode):
        what = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise InputError(
            f"{printable(path)} is a {what}, not a file; files may be read more than once; write "
            "what it gives into a file."
        )


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading; what the system refuses becomes an error with advice."""
    origin = printable(path)
    try:
        check_plain(path)
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


def binary(origin: str, line: int, data: bytes) -> InputError:
    """Makes the error for a zero byte; the data begins with the file, or with a whole character."""
    guess = likely_utf16(data)
    what = "UTF-16" if guess else "a binary file, or damaged"
    return InputError(
        f"{origin}, line {line:,}: byte 0x00 does not occur in text; this is {what}; "
        f"{_advice(guess)}."
    )


def invalid(origin: str, line: int, name: str, data: bytes, start: int) -> InputError:
    """Makes the error for a byte that is not valid at this position of the data."""
    return InputError(
        f"{origin}, line {line:,}: byte 0x{data[start]:02X} is not valid "
        f"{name.upper()}; {_advice(likely_encoding(data, start, name))}."
    )


def _advice(guess: str | None) -> str:
    if guess:
        return f"convert the file, or say what it is with --encoding {guess}"
    return (
        "name its encoding with --encoding, or, if it is damaged, replace such bytes with "
        "--bad-bytes replace, or skip such rows with --bad-bytes skip-row"
    )
