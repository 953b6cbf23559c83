"""Indexes: the state, the shards, the codes."""

from collections.abc import Iterator
from pathlib import Path

from damage import Reader
from data_files import TEXTS
from model_files import files_of

WIDTH = 4


def index_readers(folder: Path) -> Iterator[tuple[str, Reader]]:
    import numpy as np

    from clozeworks.search.documents import IndexedDocument, PassageSpan
    from clozeworks.search.filters import conditions
    from clozeworks.search.state import IndexState, ModelNote, write_state
    from clozeworks.search.store import DocumentStore, check_store
    from clozeworks.search.writer import AddedCounts, writing

    rng = np.random.default_rng(0)
    (folder / "index").mkdir()
    note = ModelNote("m", "t", "mean", None, "", "", (tuple([0.5] * WIDTH),))
    state = IndexState(note, WIDTH, "cosine", 16)
    write_state(folder / "index", state)

    def embed(some):
        spans = [[PassageSpan(0, 5), PassageSpan(5, len(each.text))] for each in some]
        return spans, rng.normal(size=(2 * len(some), WIDTH)).astype(np.float32)

    documents = [
        IndexedDocument(f"d{n}", text, {"year": n}, f"a.txt, line {n}")
        for n, text in enumerate(TEXTS[:12])
    ]
    with writing(folder / "index", state) as index:
        index.add(documents, embed, AddedCounts())
        index.finish("int8")
    files = files_of(folder / "index")

    def read(at: Path) -> None:
        store = DocumentStore(at)
        queries = np.ones((2, store.state.width), np.float32)
        for exact in (True, False):
            for found in store.by_vectors(queries, 3, exact=exact):
                _ = [store.hit(each) for each in found]
        for each in store.by_words("the cat 北京", 3):
            store.hit(each)
        store.matching(conditions("year>=3"))
        _ = list(store.documents())
        check_store(store)

    yield "index state", Reader(files, read, ("index.json",))
    yield "index shards", Reader(files, read, tuple(n for n in files if n != "index.json"))
