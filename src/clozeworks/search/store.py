"""An index that is open: its shards, and the ways to find documents in them.

Positions of documents and passages are counted through all shards. They mean nothing to the next
program, which may find the shards in another order; ids do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from clozeworks.arrays import BoolArray, Float32Array, Int64Array
from clozeworks.errors import InputError, UnknownName
from clozeworks.search.bm25 import bm25
from clozeworks.search.codes import Binary, Codes, Coding, Int8, best_by_codes
from clozeworks.search.documents import IndexedDocument, SearchHit
from clozeworks.search.filters import Condition
from clozeworks.search.neighbours import NeighbourGraph, why_unused
from clozeworks.search.shard import IndexShard, MappedArrays
from clozeworks.search.state import CodingNote, IndexState, read_state
from clozeworks.search.terms import terms_of
from clozeworks.search.top_k import ScoredBlock, VectorBlock, top_k
from clozeworks.storage.locks import held

_TRIES = 5
# Candidates that are scored again at a time.
_SCORED = 1 << 10
_Opened = TypeVar("_Opened")
# From queries and a number to that many passages of each query, and their scores.
Nearest = Callable[[Float32Array, int], list[tuple[Int64Array, Float32Array]]]

# Characters that are shown on each side of a passage.
_AROUND = 300


@dataclass(frozen=True, slots=True)
class Ranking:
    """A document of a ranking: its position, its score, and the passage that fits best."""

    document: int
    score: float
    passage: int


class DocumentStore:
    """The documents of an index.

    All its files are opened at once, and stay open, whatever another program writes or removes.
    Codes and neighbours only make a search quicker: if they cannot be read, the first search that
    needs them says so, or does without them if the folder has a newer state.

    Args:
        folder: The folder of the index.
        state: What `index.json` says, if it was read before.

    Raises:
        InputError: If it is not an index, or damaged.
    """

    def __init__(self, folder: Path, state: IndexState | None = None) -> None:
        self.folder = folder
        self.state = state or read_state(folder)
        self.shards = [IndexShard(folder, note, self.state.width) for note in self.state.shards]
        sizes = [shard.note.documents for shard in self.shards]
        self._documents = np.cumsum([0, *sizes])
        self._passages = np.cumsum([0, *(shard.note.passages for shard in self.shards)])
        self._codes: dict[int, tuple[MappedArrays, Codes]] = {}
        self._code_files, self._codes_fault = _opened(self._open_codes)
        self._graph, self._graph_fault = _opened(self._open_graph)

    def _open_codes(self) -> list[MappedArrays]:
        notes = [shard.note.codes for shard in self.shards]
        files = [note for note in notes if note is not None]
        if self.state.coding is None or len(files) < len(notes):
            return []
        return [MappedArrays(self.folder / note.file, note.bytes) for note in files]

    def _open_graph(self) -> NeighbourGraph | None:
        note = self.state.neighbours
        if note is None or not {shard.note.number for shard in self.shards} <= {*note.shards}:
            return None
        return NeighbourGraph(self.folder, note, self.state.width)

    @property
    def is_whole(self) -> bool:
        """Whether all its files could be opened."""
        return self._codes_fault is None and self._graph_fault is None

    def __len__(self) -> int:
        return sum(int(shard.alive.sum()) for shard in self.shards)

    @property
    def passages(self) -> int:
        """How many passages there are, those of removed documents included."""
        return int(self._passages[-1])

    @cached_property
    def _single(self) -> bool:
        """Whether every document is one passage."""
        return bool(self._documents[-1] == self._passages[-1])

    def documents(self) -> Iterator[IndexedDocument]:
        """Every document, in the order of the shards."""
        for shard in self.shards:
            for row in np.flatnonzero(shard.alive).tolist():
                yield shard.document(row)

    def document(self, position: int) -> IndexedDocument:
        """The document at a position."""
        shard, row = self._place(self._documents, position)
        return shard.document(row)

    def document_id(self, position: int) -> str:
        """The id of the document at a position."""
        shard, row = self._place(self._documents, position)
        return shard.id(row)

    def matching(self, conditions: Sequence[Condition]) -> list[BoolArray] | None:
        """Which documents of each shard meet all conditions; None without any.

        Raises:
            UnknownName: If no document has a column of the name.
        """
        if not conditions:
            return None
        seen: set[str] = set()
        masks = []
        for shard in self.shards:
            mask = np.zeros(shard.note.documents, np.bool_)
            for row in np.flatnonzero(shard.alive).tolist():
                columns, _ = shard.record(row)
                seen |= columns.keys()
                mask[row] = all(condition.holds(columns) for condition in conditions)
            masks.append(mask)
        if not seen:
            raise InputError(
                f"the documents of {self.folder} have no columns; conditions are about columns; "
                "leave them out, or index a table."
            )
        for condition in conditions:
            if condition.column not in seen:
                raise UnknownName("where", condition.column, seen)
        return masks

    def by_words(
        self, query: str, k: int, matching: Sequence[BoolArray] | None = None
    ) -> list[Ranking]:
        """The documents with the words of a query, by BM25."""
        alive = [shard.alive for shard in self.shards]
        for shard in self.shards:
            shard.check()
        positions, scores = bm25(query, [shard.postings for shard in self.shards], alive)
        if matching is not None:
            kept = np.concatenate(matching)[positions]
            positions, scores = positions[kept], scores[kept]
        if len(scores) > k:  # those that tie with the last one stay until ids decide
            least = np.partition(scores, len(scores) - k)[len(scores) - k]
            positions, scores = positions[scores >= least], scores[scores >= least]
        ranked = sorted(
            zip(positions.tolist(), scores.tolist(), strict=True),
            key=lambda found: (-found[1], self.document_id(found[0])),
        )
        terms = set(terms_of(query))
        return [
            Ranking(position, score, self._passage_with(terms, position))
            for position, score in ranked[:k]
        ]

    def by_vectors(
        self,
        queries: Float32Array,
        k: int,
        matching: Sequence[BoolArray] | None = None,
        *,
        exact: bool = False,
    ) -> list[list[Ranking]]:
        """The documents whose best passage is nearest to each query.

        Args:
            queries: (Q, W).
            k: How many documents.
            matching: Which documents of each shard count; all if not given.
            exact: Whether all vectors are looked at, though there are codes or neighbours.
                They always are with `matching`, and if the graph of neighbours finds too little.

        Raises:
            InputError: If a file is damaged.
            MissingExtra: If there is a graph of neighbours, and its library is not installed.
        """
        nearest = self._quickest() if not exact and matching is None else None
        nearest = nearest or partial(self.exact, matching=matching)
        results: list[list[Ranking]] = [[] for _ in queries]
        left = list(range(len(queries)))
        wanted = k if self._single else 2 * k
        while left:
            found = nearest(queries[left], wanted)
            again = []
            for number, (positions, scores) in zip(left, found, strict=True):
                results[number] = self._of_documents(positions, scores)[:k]
                # A long document may have taken the places of others.
                if len(results[number]) < k and len(positions) == wanted:
                    again.append(number)
            left, wanted = again, 4 * wanted
        return results

    def _of_documents(self, positions: Int64Array, scores: Float32Array) -> list[Ranking]:
        """Each document of a ranking of passages once, with the best of its passages."""
        best: dict[int, Ranking] = {}
        for passage, score in zip(positions.tolist(), scores.tolist(), strict=True):
            document = passage if self._single else self.owner(passage)
            if document not in best:
                best[document] = Ranking(document, score, passage)
        return list(best.values())

    def _quickest(self) -> Nearest | None:
        """The way to look at few vectors; None if there is none."""
        note = self.state.neighbours
        try:
            if self.coding is not None:
                for number in range(len(self.shards)):
                    self.codes_of(number, self.coding)
                return self.by_codes
            if note is not None and why_unused(note) is None and self._neighbours() is not None:
                return self.by_neighbours
        except InputError:
            if not self._is_outdated():
                raise
        return None

    def _is_outdated(self) -> bool:
        """Whether another program writes the index, or has written it since it was opened."""
        if held(self.folder):
            return True
        try:
            return read_state(self.folder) != self.state
        except InputError:
            return True  # it was moved or replaced

    def _neighbours(self) -> NeighbourGraph | None:
        """The graph of neighbours, ready for use; None if there is none of these shards."""
        if self._graph_fault is not None:
            raise self._graph_fault
        if self._graph is not None:
            self._graph.load()
        return self._graph

    def exact(
        self, queries: Float32Array, k: int, matching: Sequence[BoolArray] | None = None
    ) -> list[tuple[Int64Array, Float32Array]]:
        """The nearest passages of each query, and their scores: all vectors are looked at."""
        return top_k(queries, self._blocks(matching), k, self._keys)

    def by_codes(self, queries: Float32Array, k: int) -> list[tuple[Int64Array, Float32Array]]:
        """The same, of the best candidates by codes."""
        assert self.coding is not None
        blocks = self._code_blocks(self.coding)
        by_code = best_by_codes(self.coding, queries, blocks, k * self.coding.oversampling)
        return [
            self.rescored(query, positions, k)
            for query, positions in zip(queries, by_code, strict=True)
        ]

    def by_neighbours(self, queries: Float32Array, k: int) -> list[tuple[Int64Array, Float32Array]]:
        """The same, of the best candidates that the graph of neighbours leads to."""
        graph = self._neighbours()
        assert graph is not None
        order = {shard.note.number: number for number, shard in enumerate(self.shards)}
        removed = self.passages - int(sum(shard.alive[shard.owners].sum() for shard in self.shards))
        results = []
        for query in queries:
            shards, rows = graph.nearest(query, min(self.passages, 2 * k + removed))
            candidates = [
                int(self._passages[order[shard]]) + row
                for shard, row in zip(shards.tolist(), rows.tolist(), strict=True)
                if shard in order and self.shards[order[shard]].is_alive(row)
            ]
            results.append(self.rescored(query, np.array(candidates, np.int64), k))
        return results

    def recall(self, nearest: Nearest, count: int = 100, k: int = 10) -> float:
        """How much of the exact top k some other way finds, for texts of the index as queries."""
        numbers = np.flatnonzero(np.concatenate([alive for _, _, alive in self.blocks()]))
        some = numbers[np.linspace(0, len(numbers) - 1, min(count, len(numbers))).astype(int)]
        queries = self.vectors_at(some)
        # The text itself is found always, and does not count.
        found = nearest(queries, k + 1)
        right = total = 0
        for own, (exact, _), (other, _) in zip(
            some.tolist(), self.exact(queries, k + 1), found, strict=True
        ):
            wanted = [position for position in exact.tolist() if position != own][:k]
            right += len({*wanted} & {*other.tolist()})
            total += len(wanted)
        return right / total if total else 1.0

    def rescored(
        self, query: Float32Array, positions: Int64Array, k: int
    ) -> tuple[Int64Array, Float32Array]:
        """The best k of some passages by their vectors, equal ones as in exact search."""
        scores = np.empty(len(positions), np.float32)
        for begin in range(0, len(positions), _SCORED):
            some = slice(begin, begin + _SCORED)
            # In float64 as exact search does it: equal vectors have equal scores wherever they lie.
            vectors = self.vectors_at(positions[some]).astype(np.float64)
            repeated = np.repeat(query[None].astype(np.float64), len(vectors), axis=0)
            scores[some] = np.einsum("nw,nw->n", repeated, vectors)
        if (others := len(scores) - k) > 0:  # keys are slow
            near = scores >= np.partition(scores, others)[others]
            positions, scores = positions[near], scores[near]
        keys = self._keys(positions)
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], keys[index]))[:k]
        return positions[order], scores[order]

    def vectors_at(self, positions: Int64Array) -> Float32Array:
        """The vectors of passages."""
        vectors = np.empty((len(positions), self.state.width), np.float32)
        owners = np.searchsorted(self._passages, positions, side="right") - 1
        for number in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == number)
            self.shards[number].check()
            vectors[rows] = self.shards[number].vectors[positions[rows] - self._passages[number]]
        return vectors

    def blocks(self) -> Iterator[tuple[int, Float32Array, BoolArray]]:
        """All vectors, shard by shard: the position of the first, the vectors, which count."""
        for number, shard in enumerate(self.shards):
            shard.check()
            yield int(self._passages[number]), shard.vectors, shard.alive[shard.owners]

    def _blocks(self, matching: Sequence[BoolArray] | None) -> Iterator[VectorBlock]:
        for number, (first, vectors, alive) in enumerate(self.blocks()):
            if matching is not None:
                alive = matching[number][self.shards[number].owners]
            if not alive.any():
                continue
            kept = None if alive.all() else alive
            shard = self.shards[number]
            yield VectorBlock(first, vectors, shard.longest, kept, shard.check)

    @cached_property
    def coding(self) -> Coding | None:
        """How vectors are written as codes; None unless every shard has codes."""
        note = self.state.coding
        if note is None or any(shard.note.codes is None for shard in self.shards):
            return None
        return read_coding(note, self.state.width)

    def _code_blocks(self, coding: Coding) -> Iterator[ScoredBlock]:
        for number, (first, _, alive) in enumerate(self.blocks()):
            mapped, codes = self.codes_of(number, coding)
            scores = _checked(mapped.check, partial(coding.scores, codes=codes))
            yield ScoredBlock(first, len(codes), scores, None if alive.all() else alive)

    def codes_of(self, number: int, coding: Coding) -> tuple[MappedArrays, Codes]:
        """The codes of a shard, and the file they are in."""
        if self._codes_fault is not None:
            raise self._codes_fault
        if number not in self._codes:
            assert self._code_files is not None
            mapped, count = self._code_files[number], self.shards[number].note.passages
            flat = mapped.array("codes", np.uint8, count * coding.width())
            self._codes[number] = mapped, flat.reshape(count, coding.width())
        return self._codes[number]

    def owner(self, passage: int) -> int:
        """The document of a passage."""
        number = int(np.searchsorted(self._passages, passage, side="right")) - 1
        row = int(self.shards[number].owners[passage - self._passages[number]])
        return int(self._documents[number]) + row

    def _passage_with(self, terms: set[str], position: int) -> int:
        """The passage of a document that has the most of some terms; of equal ones the first."""
        passages = self.passages_of(position)
        if len(passages) == 1:
            return passages[0]
        text = self.document(position).text
        spans = [shard.span(row) for shard, row in map(self._passage_place, passages)]
        common = [len(terms.intersection(terms_of(text[begin:end]))) for begin, end in spans]
        return passages[common.index(max(common))]

    def _passage_place(self, passage: int) -> tuple[IndexShard, int]:
        return self._place(self._passages, passage)

    def passages_of(self, position: int) -> list[int]:
        """The passages of a document."""
        number = int(np.searchsorted(self._documents, position, side="right")) - 1
        rows = self.shards[number].passages(position - int(self._documents[number]))
        first = int(self._passages[number])
        return list(range(first + rows.start, first + rows.stop))

    def hit(self, found: Ranking, ranks: dict[str, int] | None = None) -> SearchHit:
        """A ranked document as it is shown."""
        document = self.document(found.document)
        shard, row = self._place(self._passages, found.passage)
        begin, end = shard.span(row)
        return SearchHit(
            id=document.id,
            score=found.score,
            passage=document.text[begin:end],
            begin=begin,
            end=end,
            columns=dict(document.columns),
            source_location=document.source_location,
            ranks=ranks or {},
            before=document.text[max(0, begin - _AROUND) : begin],
            after=document.text[end : end + _AROUND],
        )

    def _keys(self, positions: Int64Array) -> list[tuple[str, int]]:
        keys = []
        for position in positions.tolist():
            shard, row = self._place(self._passages, position)
            keys.append((shard.id(int(shard.owners[row])), row))
        return keys

    def _place(self, firsts: Int64Array, position: int) -> tuple[IndexShard, int]:
        number = int(np.searchsorted(firsts, position, side="right")) - 1
        return self.shards[number], position - int(firsts[number])


def _opened(opening: Callable[[], _Opened]) -> tuple[_Opened | None, InputError | None]:
    """What was opened, or why it could not be."""
    try:
        return opening(), None
    except InputError as error:
        return None, error


def _checked(
    check: Callable[[], None], scores: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The scores of a block whose file is looked at just before it is read."""

    def checked(queries: torch.Tensor) -> torch.Tensor:
        check()
        return scores(queries)

    return checked


