"""Approximate search for large indexes: a graph of neighbours, by the library `usearch`.

Paper: Malkov and Yashunin 2016 (HNSW). It finds most of the nearest vectors and looks at few; how
many of the true ones it finds is measured when it is built, and printed. Among many equal texts it
may find few; a graph that finds too few is not used by itself.

The library reads its file without doubting it; so the file is compared with its checksum first.
"""

import mmap
import os
from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from clozeworks.arrays import Float32Array, Int64Array, Uint64Array
from clozeworks.errors import InputError, MissingExtra
from clozeworks.search.state import NeighboursNote
from clozeworks.storage.atomic import atomic_file
from clozeworks.storage.regular_files import open_regular

FILE = "neighbours.usearch"
# A key is the number of a shard and of a passage in it.
_SHIFT = np.uint64(32)
# What a graph finds of the exact top 10 at least, or it is not used unless it is asked for.
LEAST_RECALL = 0.9
_OTHER_SIZE = "its size is another"


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


def why_unused(note: NeighboursNote) -> str | None:
    """Why a search does not use a graph by itself, as a sentence; None if it does."""
    # A recall that is not a number is not enough either.
    if note.recall is not None and note.recall >= LEAST_RECALL:
        return None
    found = "was not measured" if note.recall is None else f"is {note.recall:.1%}"
    return (
        f"The graph of neighbours is not used: what it finds of the 10 nearest {found}, and less "
        f"than {LEAST_RECALL:.0%} is too little; searches look at all vectors. Equal texts hide "
        "each other in a graph; index each text once, or leave out --neighbours."
    )


class NeighbourGraph:
    """The graph of an index.

    Its file is opened at once, so that what a later command writes does not matter, and read when
    it is first needed.

    Args:
        folder: The folder of the index.
        note: What the index notes of the graph.
        width: The width of the vectors.

    Raises:
        InputError: If its file is not the one that is noted.
    """

    def __init__(self, folder: Path, note: NeighboursNote, width: int) -> None:
        self._path = folder / note.file
        self._note = note
        self._width = width
        try:
            with open_regular(self._path) as file:
                # Before any of it is read: a file may be larger than any memory.
                if os.fstat(file.fileno()).st_size != note.bytes:
                    raise ValueError(_OTHER_SIZE)
                self._map = mmap.mmap(file.fileno(), note.bytes, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _damaged(self._path, error.strerror or str(error)) from error
        except ValueError as error:
            raise _damaged(self._path, str(error)) from error

    def load(self) -> None:
        """Reads the file, if it was not read before.

        Raises:
            InputError: If its content is not the one that is noted.
            MissingExtra: If the library is not installed.
        """
        self._graph  # noqa: B018 (reads it)

    @cached_property
    def _graph(self) -> Any:
        kind = usearch_class()
        # To read what is cut off ends the process.
        if self._map.size() != self._note.bytes:
            raise _damaged(self._path, _OTHER_SIZE)
        data = bytes(self._map)
        if sha256(data).hexdigest() != self._note.sha256:
            raise _damaged(self._path, "its content is another")
        graph = kind.restore(data)
        if graph is None or graph.ndim != self._width:
            raise _damaged(self._path, "it is of other vectors")
        self._map.close()
        return graph

    def nearest(self, query: Float32Array, k: int) -> tuple[Int64Array, Int64Array]:
        """The numbers of shards and of passages in them that are about the nearest."""
        keys: Uint64Array = self._graph.search(query, k).keys
        return (keys >> _SHIFT).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged ({why}); put an intact copy in its place, or build the index again "
        "with --overwrite."
    )
