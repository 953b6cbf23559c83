"""Tokens on disk: flat arrays in safetensors files, of which stretches are read.

A shard holds whole documents: `tokens`, `word_starts` (one per token: does it begin a word),
`sentences` (where each sentence begins among the tokens, and the end) and `documents` (where each
document begins among the sentences, and the end).

Nothing is mapped: a file that is cut, or a disk that fails, while a run reads from it would end the
process without a word; a read that fails is an error like any other.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from clozeworks.arrays import Int64Array
from clozeworks.errors import InputError
from clozeworks.storage.atomic import atomic_file
from clozeworks.storage.flat_arrays import StoredArray, stored_arrays

NARROW_LIMIT = 65_536
ARRAYS = ("tokens", "word_starts", "sentences", "documents")

Tokens = NDArray[np.unsignedinteger[Any]]


def token_dtype(size: int) -> type[np.uint16] | type[np.uint32]:
    """The narrowest integers that hold the ids of a vocabulary."""
    return np.uint16 if size <= NARROW_LIMIT else np.uint32


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest says of a shard."""

    file: str
    sha256: str
    bytes: int
    tokens: int
    sentences: int
    documents: int


def totals(entries: Sequence[ShardEntry]) -> dict[str, Any]:
    """What the manifest says of all shards of a part together."""
    identity = sha256("".join(entry.sha256 for entry in entries).encode()).hexdigest()
    units = ("tokens", "sentences", "documents")
    return {
        "identity": identity,
        **{unit: sum(getattr(entry, unit) for entry in entries) for unit in units},
    }


def write_shard(path: Path, arrays: dict[str, NDArray[Any]]) -> ShardEntry:
    """Writes a shard completely or not at all, and describes it."""
    data = save({name: np.ascontiguousarray(arrays[name]) for name in ARRAYS})
    with atomic_file(path) as file:
        file.write(data)
    return ShardEntry(
        path.name,
        sha256(data).hexdigest(),
        len(data),
        len(arrays["tokens"]),
        len(arrays["sentences"]) - 1,
        len(arrays["documents"]) - 1,
    )


class _OpenFile:
    """A file that several threads read, closed when nobody uses it any more."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._lock = Lock()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def read(self, begin: int, size: int) -> bytes:
        """Some bytes.

        Raises:
            OSError: If they cannot be read, or the file ends before them.
        """
        data = self._some(begin, size)
        while len(data) < size:  # a system may give less than was asked for
            more = self._some(begin + len(data), size - len(data))
            if not more:
                raise OSError("it was cut short")
            data += more
        return data

    def _some(self, begin: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), size, begin)
        with self._lock:
            self._file.seek(begin)
            return self._file.read(size)


class Shard:
    """The arrays of one shard file."""

    def __init__(self, path: Path, entry: ShardEntry) -> None:
        self.path = path
        self.entry = entry

    @cached_property
    def _stored(self) -> dict[str, StoredArray]:
        """Where the arrays are; their sizes are checked against the manifest."""
        try:
            stored = stored_arrays(self.path)
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from error
        except ValueError as error:
            raise self._damaged(str(error)) from error
        entry = self.entry
        wanted = {
            "tokens": (entry.tokens, "u"),
            "word_starts": (entry.tokens, "b"),
            "sentences": (entry.sentences + 1, "u"),
            "documents": (entry.documents + 1, "u"),
        }
        if wanted != {name: (array.count, array.dtype.kind) for name, array in stored.items()}:
            raise self._damaged("it holds other arrays than the manifest says")
        return stored

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """A stretch of an array, or all of it.

        Raises:
            InputError: If the file cannot be read, or ends before that.
        """
        array = self._stored[name]
        stop = array.count if stop is None else min(stop, array.count)
        width = array.dtype.itemsize
        try:
            data = _opened(self).read(array.begin + start * width, (stop - start) * width)
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from error
        return np.frombuffer(data, array.dtype)

    def offsets(self, name: Literal["sentences", "documents"]) -> Int64Array:
        """Where sentences or documents begin, and the end."""
        offsets = self.read(name).astype(np.int64)
        end = self.entry.tokens if name == "sentences" else self.entry.sentences
        if offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
            raise self._damaged(f"its {name} are out of order")
        return offsets

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"{self.path} is not a readable shard ({why}); put an intact copy in its place, or "
            "build the corpus again with --overwrite."
        )


@lru_cache(maxsize=256)  # a process may have a thousand files open, and a corpus more shards
def _opened(shard: Shard) -> _OpenFile:
    return _OpenFile(shard.path)
