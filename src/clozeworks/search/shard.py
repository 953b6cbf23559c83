"""A shard of an index: some documents with their texts, vectors and words, in one mapped file.

A shard is a safetensors file of flat arrays, written once under a temporary name and never changed:
a search that has it open goes on reading what it opened, whatever a later command writes or
removes. Its size is compared when it is opened, and again before each block is read, so that a file
that somebody cuts gives a sentence; see decision 25.

Shapes: D documents, P passages of them, W width.
"""

import json
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from clozeworks.arrays import BoolArray, Float32Array, Int64Array, Uint32Array
from clozeworks.errors import InputError
from clozeworks.search.bm25 import Postings
from clozeworks.search.documents import HASH_BYTES, IndexedDocument, PassageSpan, hash_of
from clozeworks.search.top_k import longest
from clozeworks.storage.atomic import atomic_file
from clozeworks.storage.flat_arrays import StoredArray, stored_in
from clozeworks.storage.regular_files import open_regular

SUFFIX = ".safetensors"
HashName = Literal["text_hashes", "id_hashes"]
_OTHER_SIZE = "its size is another"


@dataclass(frozen=True)
class FileNote:
    """What an index notes of one of its files."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ShardNote:
    """What an index notes of a shard."""

    number: int
    file: str
    bytes: int
    sha256: str
    documents: int
    passages: int
    removed: str = ""
    """Which documents no longer count: a bit each, as hexadecimal digits; empty if all count."""
    codes: FileNote | None = None
    """The file of its codes, if it has one."""


def alive_in(note: ShardNote) -> BoolArray:
    """Which documents of a shard count, (D,).

    Raises:
        ValueError: If what is noted is not about so many documents.
    """
    if not note.removed:
        return np.ones(note.documents, np.bool_)
    packed = np.frombuffer(bytes.fromhex(note.removed), np.uint8)
    if len(packed) != -(-note.documents // 8):
        raise ValueError(f"{note.file}: what was removed is of another number of documents")
    return ~np.unpackbits(packed, count=note.documents).astype(np.bool_)


def removed_bits(alive: BoolArray) -> str:
    """The same, as it is noted."""
    return "" if alive.all() else np.packbits(~alive).tobytes().hex()


def write_shard(
    path: Path,
    number: int,
    documents: Sequence[IndexedDocument],
    passages: Sequence[Sequence[PassageSpan]],
    vectors: Float32Array,
) -> ShardNote:
    """Writes a shard completely or not at all.

    Args:
        path: Its file.
        number: Its number, which no other shard of the index ever had.
        documents: The documents.
        passages: The passages of each.
        vectors: (P, W), a vector for each passage, one document after the other.

    Raises:
        OutputError: If it cannot be written.
    """
    counts = [len(each) for each in passages]
    spans = np.array([span for each in passages for span in each], np.uint32).reshape(-1, 2)
    arrays: dict[str, NDArray[Any]] = {
        "vectors": np.ascontiguousarray(vectors, "<f4").reshape(-1),
        "passage_documents": np.repeat(np.arange(len(documents), dtype=np.uint32), counts),
        "passage_begins": np.ascontiguousarray(spans[:, 0]),
        "passage_ends": np.ascontiguousarray(spans[:, 1]),
        **_hashes("text_hashes", [document.text_hash for document in documents]),
        **_hashes("id_hashes", [hash_of(document.id) for document in documents]),
        **_strings("id", [document.id for document in documents]),
        **_strings("text", [document.text for document in documents]),
        **_strings("record", [document.record() for document in documents]),
        **Postings.of([document.text for document in documents]).arrays(),
    }
    note = write_arrays(path, arrays)
    return ShardNote(number, note.file, note.bytes, note.sha256, len(documents), int(sum(counts)))


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> FileNote:
    """Writes flat arrays completely or not at all."""
    data = save(arrays)
    with atomic_file(path) as file:
        file.write(data)
    return FileNote(path.name, len(data), sha256(data).hexdigest())


def _bytes(parts: Any) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(parts), np.uint8)


def _hashes(name: str, digests: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Hashes as they come, and in which order they ascend."""
    flat = _bytes(digests)
    order = np.argsort(flat.view(f"S{HASH_BYTES}"), kind="stable")
    return {name: flat, f"{name}_order": order.astype(np.uint32)}


