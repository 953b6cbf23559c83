"""Adds documents to an index and removes them.

Only new texts are embedded: the vectors of a text that is or was in one of the shards are copied.
After each shard the index is written down, so whoever stops the work keeps what is written, and the
same call goes on with what is missing. Memory holds one shard; hashes are looked up on disk.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float32Array, Uint64Array
from clozeworks.data.chunks import in_chunks
from clozeworks.errors import InputError
from clozeworks.search.codes import CodeKind, Coding, coding_class
from clozeworks.search.documents import HASH_BYTES, IndexedDocument, PassageSpan, hash_of
from clozeworks.search.neighbours import write_neighbours
from clozeworks.search.shard import (
    SUFFIX,
    FileNote,
    HashName,
    IndexShard,
    ShardNote,
    removed_bits,
    write_arrays,
    write_shard,
)
from clozeworks.search.state import (
    CodingNote,
    IndexState,
    read_state,
    remove_others,
    remove_unnamed,
    write_state,
)
from clozeworks.search.store import DocumentStore, read_coding
from clozeworks.storage.locks import locked

# A shard has about so many passages: 12 MB of vectors of width 384.
SHARD_PASSAGES = 8_192
SHARD_CHARACTERS = 32_000_000
# Vectors that the range of codes is taken from.
CALIBRATION = 10_000

# From texts to their passages, and a vector for each passage, one text after the other.
EmbedTexts = Callable[[Sequence[IndexedDocument]], tuple[list[list[PassageSpan]], Float32Array]]
Hashes = NDArray[np.bytes_]
_HASHES = f"S{HASH_BYTES}"


@dataclass
class AddedCounts:
    """What became of the documents that were to be added."""

    documents: int = 0
    """All of them."""
    kept: int = 0
    """Those that were in the index already, as they are."""
    copied: int = 0
    """Those whose text was known, under another id or with other columns."""
    embedded: int = 0
    """Those whose text was new."""
    replaced: int = 0
    """Those that took the place of another text with their id."""
    removed: int = 0
    """Documents that were removed."""


@dataclass(frozen=True, slots=True)
class _HeldDocument:
    """A document of the shard that is begun."""

    document: IndexedDocument
    passages: list[PassageSpan]
    vectors: Float32Array
    replaced: tuple[int, int] | None
    """The shard and row of the document whose place it takes."""


class IndexWriter:
    """An index that is being written.

    Args:
        folder: Its folder, which nobody else may be writing to; see `writing`.
        state: What the index says of itself so far.
        replacing: Whether another index stands in the folder, which stays what it is until this
            one is whole. Its files have other numbers; see `free_number`.
    """

    def __init__(self, folder: Path, state: IndexState, *, replacing: bool = False) -> None:
        self.folder = folder
        self.state = state
        self._published = not replacing
        self._before = {path.name for path in folder.iterdir()}
        self._shards = [IndexShard(folder, note, state.width) for note in state.shards]
        self._sources: set[str] = set()
        self._has_added = False
        self._begin()

    def _begin(self) -> None:
        """Begins a shard."""
        self._held: list[_HeldDocument] = []
        self._rows: dict[bytes, int] = {}  # by the hash of the text

    def add(
        self,
        documents: Iterable[IndexedDocument],
        embed: EmbedTexts,
        counts: AddedCounts,
        progress: Callable[[int], None] = lambda done: None,
        sources: Collection[str] = (),
    ) -> None:
        """Adds documents, or takes over what changed in those that are there.

        Args:
            documents: With different ids.
            embed: Called with documents of new texts.
            counts: Filled in as the work goes on; those that are held are counted when written.
            progress: Called with the number of documents that are done.
            sources: Keys of what the documents are from. They count as unfinished until `finish`,
                and then the index is complete if no others do.
        """
        self._has_added = True
        self._sources.update(sources)
        self._note(False, {*self.state.unfinished, *sources})
        try:
            for chunk in in_chunks(documents, lambda document: len(document.text)):
                self._add(chunk, embed, counts)
                counts.documents += len(chunk)
                progress(counts.documents)
                if self._is_full():
                    self.flush()
        except BaseException as error:
            if not isinstance(error, OSError):  # a full disk would only complain once more
                self.flush()
            raise

    def finish(self, codes: CodeKind | None = None, neighbours: bool = False) -> None:
        """Writes what is held, joins small shards, and notes that what was added is all there.

        What others were interrupted in adding stays noted as missing.

        Args:
            codes: What codes to write; those that are there are kept up if None.
            neighbours: Whether to write a graph of neighbours; one that is there is kept up.
        """
        self.flush()
        self._compact()
        self.write_codes(codes)
        if not self._published:
            # Before the neighbours, whose file has the same name in every index.
            self._published = True
            self._write_state()
        self.write_neighbours(neighbours)
        if self._has_added:
            left = set(self.state.unfinished) - self._sources
            self._note(not left, left)
        remove_unnamed(self.folder, self.state)

    def discard(self) -> None:
        """Removes what was written to replace an index, if it does not replace it yet."""
        named: list[FileNote] = []
        with suppress(InputError):  # what is replaced may be damaged
            named = read_state(self.folder).files()
        remove_others(self.folder, {*self._before, *(note.file for note in named)})

    def write_codes(self, kind: CodeKind | None) -> None:
        """Writes the codes of shards that have none yet, and notes what they find.

        Args:
            kind: What they are; as before if None.
        """
        note = self.state.coding
        if note is None or kind not in (None, note.kind):
            if kind is None or not self._shards:
                return
            coding: Coding = coding_class(kind).fit(self._sample())
            note = CodingNote(kind, coding.numbers())
            self.state = replace(
                self.state, shards=tuple(replace(each, codes=None) for each in self.state.shards)
            )
        else:
            coding = read_coding(note, self.state.width)
        notes = []
        for shard, each in zip(self._shards, self.state.shards, strict=True):
            if each.codes is None:
                path = self.folder / f"{Path(each.file).stem}.{note.kind}{SUFFIX}"
                codes = {"codes": coding.encode(shard.vectors).reshape(-1)}
                each = replace(each, codes=write_arrays(path, codes))
            shard.note = each
            notes.append(each)
        self.state = replace(self.state, shards=tuple(notes), coding=note)
        store = DocumentStore(self.folder, self.state)
        recall = store.recall(store.by_codes) if len(store) else None
        self.state = replace(self.state, coding=replace(note, recall=recall))
        self._write_state()

    def _sample(self) -> Float32Array:
        """Vectors of all shards, evenly."""
        total = sum(shard.note.passages for shard in self._shards)
        step = max(1, total // CALIBRATION)
        return np.concatenate([shard.vectors[::step] for shard in self._shards])

    def write_neighbours(self, asked: bool) -> None:
        """Writes the graph of neighbours anew, if it was asked for or is there, and its recall."""
        numbers = tuple(note.number for note in self.state.shards)
        note = self.state.neighbours
        if not self._shards or not (asked or note) or (note and note.shards == numbers):
            return
        vectors = ((shard.note.number, shard.vectors) for shard in self._shards)
        note = write_neighbours(self.folder, self.state.width, vectors)
        self.state = replace(self.state, neighbours=note)
        store = DocumentStore(self.folder, self.state)
        note = replace(note, recall=store.recall(store.by_neighbours))
        self.state = replace(self.state, neighbours=note)
        self._write_state()

    def remove(self, ids: Sequence[str]) -> int:
        """Removes the documents with ids; returns how many there were."""
        different = list(dict.fromkeys(ids))
        rows = self._find("id_hashes", np.array([*map(hash_of, different)], _HASHES))
        return self._drop([place for place in rows if place is not None])

    def keep_only(self, beginnings: Uint64Array) -> int:
        """Removes documents whose id's hash begins otherwise; returns how many there were.

        What others were interrupted in adding is no longer missing: it would be removed.
        """
        self._sources.update(self.state.unfinished)
        gone = []
        for number, shard in enumerate(self._shards):
            there = np.isin(shard.hashes("id_hashes").view(np.uint64)[::2], beginnings)
            gone += [(number, row) for row in np.flatnonzero(shard.alive & ~there).tolist()]
        return self._drop(gone)

    def _drop(self, rows: Sequence[tuple[int, int]]) -> int:
        if rows:
            self._write((), rows)
        return len(rows)

    def _add(
        self, chunk: Sequence[IndexedDocument], embed: EmbedTexts, counts: AddedCounts
    ) -> None:
        ids = np.array([hash_of(document.id) for document in chunk], _HASHES)
        texts = np.array([document.text_hash for document in chunk], _HASHES)
        there = self._find("id_hashes", ids)
        known = self._find("text_hashes", texts)
        wanted = [
            number
            for number, document in enumerate(chunk)
            if not self._is_same(document, texts[number], there[number])
        ]
        counts.kept += len(chunk) - len(wanted)
        new = {
            chunk[number].text_hash: chunk[number]
            for number in reversed(wanted)
            if known[number] is None and chunk[number].text_hash not in self._rows
        }
        first = dict(zip(new, self._embedded(list(new.values()), embed), strict=True))
        for number in wanted:
            document, place = chunk[number], there[number]
            digest = document.text_hash
            if (fresh := first.pop(digest, None)) is not None:
                passages, vectors = fresh
                counts.embedded += 1
            else:
                passages, vectors = self._stored(digest, known[number])
                counts.copied += 1
            counts.replaced += place is not None
            self._hold(_HeldDocument(document, passages, vectors, place))

    def _embedded(
        self, documents: Sequence[IndexedDocument], embed: EmbedTexts
    ) -> Iterator[tuple[list[PassageSpan], Float32Array]]:
        if not documents:
            return
        passages, vectors = embed(documents)
        end = 0
        for several in passages:
            begin, end = end, end + len(several)
            yield several, vectors[begin:end]

    def _is_same(
        self, document: IndexedDocument, digest: np.bytes_, place: tuple[int, int] | None
    ) -> bool:
        if place is None:
            return False
        shard, row = self._shards[place[0]], place[1]
        if shard.hashes("text_hashes")[row] != digest:
            return False
        return shard.record(row)[0] == document.columns

    def _stored(
        self, digest: bytes, place: tuple[int, int] | None
    ) -> tuple[list[PassageSpan], Float32Array]:
        """The passages and vectors of a text that is known."""
        if (row := self._rows.get(digest)) is not None:
            return self._held[row].passages, self._held[row].vectors
        assert place is not None
        shard = self._shards[place[0]]
        shard.check()
        rows = shard.passages(place[1])
        spans = [shard.span(passage) for passage in range(rows.start, rows.stop)]
        return spans, np.array(shard.vectors[rows])

    def _hold(self, held: _HeldDocument) -> None:
        self._held.append(held)  # in one step, as an interrupt may come after any
        self._rows.setdefault(held.document.text_hash, len(self._held) - 1)

    def _is_full(self) -> bool:
        characters = sum(len(held.document.text) for held in self._held)
        passages = sum(len(held.passages) for held in self._held)
        return passages >= SHARD_PASSAGES or characters >= SHARD_CHARACTERS

    def flush(self) -> None:
        """Writes the documents that are held as a shard, which then are in the index."""
        if not self._held:
            return
        held = self._held
        note = self._write_shard(
            [each.document for each in held],
            [each.passages for each in held],
            [each.vectors for each in held],
        )
        # Trap: who is interrupted once the state is written must not write these a second time.
        self._begin()
        self._write((note,), [each.replaced for each in held if each.replaced is not None])

    def _write_shard(
        self,
        documents: Sequence[IndexedDocument],
        passages: Sequence[Sequence[PassageSpan]],
        vectors: Sequence[Float32Array],
    ) -> ShardNote:
        number = self.state.next_shard
        path = self.folder / f"shard-{number:06}{SUFFIX}"
        return write_shard(path, number, documents, passages, np.concatenate(vectors))

    def _write(
        self,
        new: Sequence[ShardNote],
        outdated: Sequence[tuple[int, int]],
        dropped: Sequence[int] = (),
    ) -> None:
        """Writes the index down with new shards, and without some documents and shards."""
        for number, row in outdated:
            self._shards[number].alive[row] = False
        touched = {number for number, _ in outdated}
        notes = [
            replace(note, removed=removed_bits(self._shards[number].alive))
            if number in touched
            else note
            for number, note in enumerate(self.state.shards)
        ]
        for number, note in enumerate(notes):
            self._shards[number].note = note
        kept = [
            number
            for number, shard in enumerate(self._shards)
            if number not in dropped and shard.alive.any()
        ]
        shards = (*(notes[number] for number in kept), *new)
        after = max([self.state.next_shard, *(note.number + 1 for note in new)])
        self.state = replace(self.state, shards=shards, next_shard=after)
        self._write_state()
        self._shards = [self._shards[number] for number in kept]
        self._shards += [IndexShard(self.folder, note, self.state.width) for note in new]

    def _compact(self) -> None:
        """Joins small shards, and writes anew those of which more than half was removed."""
        while len(group := self._joined()) > 0:
            documents, passages, vectors = [], [], []
            for number in group:
                shard = self._shards[number]
                for row in np.flatnonzero(shard.alive).tolist():
                    spans, rows = self._stored(b"", (number, row))
                    documents.append(shard.document(row))
                    passages.append(spans)
                    vectors.append(rows)
            self._write((self._write_shard(documents, passages, vectors),), (), group)

    def _joined(self) -> list[int]:
        """The shards that become one; none if they may stay as they are."""
        group: list[int] = []
        total, thin = 0, False
        for number, shard in enumerate(self._shards):
            alive = int(shard.alive[shard.owners].sum())
            thinned = int(shard.alive.sum()) * 2 < shard.note.documents
            if (thinned or alive * 2 < SHARD_PASSAGES) and total + alive <= SHARD_PASSAGES:
                group.append(number)
                total, thin = total + alive, thin or thinned
        return group if len(group) > 1 or thin else []

    def _find(self, name: HashName, hashes: Hashes) -> list[tuple[int, int] | None]:
        """The shard and row that has each hash; None where none has.

        An id must be that of a document that counts; a text may be one that was removed.
        """
        found: list[tuple[int, int] | None] = [None] * len(hashes)
        for number, shard in enumerate(self._shards):
            rows = shard.find(name, hashes)
            for index in np.flatnonzero(rows >= 0).tolist():
                row = int(rows[index])
                if name == "text_hashes" or shard.alive[row]:
                    found[index] = (number, row)
        return found

    def _note(self, complete: bool, unfinished: Collection[str]) -> None:
        noted = replace(self.state, complete=complete, unfinished=tuple(sorted(unfinished)))
        if noted != self.state:
            self.state = noted
            self._write_state()

    def _write_state(self) -> None:
        if self._published:
            write_state(self.folder, self.state)


@contextmanager
def writing(folder: Path, state: IndexState | None = None) -> Iterator[IndexWriter]:
    """Holds an index and gives what writes it.

    Args:
        folder: Its folder.
        state: What it says of itself, if nobody can have written to it since that was read.

    Raises:
        InputError: If it is not an index, or damaged.
        OutputError: If another program writes it, or it cannot be written.
    """
    if state is None:
        read_state(folder)  # to hold a folder is to make it
    with locked(folder):
        yield IndexWriter(folder, state or read_state(folder))
