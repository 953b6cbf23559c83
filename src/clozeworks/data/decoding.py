"""Turns the bytes of a file into characters, or says precisely why that does not work."""

import codecs
import gzip
import zlib
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
GZIP_MARK = b"\x1f\x8b"


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


def missing_file(path: Path, advice: str = "check the name and the folder") -> InputError:
    """Makes the error for a file that is not there, with the nearest name that is."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        names = []
    near = get_close_matches(path.name, names, n=1, cutoff=0.8)
    hint = f" Did you mean {printable(path.with_name(near[0]))!r}?" if near else ""
    return InputError(f"{printable(path)} does not exist; {advice}.{hint}")


def read_bytes(path: Path) -> bytes:
    """Reads a whole file, unpacking it if its name ends in `.gz`.

    Args:
        path: The file.

    Returns:
        What it holds.

    Raises:
        InputError: If it is missing, a folder, not readable, or not intact.
    """
    with open_file(path) as file:
        data = file.read()
    return _unpack(data, printable(path)) if path.suffix.lower() == ".gz" else data


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


def _unpack(packed: bytes, origin: str) -> bytes:
    if packed and not packed.startswith(GZIP_MARK):
        raise InputError(
            f"{origin} is not a gzip file, although its name says so; "
            "take .gz off the name, or pack it with gzip."
        )
    try:
        return gzip.decompress(packed)
    except EOFError as error:
        raise InputError(
            f"{origin} ends too early; its gzip data is cut off; copy or download it again."
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{origin} is damaged; its gzip data does not unpack; copy or download it again."
        ) from error


def canonical_encoding(encoding: str) -> str:
    """Gives the one name Python has for an encoding, so that `UTF8` and `utf-8` are equal.

    Args:
        encoding: Any name of it.

    Returns:
        The canonical name.

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


def decode(data: bytes, origin: str, encoding: str) -> str:
    """Decodes a whole file; a byte order mark at its start is dropped.

    Args:
        data: The bytes of the file.
        origin: How messages name the file.
        encoding: The encoding the user said, or the default.

    Returns:
        The characters. Line ends are left as they are.

    Raises:
        InputError: If the bytes are not text in this encoding.
    """
    name = canonical_encoding(encoding)
    if data.startswith(GZIP_MARK):
        raise InputError(
            f"{origin} is packed with gzip; end its name in .gz, or unpack it with gzip -dc."
        )
    marked = next((marked for mark, marked in BYTE_ORDER_MARKS if data.startswith(mark)), None)
    if marked and not name.startswith(marked):
        raise InputError(
            f"{origin} begins with the byte order mark of {marked.upper()} but is read as "
            f"{name.upper()}; convert the file, or say what it is with --encoding {marked}."
        )
    if not name.startswith(("utf-16", "utf-32")) and (start := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, start) + 1
        order = "le" if start % 2 else "be"
        raise InputError(
            f"{origin}, line {line:,}: byte 0x00 does not occur in text; this is a binary file, "
            "or UTF-16; convert the file to text, or say what it is with "
            f"--encoding utf-16-{order}."
        )
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(name, errors="replace").count("\n") + 1
        raise InputError(
            f"{origin}, line {line:,}: byte 0x{data[error.start]:02X} is not valid "
            f"{name.upper()}; convert the file, or say what it is with "
            f"--encoding {_likely_encoding(data, error.start, name)}."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{origin}, line {line:,}: character U+0000 does not occur in text; this is a binary "
            "file; convert the file to text."
        )
    return text.removeprefix("\ufeff")


def _likely_encoding(data: bytes, wrong: int, tried: str) -> str:
    """Guesses what a file is that was not what it was read as."""
    if tried != "utf-8":
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return "utf-8"
    # Where Latin-1 has control characters, Windows has its curly quotes and dashes.
    return "cp1252" if 0x80 <= data[wrong] <= 0x9F and tried != "cp1252" else "latin-1"