def _strings(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Texts as one array of bytes, and where each begins, and the end."""
    encoded = [text.encode("utf-8") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.uint64)
    return {f"{name}s": _bytes(encoded), f"{name}_offsets": offsets}


class MappedArrays:
    """The flat arrays of a file, mapped.

    Args:
        path: The file.
        size: How many bytes it must have.

    Raises:
        InputError: If it cannot be read, or is not what its header says.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._size = size
        try:
            with open_regular(path) as file:
                if os.fstat(file.fileno()).st_size != size:
                    raise ValueError(_OTHER_SIZE)
                self._stored: dict[str, StoredArray] = stored_in(file)
                # Private and writable, because torch warns of arrays that cannot be written to.
                self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise self.damaged(error.strerror or str(error)) from error
        except ValueError as error:
            raise self.damaged(str(error)) from error

    def check(self) -> None:
        """Sees that the file still has all its bytes: to read what is cut off ends the process.

        Raises:
            InputError: If it does not.
        """
        if self._map.size() != self._size:  # of the file, not of what is mapped
            raise self.damaged(_OTHER_SIZE)

    def array(self, name: str, dtype: type[np.generic], count: int) -> NDArray[Any]:
        """An array of which the type and the length are known.

        Raises:
            InputError: If it is not in the file like that.
        """
        stored = self._stored.get(name)
        if stored is None or stored.dtype != np.dtype(dtype) or stored.count != count:
            raise self.damaged(f"it does not hold {name} as the index says")
        self.check()
        return np.frombuffer(self._map, stored.dtype, stored.count, stored.begin)

    def count(self, name: str) -> int:
        """The length of an array."""
        if name not in self._stored:
            raise self.damaged(f"it does not hold {name}")
        return self._stored[name].count

    def damaged(self, why: str) -> InputError:
        """The error for a file that is not what it was."""
        return InputError(
            f"{self.path} is damaged ({why}); put an intact copy in its place, or build the index "
            "again with --overwrite."
        )


class IndexShard:
    """The documents of one shard.

    Args:
        folder: The folder of the index.
        note: What the index notes of the shard.
        width: The width of the vectors.

    Raises:
        InputError: If the file is not the one that is noted.
    """

    def __init__(self, folder: Path, note: ShardNote, width: int) -> None:
        self.note = note
        self.width = width
        self._mapped = MappedArrays(folder / note.file, note.bytes)
        # Before anything is made of these numbers: the file has so many documents and passages.
        self._mapped.array("id_offsets", np.uint64, note.documents + 1)
        self._mapped.array("passage_documents", np.uint32, note.passages)
        try:
            self.alive = alive_in(note)
        except ValueError as error:
            raise self._mapped.damaged(str(error)) from error

    def check(self) -> None:
        """Sees that the file still has all its bytes."""
        self._mapped.check()

    @cached_property
    def vectors(self) -> Float32Array:
        """(P, W)."""
        count = self.note.passages
        flat = self._mapped.array("vectors", np.float32, count * self.width)
        return flat.reshape(count, self.width)

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector."""
        self.check()
        return longest(self.vectors)

    @cached_property
    def owners(self) -> Uint32Array:
        """The document of each passage, (P,)."""
        owners: Uint32Array
        owners = self._mapped.array("passage_documents", np.uint32, self.note.passages)
        steps = np.diff(owners.astype(np.int64), prepend=-1)
        if not ((steps == 0) | (steps == 1)).all() or owners[-1] != self.note.documents - 1:
            raise self._mapped.damaged("its passages are out of order")
        return owners

    def is_alive(self, passage: int) -> bool:
        """Whether the document of a passage counts."""
        return passage < self.note.passages and bool(self.alive[self.owners[passage]])

    @cached_property
    def postings(self) -> Postings:
        """Which documents have which terms."""
        mapped = self._mapped
        terms, postings = mapped.count("terms"), mapped.count("posting_documents")
        found = Postings(
            mapped.array("terms", np.uint64, terms),
            mapped.array("term_offsets", np.uint64, terms + 1),
            mapped.array("posting_documents", np.uint32, postings),
            mapped.array("posting_counts", np.uint32, postings),
            mapped.array("lengths", np.uint32, self.note.documents),
        )
        if fault := found.fault():
            raise mapped.damaged(fault)
        return found

    def hashes(self, name: HashName) -> NDArray[np.bytes_]:
        """The hash of each text or id, (D,).

        Two are equal as numpy's strings if and only if all their bytes are: none is shorter.
        """
        count = self.note.documents
        flat = self._mapped.array(name, np.uint8, count * HASH_BYTES)
        return flat.view(f"S{HASH_BYTES}")

    def find(self, name: HashName, wanted: NDArray[np.bytes_]) -> Int64Array:
        """The row of each wanted hash; -1 where there is none."""
        hashes = self.hashes(name)
        order = self._mapped.array(f"{name}_order", np.uint32, self.note.documents)
        rows = order.astype(np.int64)
        if int(rows.max()) >= len(hashes):
            raise self._mapped.damaged(f"the order of its {name} is not one")
        places = np.minimum(np.searchsorted(hashes, wanted, sorter=rows), len(hashes) - 1)
        return np.where(hashes[rows[places]] == wanted, rows[places], -1)

    def id(self, row: int) -> str:
        """The id of a document."""
        return self._string("id", row)

    def text(self, row: int) -> str:
        """The text of a document."""
        return self._string("text", row)

    def record(self, row: int) -> tuple[dict[str, Any], str]:
        """The columns of a document, and where it came from."""
        try:
            record = json.loads(self._string("record", row))
            columns, source = record["columns"], record["source"]
            if not isinstance(columns, dict) or not isinstance(source, str):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._mapped.damaged("what it says of a document cannot be read") from error
        return columns, source

    def document(self, row: int) -> IndexedDocument:
        """A document with all that is stored of it."""
        return IndexedDocument(self.id(row), self.text(row), *self.record(row))

    def passages(self, row: int) -> slice:
        """Which passages are those of a document."""
        begin, end = np.searchsorted(self.owners, np.array([row, row + 1], np.uint32))
        return slice(int(begin), int(end))

    def span(self, passage: int) -> PassageSpan:
        """Where a passage is in the text of its document."""
        count = self.note.passages
        begin = int(self._mapped.array("passage_begins", np.uint32, count)[passage])
        end = int(self._mapped.array("passage_ends", np.uint32, count)[passage])
        if begin > end:
            raise self._mapped.damaged("a passage ends before it begins")
        return PassageSpan(begin, end)

    def _string(self, name: str, row: int) -> str:
        offsets = self._mapped.array(f"{name}_offsets", np.uint64, self.note.documents + 1)
        begin, end = int(offsets[row]), int(offsets[row + 1])
        count = self._mapped.count(f"{name}s")
        if not begin <= end <= count:
            raise self._mapped.damaged(f"its {name}s are out of order")
        data = self._mapped.array(f"{name}s", np.uint8, count)[begin:end]
        try:
            return data.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._mapped.damaged(f"one of its {name}s is not text") from error
