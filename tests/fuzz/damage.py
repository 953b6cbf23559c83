"""Damages files, has them read, and notes every error that is not a sentence."""

# ruff: noqa: E501 (a sample is read more easily on one line)

import copy
import json
import math
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clozeworks.errors import ClozeworksError

SECONDS, BYTES, LONGEST = 2.0, 4 << 30, 5000
VALUES = [
    None, True, False, 0, 1, -1, 2, 7, 1000, 2**31, 2**32 + 5, 2**63, -(2**70), 10**400, 1e308, 1e-320,
    0.5, -0.5, 1.5, math.nan, math.inf, -math.inf, "", " ", "none", "x", "0", "\x00", "\x1b[2J", "\ud800",
    "a" * 300, "é\u202e", "../x", "/etc/passwd", "bert", "gelu", [], [[]], [0], [-1], ["x"], [None],
    [math.inf], [{}], {}, {"": 1}, {"kind": []}, {"kind": "x"}, {"type": "x"}, {"x": {"x": []}},
    [0] * 50, {"0": "a", "1": "a"}, {"a": 0, "b": 0},
]  # fmt: skip
PIECES = [
    b"", b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\t", b"\"", b"'", b"\\",
    b"{", b"}", b"[", b"]", b":", b",", b"=", b"#", b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 5000,
    b"[" * 3000, b"null", b"true", b"\xc3\x28", b"\xed\xa0\x80", b"\x1b[2J", b"\xe2\x80\xae", b"|", b";",
    b"\\ud800", b"\\u0000", "　".encode(), b"{{", b"{%", b"%}", b"-", b"0", b"O", b"B-", b"I-", b"_",
]  # fmt: skip


class TooSlow(BaseException):
    """The alarm rang."""


@dataclass
class Reader:
    """Something that reads files.

    Attributes:
        files: Valid content by path; what `damaged` names is changed.
        read: Reads the folder that holds them.
        damaged: The paths that are changed; all if empty.
        seconds: How long it may take.
    """

    files: dict[str, bytes]
    read: Callable[[Path], object]
    damaged: tuple[str, ...] = ()
    seconds: float = SECONDS


@dataclass
class Findings:
    """What was found: an example for each place that raised something else."""

    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    found: dict[str, tuple[bytes, str]] = field(default_factory=dict)


def paths(data: object, path: tuple = ()) -> Iterator[tuple]:
    """Every key of nested objects and lists."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in list(pairs)[:60]:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def restructured(rng: random.Random, base: object) -> object:
    """A copy of plain data with some values changed, taken away, added or moved."""
    data = copy.deepcopy(base)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not isinstance(data, dict | list) or rng.random() < 0.01:
            return copy.deepcopy(rng.choice(VALUES))
        known = list(paths(data))
        *above, last = rng.choice(known) if known else ("x",)
        inner = data
        for key in above:
            inner = inner[key]
        choice = rng.random()
        if choice < 0.65:
            new = copy.deepcopy(rng.choice(VALUES))
            if isinstance(inner, dict) or last != "x":
                inner[last] = new
        elif choice < 0.8:
            if known:
                del inner[last]
        elif isinstance(inner, dict):
            key = rng.choice(["x", "kind", "type", "", "0", "labels", *map(str, above)])
            inner[key] = copy.deepcopy(rng.choice(VALUES))
        else:
            inner.append(copy.deepcopy(rng.choice([*VALUES, *inner[:1]])))
    return data


def scrambled(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some changed, taken away, put in, repeated or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(changed) + 1)
        choice = rng.random()
        if choice < 0.3 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif choice < 0.5:
            del changed[at : at + rng.choice((1, 1, 2, 5, 30))]
        elif choice < 0.75:
            changed[at:at] = rng.choice(PIECES)
        elif choice < 0.85:
            changed[at:at] = changed[at : at + rng.randint(1, 40)]
        elif choice < 0.9:
            del changed[at:]
        elif changed:
            other = rng.randrange(len(changed))
            changed[at : at + 4] = changed[other : other + 4]
    return bytes(changed)


def mutated(rng: random.Random, name: str, data: bytes) -> bytes:
    """One file, damaged."""
    if rng.random() < 0.6:
        if name.endswith(".json"):
            text = json.dumps(restructured(rng, json.loads(data)))
            return text.encode("utf-8", "surrogatepass")
        if name.endswith(".jsonl"):
            lines = [json.loads(line) for line in data.splitlines()]
            number = rng.randrange(len(lines))
            lines[number] = restructured(rng, lines[number])
            return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        if name.endswith(".safetensors"):
            size = int.from_bytes(data[:8], "little")
            head = json.dumps(restructured(rng, json.loads(data[8 : 8 + size]))).encode()
            size = rng.choice((len(head), len(head), len(head), 0, len(head) + 1, 2**63))
            return (
                size.to_bytes(8, "little") + head + data[8 + int.from_bytes(data[:8], "little") :]
            )
    return scrambled(rng, data)


def is_sentence(text: str) -> bool:
    """Whether a message can be shown as it is."""
    ends = text.rstrip().endswith((".", "?", "…")) or "\n" in text
    return 0 < len(text) <= LONGEST and (ends or "with: clozeworks " in text)  # a command to type


def where(error: BaseException) -> str:
    """The kind of an error and the innermost line of the package it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "/clozeworks/" in each.filename] or frames
    return f"{type(error).__name__} at {ours[-1].filename.rpartition('/clozeworks/')[2]}:{ours[-1].lineno}"


def ring(*_: object) -> None:
    raise TooSlow


def fuzz(reader: Reader, folder: Path, rng: random.Random, count: int, seconds: float) -> Findings:
    """Damages the inputs of a reader so many times, or for so long."""
    found, began = Findings(), time.monotonic()
    names = reader.damaged or tuple(reader.files)
    for name, data in reader.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    reader.read(folder)  # it must be valid
    signal.signal(signal.SIGALRM, ring)
    while found.tried < count and time.monotonic() - began < seconds:
        name = rng.choice(names)
        data = mutated(rng, name, reader.files[name])
        (folder / name).write_bytes(data)
        found.tried += 1
        key = problem = ""
        signal.setitimer(signal.ITIMER_REAL, reader.seconds)
        try:
            reader.read(folder)
        except ClozeworksError as error:
            found.refused += 1
            if not is_sentence(str(error)):
                key, problem = f"{where(error)}, not a sentence", repr(str(error)[:300])
        except TooSlow as error:
            key, problem = where(error), "too slow"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            key, problem = where(error), f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if key and key not in found.found:
            found.found[key] = (data, f"{name}: {problem}")
        (folder / name).write_bytes(reader.files[name])
    found.seconds = time.monotonic() - began
    return found
