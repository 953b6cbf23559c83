"""Adding and removing gives what building anew gives, and whoever stops loses nothing."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from clozeworks.errors import InputError, OutputError
from clozeworks.search import shard, writer
from clozeworks.search.documents import IndexedDocument
from clozeworks.search.filters import conditions
from clozeworks.search.state import read_state
from clozeworks.search.store import DocumentStore, open_store
from clozeworks.search.writer import AddedCounts, writing
from clozeworks.storage.locks import locked

from .conftest import WIDTH, vector_of


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(writer, "SHARD_PASSAGES", 10)
    monkeypatch.setattr("clozeworks.data.chunks.CHUNK_ITEMS", 4)


def add(folder, documents, embedder, *, finish=True):
    counts = AddedCounts()
    with writing(folder, read_state(folder)) as index:
        index.add(documents, embedder, counts)
        if finish:
            index.finish()
    return counts


def everything(folder):
    """All that can be found out about an index."""
    store = DocumentStore(folder)
    queries = np.stack([vector_of(text) for text in ("text 5", "more 8", "other")])
    return (
        sorted((each.id, each.text, dict(each.columns)) for each in store.documents()),
        [
            [
                (store.hit(found).id, round(found.score, 5), store.hit(found).passage)
                for found in one
            ]
            for one in store.by_vectors(queries, 7)
        ],
        [(store.hit(found).id, round(found.score, 9)) for found in store.by_words("text 5 8", 9)],
    )


def test_adding_and_removing_equals_building(fresh_state, made_documents, embedder):
    first, _ = fresh_state("first")
    add(first, made_documents(*range(30)), embedder)
    add(first, made_documents(*range(20, 40)), embedder)
    add(first, made_documents(3, 4, suffix=" new"), embedder)
    with writing(first, read_state(first)) as index:
        assert index.remove(["d007", "d008", "nothing", *(f"d0{n}" for n in range(11, 19))]) == 10
        index.finish()
    second, _ = fresh_state("second")
    left = [n for n in range(40) if n not in (3, 4, 7, 8, *range(11, 19))]
    add(second, [*made_documents(3, 4, suffix=" new"), *made_documents(*left)], embedder)
    assert everything(first) == everything(second)
    assert len(DocumentStore(first)) == 30


def test_only_new_texts_are_embedded(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    counts = add(folder, made_documents(*range(12)), embedder)
    assert (counts.documents, counts.embedded, counts.kept) == (12, 12, 0)
    embedder.asked.clear()
    moved = IndexedDocument("elsewhere", "text 1")
    changed = IndexedDocument("d002", "text 2", {"year": 1})
    twice = [IndexedDocument(f"n{n}", "brand new") for n in range(7)]
    counts = add(folder, [*made_documents(3, 5), moved, changed, *twice], embedder)
    assert embedder.asked == ["brand new"]
    assert (counts.kept, counts.copied, counts.embedded, counts.replaced) == (2, 8, 1, 1)
    store = DocumentStore(folder)
    (found,) = [each for each in store.documents() if each.id == "d002"]
    assert found.columns == {"year": 1}
    assert len(store) == 20


def test_what_is_gone_from_the_files_can_be_removed(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    add(folder, made_documents(*range(6)), embedder)
    hashes = b"".join(shard.hash_of(name)[:8] for name in ("d001", "d004"))
    kept = np.frombuffer(hashes, np.uint64)
    with writing(folder, read_state(folder)) as index:
        assert index.keep_only(kept) == 4
        index.finish()
    assert sorted(each.id for each in DocumentStore(folder).documents()) == ["d001", "d004"]


def test_whoever_is_interrupted_goes_on(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()

    def stopping(documents):
        if any(document.id == "d021" for document in documents):
            raise KeyboardInterrupt
        return embedder(documents)

    with pytest.raises(KeyboardInterrupt):
        add(folder, made_documents(*range(30)), stopping)
    state = read_state(folder)
    written = len(DocumentStore(folder))
    assert not state.complete and written == 20
    (folder / "shard-999999.safetensors").write_bytes(b"what a killed program left")
    embedder.asked.clear()
    counts = add(folder, made_documents(*range(30)), embedder)
    assert counts.kept == written and len(embedder.asked) == 30 - written
    other, _ = fresh_state("other")
    add(other, made_documents(*range(30)), embedder)
    assert everything(folder) == everything(other)
    assert read_state(folder).complete
    assert not (folder / "shard-999999.safetensors").exists()


def test_a_full_disk_loses_nothing(fresh_state, made_documents, embedder, monkeypatch):
    folder, _ = fresh_state()
    add(folder, made_documents(*range(12)), embedder)
    before = everything(folder)

    def full(path, arrays):
        raise OutputError(f"{path} could not be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shard, "write_arrays", full)
        with pytest.raises(OutputError, match="No space left"):
            add(folder, made_documents(*range(12, 20)), embedder)
    assert everything(folder) == before
    add(folder, made_documents(*range(12, 20)), embedder)
    assert len(DocumentStore(folder)) == 20


def test_many_small_additions_do_not_make_many_shards(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    for number in range(25):
        add(folder, made_documents(number), embedder)
    assert len(read_state(folder).shards) <= 7
    assert len(list(folder.glob("shard-*"))) == len(read_state(folder).shards)
    assert len(DocumentStore(folder)) == 25


def test_an_open_index_survives_what_others_write(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    add(folder, made_documents(*range(12)), embedder)
    store = DocumentStore(folder)
    before = [store.hit(found).id for found in store.by_words("text 5", 9)]
    with writing(folder, read_state(folder)) as index:
        index.remove([f"d{n:03}" for n in range(12)])
        index.finish()
    assert list(folder.glob("shard-*")) == []
    assert [store.hit(found).id for found in store.by_words("text 5", 9)] == before
    assert len(DocumentStore(folder)) == 0
    assert DocumentStore(folder).by_vectors(np.zeros((1, WIDTH), np.float32), 3) == [[]]


def test_a_shard_that_is_cut_is_a_sentence(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    add(folder, made_documents(*range(6)), embedder)
    (path,) = folder.glob("shard-*")
    store = DocumentStore(folder)
    assert store.by_vectors(vector_of("x")[None], 2)
    data = path.read_bytes()
    with path.open("r+b") as file:  # while it is open, as another program would
        file.truncate(4_096)
    sentence = (
        f"{path} is damaged (its size is another); put an intact copy in its place, or build the "
        "index again with --overwrite."
    )
    for ask in (
        lambda: store.by_vectors(vector_of("x")[None], 2),
        lambda: store.by_words("text", 2),
        lambda: store.document(0),
    ):
        with pytest.raises(InputError) as error:
            ask()
        assert str(error.value) == sentence
    path.write_bytes(data[:-5])
    with pytest.raises(InputError, match="is damaged"):
        DocumentStore(folder)
    path.unlink()
    with pytest.raises(InputError, match=r"is damaged \(No such file or directory\)"):
        DocumentStore(folder)


def test_a_state_that_was_changed_is_a_sentence(fresh_state):
    folder, _ = fresh_state()
    path = folder / "index.json"
    intact = path.read_text()
    path.write_text(intact.replace('"width": 8', '"width": 9'))
    with pytest.raises(InputError, match="its checksum is that of another content"):
        read_state(folder)
    data = json.loads(intact)
    path.write_text(json.dumps({**data, "version": 7}))
    with pytest.raises(InputError, match="has version 7; this program reads version 1; build the"):
        read_state(folder)
    path.unlink()
    with pytest.raises(InputError, match="is not an index; an index is a folder with an index"):
        read_state(folder)


def test_one_program_writes(fresh_state, made_documents, embedder):
    folder, state = fresh_state()
    with (
        locked(folder),
        pytest.raises(OutputError, match="is being written by another program"),
        writing(folder, state),
    ):
        pass


def test_conditions(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    add(folder, made_documents(*range(12)), embedder)
    store = DocumentStore(folder)

    def found(*where):
        masks = store.matching(conditions(where))
        vector = store.by_vectors(vector_of("text 5")[None], 20, masks)[0]
        words = store.by_words("text", 20, masks)
        ids = {store.hit(each).id for each in vector}
        assert ids == {store.hit(each).id for each in words}
        return sorted(ids)

    assert found("year>=2009") == ["d009", "d010", "d011"]
    assert found("year<2004", "kind=b") == ["d001", "d003"]
    assert found("kind != a", "year >2007") == ["d009", "d011"]
    assert found("year=1") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("moment", [2, 3, 4, 6, 7])
def test_whoever_is_killed_goes_on(moment, fresh_state, made_documents, embedder):
    """Killed just before the file of that number gets its name: a shard or the state."""
    folder, _ = fresh_state()
    if (child := os.fork()) == 0:
        replace, times = Path.replace, iter(range(1, 10**6))

        def dying(self, target):
            if next(times) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return replace(self, target)

        Path.replace = dying
        add(folder, made_documents(*range(30)), embedder)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    written = len(DocumentStore(folder))
    assert written < 30 and not read_state(folder).complete
    counts = add(folder, made_documents(*range(30)), embedder)
    assert counts.kept == written
    other, _ = fresh_state("other")
    add(other, made_documents(*range(30)), embedder)
    assert everything(folder) == everything(other)
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", "index.json", *(note.file for note in read_state(folder).shards)}


def test_words_show_the_passage_that_has_them(fresh_state, made_documents, embedder):
    folder, _ = fresh_state()
    add(folder, made_documents(*range(12)), embedder)
    store = DocumentStore(folder)
    (first, *_) = store.by_words("more 8", 3)
    assert (store.hit(first).id, store.hit(first).passage) == ("d008", "more 8")
    (first, *_) = store.by_words("text 8", 3)
    assert (store.hit(first).id, store.hit(first).passage) == ("d008", "text 8")


def test_an_index_is_opened_while_shards_are_replaced(
    fresh_state, made_documents, embedder, monkeypatch
):
    folder, _ = fresh_state()
    add(folder, made_documents(1), embedder)
    states = [read_state(folder)]
    add(folder, made_documents(2), embedder)  # joins the two, and removes the first shard
    states += [read_state(folder)] * 9
    monkeypatch.setattr("clozeworks.search.store.read_state", lambda folder: states.pop(0))
    assert len(open_store(folder)) == 2
    (folder / states[0].shards[0].file).unlink()
    with pytest.raises(InputError, match="No such file or directory"):
        open_store(folder)
