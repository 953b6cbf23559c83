"""The arrays that examples are read from: built when first needed, kept in a file where possible.

An index file holds flat arrays with one entry per example and a checksum of them. Its name is a
hash of everything the arrays depend on, so a file never has to be thrown away for being out of
date; a damaged one is built again.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from clozeworks import config
from clozeworks.arrays import Int64Array
from clozeworks.storage.atomic import atomic_file
from clozeworks.storage.flat_arrays import read_arrays

VERSION = 1
"""Part of every file's name; to be raised when the same settings give other arrays."""
HELD = 2
"""Copies held in memory: the last epoch's and this one's."""
CHECK = "check"

IndexArrays = dict[str, NDArray[Any]]


class ExampleIndex:
    """The arrays of every copy.

    Args:
        spec: The spec of the examples.
        facts: What else the arrays depend on: the split, the seed, the room.
        build: Makes the arrays of a copy; all of equal length, of unsigned numbers.
        cache: Where files are kept.
    """

    def __init__(
        self,
        spec: Any,
        facts: Mapping[str, Any],
        build: Callable[[int], IndexArrays],
        cache: Path | None,
    ) -> None:
        self._about = {"version": VERSION, "spec": config.plain(spec), **facts}
        self._build = build
        self._cache = cache
        self._held: dict[int, IndexArrays] = {}
        self._sizes: dict[int, int] = {}
        self._lock = Lock()

    def size(self, copy: int) -> int:
        """How many entries the arrays of a copy have."""
        if copy not in self._sizes:
            self.copy(copy)
        return self._sizes[copy]

    def copy(self, copy: int) -> IndexArrays:
        """The arrays of a copy."""
        arrays = self._held.get(copy)
        if arrays is not None:
            return arrays
        with self._lock:
            return self._find(copy)

    def path(self, copy: int) -> Path | None:
        """Where the arrays of a copy are kept."""
        if self._cache is None:
            return None
        about = json.dumps({**self._about, "copy": copy}, sort_keys=True)
        digest = blake2b(about.encode(), digest_size=16).hexdigest()
        return self._cache / f"{self._about['spec']['kind']}-{digest}.safetensors"

    def _find(self, copy: int) -> IndexArrays:
        if copy in self._held:
            return self._held[copy]
        path = self.path(copy)
        arrays = _read(path)
        if arrays is None:
            arrays = self._build(copy)
            if path is not None:
                # A folder on a read-only or full disk costs time at the next start, no more.
                with suppress(OSError):
                    _write(path, arrays)
        self._held[copy] = arrays
        while len(self._held) > HELD:
            del self._held[next(iter(self._held))]
        self._sizes[copy] = len(next(iter(arrays.values())))
        return arrays


def narrow(values: Int64Array) -> NDArray[Any]:
    """Numbers from 0 on, as narrow as they can be."""
    largest = int(values.max(initial=0))
    kinds = (np.uint8, np.uint16, np.uint32, np.uint64)
    return values.astype(next(kind for kind in kinds if largest <= np.iinfo(kind).max))


def _write(path: Path, arrays: IndexArrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # One file with no metadata: equal arrays are equal bytes.
    data = save({**arrays, CHECK: _checksum(arrays)})
    with atomic_file(path) as file:
        file.write(data)


def _read(path: Path | None) -> IndexArrays | None:
    """The arrays of a file; None if it is missing or damaged."""
    if path is None:
        return None
    try:
        arrays = read_arrays(path)
        check = arrays.pop(CHECK)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # Whatever a damaged header can look like.
        return None
    same = len({len(array) for array in arrays.values()}) == 1
    return arrays if same and np.array_equal(check, _checksum(arrays)) else None


def _checksum(arrays: IndexArrays) -> NDArray[np.uint8]:
    digest = blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {len(arrays[name])}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)
