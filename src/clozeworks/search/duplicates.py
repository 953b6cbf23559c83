"""Near duplicates and paraphrases: documents whose vectors are nearly the same.

Every document is compared with every other, block by block; what lies above the threshold, directly
or through others, is a group. Vectors of passages are averaged, so a document has one.

Shapes: N documents, W width.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from clozeworks.arrays import Float32Array, Int64Array
from clozeworks.search.store import DocumentStore

# Rows that are compared with a shard at once.
_ROWS = 1_024


@dataclass(frozen=True)
class DuplicateText:
    """A document of a group."""

    id: str
    text: str
    similarity: float
    """To the first document of the group, from -1 to 1."""
    exact: bool
    """Whether it has the same text as the first one."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dict(vars(self))


def document_vectors(store: DocumentStore) -> Iterator[tuple[Int64Array, Float32Array]]:
    """Positions and unit vectors of the documents of each shard."""
    first = 0
    for shard in store.shards:
        shard.check()
        rows = np.flatnonzero(shard.alive)
        starts = np.searchsorted(shard.owners, np.arange(shard.note.documents))
        vectors = shard.vectors
        if shard.note.passages > shard.note.documents:
            vectors = np.add.reduceat(vectors, starts, axis=0)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        yield first + rows, (vectors / np.maximum(lengths, 1e-12))[rows]
        first += shard.note.documents


def duplicate_groups(
    store: DocumentStore,
    threshold: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[list[DuplicateText]]:
    """The groups of documents with a similarity of at least `threshold`, the largest first.

    Members are in the order of their ids, in which numbers count as such; so are groups of one
    size, by their first member.
    """
    total = len(store)
    if not total:
        return []
    positions = np.concatenate([numbers for numbers, _ in document_vectors(store)])
    labels = np.arange(total)
    done = 0
    for begin, block in _blocks(store):
        other = 0
        for _, vectors in document_vectors(store):
            end = other + len(vectors)
            if end > begin:
                with torch.inference_mode():
                    scores = torch.from_numpy(block) @ torch.from_numpy(vectors).T
                    rows, columns = torch.nonzero(scores >= threshold, as_tuple=True)
                labels = _joined(labels, begin + rows.numpy(), other + columns.numpy())
            other = end
        done += len(block)
        progress(done, total)
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    groups = [
        _members(store, positions[members]) for members in np.split(order, cuts) if len(members) > 1
    ]
    return sorted(groups, key=lambda group: (-len(group), natural(group[0].id)))


def _blocks(store: DocumentStore) -> Iterator[tuple[int, Float32Array]]:
    begin = 0
    for _, vectors in document_vectors(store):
        for start in range(0, len(vectors), _ROWS):
            yield begin + start, vectors[start : start + _ROWS]
        begin += len(vectors)


def _joined(labels: Int64Array, first: Int64Array, second: Int64Array) -> Int64Array:
    """The labels of groups after some pairs were joined."""
    apart = labels[first] != labels[second]
    if not apart.any():
        return labels
    pairs = (labels[first[apart]], labels[second[apart]])
    size = len(labels)
    graph = coo_array((np.ones(len(pairs[0]), np.bool_), pairs), shape=(size, size))
    joined: Int64Array = connected_components(graph, directed=False)[1][labels]
    return joined.astype(np.int64)


def _members(store: DocumentStore, positions: Int64Array) -> list[DuplicateText]:
    documents = {int(position): store.document(int(position)) for position in positions}
    order = sorted(documents, key=lambda position: natural(documents[position].id))
    vectors = np.stack(
        [store.vectors_at(np.array(store.passages_of(each))).sum(axis=0) for each in order]
    )
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    first = documents[order[0]]
    return [
        DuplicateText(
            documents[each].id,
            documents[each].text,
            min(1.0, float(vector @ vectors[0])),
            documents[each].text == first.text,
        )
        for each, vector in zip(order, vectors, strict=True)
    ]


def natural(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """A key that sorts ids as people do: row 2 comes before row 10."""
    parts = [part for part in re.split(r"(\d{1,18})", name) if part]
    key = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
    return key, name
