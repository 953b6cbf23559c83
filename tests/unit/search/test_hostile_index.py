"""An index that somebody changed, or changes while it is open, gives a sentence or a result."""

import os
import warnings
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clozeworks.errors import InputError
from clozeworks.jobs.search.embedding import SentenceEmbedder
from clozeworks.search import neighbours as neighbours_module
from clozeworks.search import store as store_module
from clozeworks.search import writer
from clozeworks.search.documents import IndexedDocument, PassageSpan
from clozeworks.search.neighbours import NeighbourGraph, why_unused
from clozeworks.search.state import (
    CodingNote,
    ModelNote,
    NeighboursNote,
    read_state,
    write_state,
)
from clozeworks.search.store import DocumentStore, open_store, read_coding
from clozeworks.search.writer import AddedCounts, writing
from clozeworks.storage.flat_arrays import read_arrays
from clozeworks.storage.locks import locked

from .conftest import WIDTH, vector_of

ADVICE = "put an intact copy in its place, or build the index again with --overwrite."


def add(folder, documents, embedder, **finish):
    with writing(folder, read_state(folder)) as index:
        index.add(documents, embedder, AddedCounts())
        index.finish(**finish)


@pytest.fixture
def made(fresh_state, made_documents, embedder):
    """Makes an index of 40 documents."""

    def make(**finish):
        folder, _ = fresh_state()
        add(folder, made_documents(*range(40)), embedder, **finish)
        return folder

    return make


@pytest.fixture
def trusted(monkeypatch):
    """Small graphs find too little of what is random; here they are used anyway."""
    monkeypatch.setattr(neighbours_module, "LEAST_RECALL", 0.0)


def search(store, text="text 5", k=5, *, exact=False):
    (found,) = store.by_vectors(vector_of(text)[None], k, exact=exact)
    return [(store.hit(each).id, each.score) for each in found]


@contextmanager
def patience(seconds=20):
    """Ends what waits for ever."""
    import signal

    def over(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")


@needs_pipes
def test_a_pipe_is_not_waited_for(made, trusted):
    pytest.importorskip("usearch")
    folder = made(codes="int8", neighbours=True)
    state = read_state(folder)
    (shard,) = state.shards
    for name in (state.neighbours.file, shard.codes.file, shard.file):
        if name == shard.codes.file:  # the graph is looked at only without codes
            write_state(folder, state)
        elif name == state.neighbours.file:
            write_state(folder, replace(state, coding=None))
        data = (folder / name).read_bytes()
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with patience(), pytest.raises(InputError) as error:
            search(open_store(folder))
        sentence = f"{folder / name} is damaged (it is not a regular file); {ADVICE}"
        assert str(error.value) == sentence
        with patience(), pytest.raises(ValueError, match="it is not a regular file"):
            read_arrays(folder / name)
        (folder / name).unlink()
        (folder / name).write_bytes(data)
    assert search(open_store(folder))


def test_a_graph_of_another_size_is_not_read(made, trusted, tmp_path, monkeypatch):
    pytest.importorskip("usearch")
    folder = made(neighbours=True)
    note = read_state(folder).neighbours
    path = folder / note.file
    with path.open("r+b") as file:
        file.truncate(200 << 30)  # takes no room on disk

    def mapped(*_, **__):
        raise AssertionError("it is read before its size is compared")

    with monkeypatch.context() as patch:
        patch.setattr(neighbours_module.mmap, "mmap", mapped)
        with pytest.raises(InputError) as error:
            NeighbourGraph(folder, note, WIDTH)
    assert str(error.value) == f"{path} is damaged (its size is another); {ADVICE}"
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="it is not a regular file"):
        search(DocumentStore(folder))
    assert search(DocumentStore(folder), exact=True)  # which needs no graph


@pytest.mark.parametrize("counts", [{"documents": 3}, {"passages": 3_000_000_000}])
def test_counts_are_compared_before_anything_is_made_of_them(made, counts, monkeypatch):
    folder = made()
    state = read_state(folder)
    (shard,) = state.shards
    if "passages" in counts:
        counts = {"documents": 3_000_000_000, **counts}
    write_state(folder, replace(state, shards=(replace(shard, **counts),)))

    def alive_in(note):
        raise AssertionError("an array is made of a number that nobody checked")

    monkeypatch.setattr("clozeworks.search.shard.alive_in", alive_in)
    with pytest.raises(InputError) as error:
        open_store(folder)
    assert str(error.value) == (
        f"{folder / shard.file} is damaged (it does not hold id_offsets as the index says); "
        f"{ADVICE}"
    )


def test_another_size_is_said_once(made):
    folder = made()
    (shard,) = read_state(folder).shards
    path = folder / shard.file
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(InputError) as error:
        open_store(folder)
    assert str(error.value) == f"{path} is damaged (its size is another); {ADVICE}"


@pytest.mark.parametrize("number", [1e39, float("inf"), float("nan"), -1e300])
def test_probes_that_are_not_finite_let_no_model_through(fresh_state, number):
    _, state = fresh_state()
    probe = (number, *[0.0] * (WIDTH - 1))
    state = replace(state, model=ModelNote("m", "t", "mean", 16, "", "", (probe,) * 4))
    model = SimpleNamespace(
        name="other",
        tokenizer=SimpleNamespace(fingerprint="t"),
        pooling="mean",
        embed=lambda texts, **_: np.ones((len(texts), WIDTH), np.float32),
    )
    with warnings.catch_warnings(), pytest.raises(InputError) as error:
        warnings.simplefilter("error")
        SentenceEmbedder.for_index(model, state)
    assert str(error.value) == (
        "the index notes vectors of its model that are not finite; no model can be compared with "
        "them; build the index again with --overwrite."
    )


