"""Approximate search for large indexes: a graph of neighbours, by the library `usearch`.

Paper: Malkov and Yashunin 2016 (HNSW). It finds most of the nearest vectors and looks at few; how
many of the true ones it finds is measured when it is built, and printed.

The library reads its file without doubting it; so the file is compared with its checksum first.
"""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from clozeworks.arrays import Float32Array, Int64Array, Uint64Array
from clozeworks.errors import InputError, MissingExtra
from clozeworks.search.state import NeighboursNote
from clozeworks.storage.atomic import atomic_file

FILE = "neighbours.usearch"
# A key is the number of a shard and of a passage in it.
_SHIFT = np.uint64(32)


def usearch_class() -> Any:
    """The index of the library.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        from usearch.index import Index as Neighbours
    except ImportError as error:
        raise MissingExtra("Approximate search", "usearch", "search") from error
    return Neighbours


def write_neighbours(
    folder: Path, width: int, shards: Iterable[tuple[int, Float32Array]]
) -> NeighboursNote:
    """Builds the graph of all vectors of some shards, given by their numbers, and writes it."""
    graph = usearch_class()(ndim=width, metric="ip", dtype="f16")
    numbers = []
    for number, vectors in shards:
        keys = (np.uint64(number) << _SHIFT) + np.arange(len(vectors), dtype=np.uint64)
        graph.add(keys, np.array(vectors))
        numbers.append(number)
    data = bytes(graph.save() or b"")
    with atomic_file(folder / FILE) as file:
        file.write(data)
    return NeighboursNote(FILE, len(data), sha256(data).hexdigest(), tuple(numbers))


class NeighbourGraph:
    """The graph of an index.

    Raises:
        InputError: If its file is not the one that is noted.
        MissingExtra: If the library is not installed.
    """

    def __init__(self, folder: Path, note: NeighboursNote, width: int) -> None:
        kind = usearch_class()
        path = folder / note.file
        try:
            data = path.read_bytes()
        except OSError as error:
            raise _damaged(path, error.strerror or str(error)) from error
        if sha256(data).hexdigest() != note.sha256:
            raise _damaged(path, "its content is another")
        self._graph = kind.restore(data)
        if self._graph is None or self._graph.ndim != width:
            raise _damaged(path, "it is of other vectors")

    def nearest(self, query: Float32Array, k: int) -> tuple[Int64Array, Int64Array]:
        """The numbers of shards and of passages in them that are about the nearest."""
        keys: Uint64Array = self._graph.search(query, k).keys
        return (keys >> _SHIFT).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged ({why}); put an intact copy in its place, or build the index again "
        "with --overwrite."
    )
