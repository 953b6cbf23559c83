"""Pickles of newer protocols, rewritten as torch's reader for tensors alone knows them.

That reader knows protocol 2, the one of `torch.save`; some programs ask for another. Nothing is
built here: the opcodes are taken apart and written down again, and whatever a file asks for is
still for that reader to allow.

Protocol 4 differs in three ways that matter. Strings may be shorter; what is memoized is numbered
by its place; and a global takes its name from two strings on the stack, which may come from the
memo. So strings are written where they are used, and the memo keeps the rest.
"""

import io
import pickletools
import struct
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

PROTOCOL = 2
_STRINGS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_ENDING = "/data.pkl"


def with_known_protocol(source: Path) -> Path | io.BytesIO:
    """A file of weights that torch's reader knows: the same one, or a copy in memory.

    Raises:
        ValueError: If the pickle in it cannot be taken apart.
    """
    if not zipfile.is_zipfile(source):
        return source
    with zipfile.ZipFile(source) as archive:
        if all(_protocol(archive, name) <= PROTOCOL for name in _pickles(archive)):
            return source
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as written:
            for name in archive.namelist():
                data = archive.read(name)
                written.writestr(name, rewritten(data) if name.endswith(_ENDING) else data)
    copy.seek(0)
    return copy


def _pickles(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if name.endswith(_ENDING)]


def _protocol(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(name) as file:
        start = file.read(2)
    return start[1] if start[:1] == b"\x80" and len(start) == 2 else PROTOCOL


def rewritten(data: bytes) -> bytes:
    """A pickle of any protocol in the opcodes of protocol 2, as far as there are such.

    Raises:
        ValueError: If it cannot be taken apart.
    """
    # What is written, an opcode each; beside it the string that it pushes, if it does.
    written: list[tuple[bytes, str | None]] = []
    memo: dict[int, str | None] = {}
    opcodes: list[tuple[str, Any, int]] = [
        (opcode.name, argument, place or 0) for opcode, argument, place in pickletools.genops(data)
    ]
    for (name, argument, begin), (_, _, end) in pairwise([*opcodes, ("", None, len(data))]):
        if name == "PROTO":
            written.append((bytes((0x80, PROTOCOL)), None))
        elif name in _STRINGS:
            written.append(_string(argument))
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            number = len(memo) if name == "MEMOIZE" else argument
            memo[number] = written[-1][1] if written else None
            if memo[number] is None:
                written.append((b"r" + struct.pack("<I", number), None))
        elif name in ("BINGET", "LONG_BINGET"):
            string = memo.get(argument)
            plain = (b"j" + struct.pack("<I", argument), None)
            written.append(plain if string is None else _string(string))
        elif name == "STACK_GLOBAL":
            written.append(_global(*(string for _, string in written[-2:])))
            del written[-3:-1]
        elif name != "FRAME":
            written.append((data[begin:end], None))
    return b"".join(opcode for opcode, _ in written)


def _string(string: str) -> tuple[bytes, str]:
    data = string.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data, string


def _global(*names: str | None) -> tuple[bytes, None]:
    if len(names) != 2 or None in names or any("\n" in str(name) for name in names):
        raise ValueError("a global is named by something else than two strings")
    return b"c" + "".join(f"{name}\n" for name in names).encode(), None