@pytest.mark.parametrize("step", [0.0, -0.1, 1e-60, 1e39, float("nan")])
def test_steps_that_cannot_be(step):
    low, steps = (0.0,) * WIDTH, (0.1,) * (WIDTH - 1) + (step,)
    note = CodingNote("int8", {"low": low, "step": steps})
    with warnings.catch_warnings(), pytest.raises(InputError) as error:
        warnings.simplefilter("error")
        read_coding(note, WIDTH)
    assert str(error.value) == (
        "the index notes codes of kind int8 and not what they need; build the index again with "
        "--overwrite."
    )


@pytest.mark.parametrize("finish", [{"codes": "int8"}, {"codes": "binary"}, {"neighbours": True}])
@pytest.mark.parametrize("many", [1, 60])
def test_an_index_that_is_open_stays_as_it_was(
    made, made_documents, embedder, finish, many, trusted
):
    if finish.get("neighbours"):
        pytest.importorskip("usearch")
    folder = made(**finish)
    before = search(DocumentStore(folder))
    store = open_store(folder)
    add(folder, made_documents(*range(100, 100 + many), 5, suffix=" new"), embedder)
    assert search(store) == before  # its first search
    assert search(open_store(folder)) != before
    removed = open_store(folder)
    with writing(folder, read_state(folder)) as index:
        index.remove([each.id for each in store.documents()])
        index.finish()
    assert search(removed)
    assert search(store) == before


@pytest.mark.parametrize("finish", [{"codes": "int8"}, {"neighbours": True}])
def test_files_of_a_newer_state_are_done_without(
    made, made_documents, embedder, finish, trusted, monkeypatch
):
    if finish.get("neighbours"):
        pytest.importorskip("usearch")
    folder = made(**finish)
    state = read_state(folder)
    (note,) = [each for each in state.files() if each.file != state.shards[0].file]
    exact = search(open_store(folder), exact=True)
    data = (folder / note.file).read_bytes()
    (folder / note.file).unlink()
    with pytest.raises(InputError, match=r"is damaged \(No such file or directory\)"):
        search(open_store(folder))
    with locked(folder):  # by the program that is about to write the newer state
        assert search(open_store(folder)) == exact
    (folder / note.file).write_bytes(data + b"of another state")
    store = DocumentStore(folder)
    with pytest.raises(InputError, match="is damaged"):
        search(store)
    write_state(folder, replace(state, next_shard=9))
    assert not store.is_whole and search(store) == exact
    # Opening looks for a state whose files are all there.
    (folder / note.file).write_bytes(data)
    states = [state, read_state(folder), read_state(folder)]
    opened = []
    whole = store_module.DocumentStore

    def opening(*arguments):
        opened.append(whole(*arguments))
        if len(opened) == 1:
            opened[0]._codes_fault = InputError("it is gone")
        return opened[-1]

    monkeypatch.setattr(store_module, "DocumentStore", opening)
    monkeypatch.setattr(store_module, "read_state", lambda folder: states.pop(0))
    assert open_store(folder) is opened[1]


@pytest.mark.parametrize("recall", [None, 0.0, 0.899, float("nan")])
def test_a_graph_that_finds_too_little_is_not_used(made, recall, monkeypatch):
    pytest.importorskip("usearch")
    folder = made(neighbours=True)
    state = read_state(folder)
    write_state(folder, replace(state, neighbours=replace(state.neighbours, recall=recall)))
    store = open_store(folder)
    asked = []
    monkeypatch.setattr(store_module.DocumentStore, "by_neighbours", asked.append)
    assert search(store) == search(store, exact=True)
    assert asked == []


def test_why_a_graph_is_not_used():
    note = NeighboursNote("neighbours.usearch", 1, "", (0,), 0.25)
    assert why_unused(note) == (
        "The graph of neighbours is not used: what it finds of the 10 nearest is 25.0%, and less "
        "than 90% is too little; searches look at all vectors. Equal texts hide each other in a "
        "graph; index each text once, or leave out --neighbours."
    )
    assert "was not measured, and" in why_unused(replace(note, recall=None))
    assert why_unused(replace(note, recall=0.9)) is None


@pytest.mark.parametrize("codes", ["int8", "binary"])
def test_codes_leave_it_to_the_ids_which_of_equal_vectors_come_first(
    codes, fresh_state, monkeypatch
):
    monkeypatch.setattr(writer, "SHARD_PASSAGES", 101)
    monkeypatch.setattr("clozeworks.data.chunks.CHUNK_ITEMS", 20)
    width = 192
    folder, state = fresh_state()
    write_state(folder, replace(state, width=width))
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(3, width))
    topics = (topics / np.linalg.norm(topics, axis=1, keepdims=True)).astype(np.float32)

    def embed(documents):
        return (
            [[PassageSpan(0, 1)] for _ in documents],
            np.array([topics[int(document.text)] for document in documents]),
        )

    order = rng.permutation(600).tolist()
    documents = [IndexedDocument(f"x{n:03}", str(n % 3)) for n in order]
    add(folder, documents, embed, codes=codes)
    store = DocumentStore(folder)
    assert len(store.shards) > 1
    # Near to one of them each: bits alone decide rightly which vectors fit better.
    near = topics + 0.02 * rng.normal(size=(3, width)).astype(np.float32)
    queries = np.concatenate([topics, near])
    for k in (1, 3, 10, 60, 201, 600):
        quick, exact = (store.by_vectors(queries, k, exact=each) for each in (False, True))
        assert quick == exact
        for one in exact:
            keys = [(-each.score, store.document_id(each.document)) for each in one]
            assert keys == sorted(keys) and len(keys) == k
