"""`cw.Index`: documents that are found by what they mean and by their words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args, overload

import numpy as np

from clozeworks.data.files.encodings import check_characters
from clozeworks.errors import InputError, OutputError, SettingError, UnknownName, shown
from clozeworks.jobs.search.embedding import SentenceEmbedder
from clozeworks.jobs.search.sources import (
    CountedDocuments,
    DocumentSource,
    FileDocuments,
    count_documents,
    documents_of,
)
from clozeworks.language_model import LanguageModel, load
from clozeworks.language_model.pair_scores import pair_scores
from clozeworks.search.codes import CodeKind, coding_class
from clozeworks.search.documents import IndexedDocument, SearchHit
from clozeworks.search.filters import conditions
from clozeworks.search.fusion import fuse
from clozeworks.search.neighbours import usearch_class
from clozeworks.search.state import (
    IndexState,
    check_free,
    free_number,
    is_index,
    read_state,
    write_state,
)
from clozeworks.search.store import DocumentStore, Ranking, open_store
from clozeworks.search.writer import AddedCounts, IndexWriter, writing
from clozeworks.storage.locks import locked

# By what documents are found.
SearchBy = Literal["vectors", "words", "both"]
# How far down each ranking is looked when two are joined, or when candidates are scored again.
DEPTH = 100
_RERANKED = 50


class SearchKeywords(TypedDict, total=False):
    """The keyword arguments of `Index.search`."""

    top: int
    by: SearchBy
    where: str | Sequence[str] | Mapping[str, Any] | None
    rerank: LanguageModel | str | Path | None
    exact: bool
    source_locations: Sequence[str] | None


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """How an index is made.

    Attributes:
        passage_tokens: The most tokens of a passage; longer texts are cut into several. As many as
            the model takes if None, at most 512.
        query_prompt: What is put before queries: the name of a prompt of the model folder, or a
            text. Its prompt `query`, or its default, if None.
        document_prompt: What is put before texts. The prompt `document`, or the default, if None.
        codes: int8 or binary, for a quicker first look; none if None.
        neighbours: Whether a graph of neighbours is built, for large indexes.
        batch_tokens: Tokens per batch.
    """

    passage_tokens: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    codes: CodeKind | None = None
    neighbours: bool = False
    batch_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.codes is not None:
            coding_class(self.codes)
        if self.neighbours:
            usearch_class()


class Index:
    """Documents on disk with their vectors and words.

    ```python
    index = cw.Index.build(["A text.", "Another one."], "model", out="index")
    for hit in index.search("a question"):
        print(hit.score, hit.id, hit.passage)
    index.add([{"id": "b7", "text": "One more.", "year": 2024}])
    index.remove(["b7"])
    ```

    `Index.build` makes one, `Index.open` opens one that is there.
    """

    def __init__(self, folder: Path, model: LanguageModel | None = None) -> None:
        self.folder = folder
        self._store = open_store(folder)
        self._given = model

    @classmethod
    def open(cls, folder: str | Path, model: "LanguageModel | str | Path | None" = None) -> "Index":
        """Opens an index.

        Args:
            folder: Its folder.
            model: The model that made it; loaded from where it was then, if it is not given and a
                vector is needed.

        Raises:
            InputError: If the folder is not an index, is damaged, or was made with another model.
        """
        index = cls(Path(folder), None if model is None else _loaded(model))
        if model is not None:
            index.embedder  # noqa: B018 (refuses another model)
        return index

    @classmethod
    def build(
        cls,
        documents: Any,
        model: "LanguageModel | str | Path",
        out: str | Path,
        *,
        passage_tokens: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        codes: CodeKind | None = None,
        neighbours: bool = False,
        batch_tokens: int | None = None,
        overwrite: bool = False,
    ) -> "Index":
        """Builds an index, or adds what is missing to one that was begun.

        Args:
            documents: Texts; or rows with a `text`, perhaps an `id`, and other columns, in a list
                of dicts, a frame or a dict of columns; or a `Path` or several, of files.
            model: The sentence model, or its folder or hub name.
            out: The folder of the index.
            passage_tokens: The most tokens of a passage; longer texts are cut into several.
            query_prompt: What is put before queries; as the model folder says if not given.
            document_prompt: What is put before texts; as the model folder says if not given.
            codes: int8 or binary, for a quicker first look.
            neighbours: Whether a graph of neighbours is built, for large indexes; it needs the
                extra `search`.
            batch_tokens: Tokens per batch.
            overwrite: Whether an index that is there is replaced.

        Raises:
            InputError: If a document cannot be used, or the index there is of another model.
            OutputError: If the folder cannot be written, or holds something else.
        """
        settings = IndexSettings(
            passage_tokens=passage_tokens,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            codes=codes,
            neighbours=neighbours,
            batch_tokens=batch_tokens,
        )
        index, _ = build_index(
            source_of(documents), _loaded(model), Path(out), settings, overwrite=overwrite
        )
        return index

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self):,} documents)"

    @property
    def store(self) -> DocumentStore:
        """What is on disk."""
        return self._store

    @cached_property
    def model(self) -> LanguageModel:
        """The model that embeds queries."""
        if self._given is not None:
            return self._given
        return load(self._store.state.model.name, device="auto")

    @cached_property
    def embedder(self) -> SentenceEmbedder:
        """The model as the index uses it.

        Raises:
            InputError: If it is not the model that made the index.
        """
        return SentenceEmbedder.for_index(self.model, self._store.state)

    def documents(self) -> list[IndexedDocument]:
        """Every document, by id."""
        return sorted(self._store.documents(), key=lambda document: document.id)

    def add(self, documents: Any) -> AddedCounts:
        """Adds documents; one whose id is there takes its place. Only new texts are embedded.

        Args:
            documents: As for `build`.

        Returns:
            How many were new, known or replaced.
        """
        source = source_of(documents)
        counted = count_documents(source)
        counts = AddedCounts()
        self.embedder  # noqa: B018 (loads the model before others are kept out)
        with writing(self.folder) as writer:
            if _made_with(writer.state) != _made_with(self._store.state):
                self._open_anew()  # somebody replaced it
            sources = _sources(source, counted)
            writer.add(source, self.embedder.documents, counts, sources=sources)
            writer.finish()
        self._store = open_store(self.folder)
        return counts

    def remove(self, ids: str | Sequence[str]) -> int:
        """Removes the documents with ids.

        Returns:
            How many there were; an id that is named twice counts once.

        Raises:
            InputError: If an id is not a text.
        """
        names = _texts("id", ids, "ids of an index are texts")
        with writing(self.folder) as writer:
            count = writer.remove(names)
            writer.finish()
        self._store = open_store(self.folder)
        return count

    def _open_anew(self) -> None:
        self._store = open_store(self.folder)
        for name in ("model", "embedder"):
            self.__dict__.pop(name, None)

    @overload
    def search(  # type: ignore[overload-overlap]
        self, query: str, **options: Unpack[SearchKeywords]
    ) -> list[SearchHit]: ...
    @overload
    def search(
        self, query: Sequence[str], **options: Unpack[SearchKeywords]
    ) -> list[list[SearchHit]]: ...
    def search(
        self,
        query: str | Sequence[str],
        *,
        top: int = 10,
        by: SearchBy = "vectors",
        where: str | Sequence[str] | Mapping[str, Any] | None = None,
        rerank: "LanguageModel | str | Path | None" = None,
        exact: bool = False,
        source_locations: Sequence[str] | None = None,
    ) -> list[SearchHit] | list[list[SearchHit]]:
        """Finds the documents that fit a query best, each with the passage that fits best.

        Args:
            query: A query, or several.
            top: How many documents.
            by: vectors (what a text means; the score is the similarity), words (BM25), or both
                (their ranks joined by reciprocal rank fusion).
            where: Conditions on columns: `"year>=2020"`, a list of such, or `{"language": "en"}`.
            rerank: A model that compares two texts: the best 50 are scored by it, and sorted so.
            exact: Whether codes and neighbours are not used.
            source_locations: Where each query came from, for messages.

        Returns:
            The best first, equal ones by id; for several queries a list for each.

        Raises:
            InputError: If the index is empty, or a query is not a text, blank, or longer than the
                model takes.
            SettingError: If a setting has a value that it may not have.
        """
        if isinstance(top, bool) or not hasattr(top, "__index__"):
            raise SettingError("top", top, "it must be a whole number, at least 1")
        if top < 1:
            raise SettingError("top", top, "it must be at least 1")
        if by not in get_args(SearchBy):
            raise UnknownName("by", str(by), get_args(SearchBy))
        if not _is_where(where):
            rule = "a condition is a text as year>=2020, a list of such, or a dict of columns"
            raise SettingError("where", where, rule, "write it as one of these")
        if not len(self):
            raise InputError(
                f"{self.folder} holds no documents; there is nothing to find; add some first."
            )
        alone = isinstance(query, str)
        queries = _texts("query", query, "a query is a text")
        names = [f"query {n:,}" for n in range(1, len(queries) + 1)]
        locations = source_locations or (["the query"] if alone else names)
        for text, located in zip(queries, locations, strict=True):
            if not text.strip():
                raise InputError(f"{located} is blank; ask for something.")
        depth = max(top, _RERANKED) if rerank is not None else top
        found = self._ranked(queries, locations, depth, by, where, exact)
        if rerank is not None:
            score = pair_scores(_loaded(rerank))
            found = [
                self._reranked(score, text, hits) for text, hits in zip(queries, found, strict=True)
            ]
        results = [hits[:top] for hits in found]
        return results[0] if alone else results

    def _ranked(
        self,
        queries: Sequence[str],
        locations: Sequence[str],
        top: int,
        by: SearchBy,
        where: Any,
        exact: bool,
    ) -> list[list[SearchHit]]:
        store = self._store
        matching = store.matching(conditions(where))
        depth = max(DEPTH, top) if by == "both" else top
        by_vectors: list[list[Ranking]] = [[] for _ in queries]
        if by != "words":
            vectors = self.embedder.queries(queries, locations)
            by_vectors = store.by_vectors(vectors, depth, matching, exact=exact)
            if by == "vectors":
                return [[store.hit(each) for each in found] for found in by_vectors]
        by_words = [store.by_words(query, depth, matching) for query in queries]
        if by == "words":
            return [[store.hit(each) for each in found] for found in by_words]
        return [self._joined(*pair)[:top] for pair in zip(by_vectors, by_words, strict=True)]

    def _joined(self, vectors: list[Ranking], words: list[Ranking]) -> list[SearchHit]:
        """Two rankings as one; the passage is the one whose vector fits best, if that is known."""
        ranks = {
            name: {each.document: rank for rank, each in enumerate(ranking, 1)}
            for name, ranking in (("vectors", vectors), ("words", words))
        }
        passages = {each.document: each.passage for each in (*words, *vectors)}
        scores = fuse([list(ranking) for ranking in ranks.values()])
        order = sorted(scores, key=lambda each: (-scores[each], self._store.document_id(each)))
        return [
            self._store.hit(
                Ranking(each, scores[each], passages[each]),
                {name: places[each] for name, places in ranks.items() if each in places},
            )
            for each in order
        ]

    def _reranked(
        self, score: Callable[[str, Sequence[str]], list[float]], query: str, hits: list[SearchHit]
    ) -> list[SearchHit]:
        scores = score(query, [hit.passage for hit in hits]) if hits else []
        again = [
            replace(hit, score=number, ranks={**hit.ranks, "before": rank})
            for rank, (hit, number) in enumerate(zip(hits, scores, strict=True), 1)
        ]
        return sorted(again, key=lambda hit: (-hit.score, hit.id))


def _texts(what: str, given: Any, rule: str) -> list[str]:
    """One text or several, as a list.

    Raises:
        InputError: If something is not a text.
    """
    try:
        texts: list[Any] = [given] if isinstance(given, str | bytes) else list(given)
    except TypeError:
        texts = [given]
    for number, text in enumerate(texts, 1):
        which = f"{what} {number:,}" if len(texts) > 1 else f"the {what}"
        if not isinstance(text, str):
            raise InputError(f"{which} is {shown(text)}; {rule}; give one, or a list of them.")
        check_characters(text, which)
    return texts


def _is_where(where: Any) -> bool:
    if where is None or isinstance(where, str | Mapping):
        return True
    return isinstance(where, Sequence) and all(isinstance(each, str) for each in where)


def _made_with(state: IndexState) -> tuple[Any, ...]:
    """What vectors of an index depend on."""
    return state.model, state.width, state.similarity, state.passage_tokens


def _sources(documents: DocumentSource, counted: CountedDocuments) -> list[str]:
    """Keys by which an index notes what documents are from: files, or the ids of those in memory.

    A command that names the same files and more finishes what was interrupted, a program does so
    with the same documents.
    """
    if isinstance(documents, FileDocuments):
        names = [str(path.resolve()).encode(errors="surrogateescape") for path in documents.files]
    else:
        names = [np.sort(counted.beginnings).tobytes()]
    return [blake2b(name, digest_size=6).hexdigest() for name in names]


def _loaded(model: "LanguageModel | str | Path") -> LanguageModel:
    return model if isinstance(model, LanguageModel) else load(model, device="auto")


def source_of(documents: Any) -> DocumentSource:
    """Documents that a program hands over, of files or of memory."""
    if isinstance(documents, Path):
        return FileDocuments([documents])
    if isinstance(documents, list | tuple) and documents and isinstance(documents[0], Path):
        return FileDocuments(documents)
    if isinstance(documents, FileDocuments):
        return documents
    return documents_of(documents)


def build_index(
    documents: DocumentSource,
    model: LanguageModel,
    out: Path,
    settings: IndexSettings,
    *,
    overwrite: bool = False,
    prune: bool = False,
    counted: CountedDocuments | None = None,
    counts: AddedCounts | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Index, AddedCounts]:
    """Builds an index, or adds to one that is there.

    Args:
        documents: The documents.
        model: The sentence model.
        out: The folder of the index.
        settings: How it is made.
        overwrite: Whether an index that is there is replaced. It stays what it is until the new
            one is whole; if that fails, the next call begins anew.
        prune: Whether documents of the index that are not among these are removed.
        counted: What `count_documents` found, if it was called before.
        counts: Filled in as the work goes on.
        progress: Called with the number of documents that are done, and of all.

    Raises:
        InputError: If a document cannot be used, or the index there was made with another model.
        OutputError: If the folder cannot be written, or holds something else.
    """
    check_free(out)
    counted = counted or count_documents(documents)
    counts = counts if counts is not None else AddedCounts()
    if not counted.count:
        raise InputError("there are no documents; an index needs at least one; give some.")
    new = None if is_index(out) and not overwrite else _new_state(model, settings)
    with locked(out):
        replacing = is_index(out) and overwrite
        if new is None or (is_index(out) and not overwrite):  # another program may have built it
            state = _begun(out, model, settings)
        else:
            state = replace(new, next_shard=free_number(out))
            if not replacing:
                write_state(out, state)
        embedder = SentenceEmbedder.for_index(model, state, settings.batch_tokens)
        writer = IndexWriter(out, state, replacing=replacing)
        try:
            writer.add(
                documents,
                embedder.documents,
                counts,
                lambda done: progress(done, counted.count),
                _sources(documents, counted),
            )
            if prune:
                counts.removed = writer.keep_only(counted.beginnings)
            writer.finish(settings.codes, settings.neighbours)
        except BaseException:
            if replacing:
                writer.discard()
            raise
    return Index(out, model), counts


def _begun(out: Path, model: LanguageModel, settings: IndexSettings) -> IndexState:
    """What the index in a folder says of itself.

    Raises:
        InputError: If it is damaged.
        OutputError: If it was made with other settings than are asked for.
    """
    state = read_state(out)
    asked = settings.passage_tokens
    if asked not in (None, state.passage_tokens):
        raise OutputError(
            f"{out} holds passages of {state.passage_tokens:,} tokens, and {asked:,} are asked "
            "for; choose another folder with --out, or replace it with --overwrite."
        )
    if settings.query_prompt is not None or settings.document_prompt is not None:
        wanted = SentenceEmbedder.of(
            model,
            query_prompt=settings.query_prompt,
            document_prompt=settings.document_prompt,
        )
        for given, has, prompt, what in (
            (settings.query_prompt, state.model.query_prompt, wanted.query_prompt, "queries"),
            (
                settings.document_prompt,
                state.model.document_prompt,
                wanted.document_prompt,
                "texts",
            ),
        ):
            if given is not None and has != prompt:
                raise OutputError(
                    f"{out} was made with {has!r} before {what}, and {prompt!r} is asked for; "
                    "choose another folder with --out, or replace it with --overwrite."
                )
    return state


def _new_state(model: LanguageModel, settings: IndexSettings) -> IndexState:
    """What an index without documents says of itself."""
    embedder = SentenceEmbedder.of(
        model,
        passage_tokens=settings.passage_tokens,
        query_prompt=settings.query_prompt,
        document_prompt=settings.document_prompt,
        batch_tokens=settings.batch_tokens,
    )
    note = embedder.note()
    width = len(note.probes[0])
    return IndexState(note, width, embedder.similarity, embedder.passage_tokens, complete=False)