def open_store(folder: Path) -> DocumentStore:
    """Opens an index, also while another program writes it.

    Raises:
        InputError: If it is not an index, or damaged.
    """
    for _ in range(_TRIES):
        state = read_state(folder)
        try:
            store = DocumentStore(folder, state)
        except InputError:
            if read_state(folder) == state:
                raise  # else a shard was replaced since the state was read
        else:
            if store.is_whole or read_state(folder) == state:
                return store
    return DocumentStore(folder)


def check_store(store: DocumentStore) -> None:
    """Reads everything that an index holds.

    Raises:
        InputError: If some of it cannot be read, or a vector is not finite.
    """
    for number, shard in enumerate(store.shards):
        if not np.isfinite(shard.vectors).all():
            raise InputError(
                f"{store.folder / shard.note.file} holds a vector that is not finite; build the "
                "index again with --overwrite."
            )
        shard.postings  # noqa: B018 (checks them)
        for row in range(shard.note.documents):
            text = shard.document(row).text
            rows = shard.passages(row)
            if any(shard.span(passage).end > len(text) for passage in range(rows.start, rows.stop)):
                raise InputError(
                    f"{store.folder / shard.note.file} holds a passage outside its text; build "
                    "the index again with --overwrite."
                )
        if store.coding is not None:
            store.codes_of(number, store.coding)


def read_coding(note: CodingNote, width: int) -> Coding:
    """The coding that an index notes.

    Raises:
        InputError: If its numbers are not those of vectors of a width.
    """
    with np.errstate(over="ignore", under="ignore"):
        numbers = {name: np.array(values, np.float32) for name, values in note.numbers.items()}
    names = {"int8": {"low", "step"}, "binary": {"mean"}}[note.kind]
    if numbers.keys() != names or any(
        len(values) != width
        or not np.isfinite(values).all()
        or (name == "step" and not (values > 0).all())
        for name, values in numbers.items()
    ):
        raise InputError(
            f"the index notes codes of kind {note.kind} and not what they need; build the index "
            "again with --overwrite."
        )
    if note.kind == "int8":
        return Int8(low=numbers["low"], step=numbers["step"])
    return Binary(mean=numbers["mean"])
