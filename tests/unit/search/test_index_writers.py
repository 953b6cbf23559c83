"""What writers of an index leave alone: files of others, each other's work, the index before."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.errors import InputError, OutputError
from clozeworks.jobs.search.embedding import SentenceEmbedder
from clozeworks.jobs.search.index import IndexSettings, build_index
from clozeworks.jobs.search.sources import FileDocuments, documents_of
from clozeworks.search import shard, writer
from clozeworks.search.state import check_free, is_index, read_state, remove_unnamed
from clozeworks.search.store import DocumentStore
from clozeworks.search.writer import AddedCounts, writing
from clozeworks.storage import atomic

FOREIGN = '{"lockfileVersion": 3, "version": 1}'


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(writer, "SHARD_PASSAGES", 10)
    monkeypatch.setattr("clozeworks.data.chunks.CHUNK_ITEMS", 4)


@pytest.fixture(scope="module")
def model(tiny_models):
    return cw.load(tiny_models["bert"])


def rows(*numbers, word="cat"):
    return [{"id": f"d{number}", "text": f"The {word} sat on {number}."} for number in numbers]


def ids(folder):
    return sorted(each.id for each in DocumentStore(folder).documents())


def expected(*numbers):
    return sorted(f"d{number}" for number in numbers)


def stop_after(monkeypatch, calls, error=KeyboardInterrupt):
    """Makes embedding fail after so many chunks."""
    embed, done = SentenceEmbedder.documents, []

    def stopping(self, documents):
        done.append(1)
        if len(done) > calls:
            raise error
        return embed(self, documents)

    monkeypatch.setattr(SentenceEmbedder, "documents", stopping)


def test_files_of_others_stay(model, tmp_path):
    out = tmp_path / "index"
    index = cw.Index.build(rows(*range(6)), model, out)
    others = (
        *("README.md", "queries.txt", "shard-000000.tar", "shard-notes.txt", "mine.temporary"),
        *("shard-1.safetensors", "shard-000000.int4.safetensors", ".index.json.swp"),
    )
    for name in others:
        (out / name).write_text("precious")
    own = (
        *("shard-000077.safetensors", "shard-000077.int8.safetensors", "neighbours.usearch"),
        *(".index.json.0a0a0a0a-12-0b0b0b0b.temporary",),
        *(".shard-000077.binary.safetensors.0a0a0a0a-12-0b0b0b0b.temporary",),
    )
    for name in own:
        (out / name).write_text("left over")
    index.remove("d0")
    cw.Index.build(rows(1), model, out, overwrite=True)
    names = {path.name for path in out.iterdir()}
    assert names >= {*others} and not names & {*own}
    assert all((out / name).read_text() == "precious" for name in others)
    assert ids(out) == ["d1"]


@pytest.mark.parametrize("content", [FOREIGN, "", "no json at all", "[1, 2]"])
def test_an_index_json_of_something_else_is_not_replaced(content, model, tmp_path):
    (tmp_path / "index.json").write_text(content)
    (tmp_path / "thesis.txt").write_text("precious")
    sentence = (
        f"{tmp_path / 'index.json'} is not of an index that this program made, so it is not "
        "replaced; choose another folder with --out."
    )
    for overwrite in (True, False):
        with pytest.raises(OutputError) as error:
            cw.Index.build(rows(1), model, tmp_path, overwrite=overwrite)
        assert str(error.value) == sentence
    assert {path.name for path in tmp_path.iterdir()} == {"index.json", "thesis.txt"}
    assert not is_index(tmp_path)
    with pytest.raises(InputError) as error:
        cw.Index.open(tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'index.json'} is not of an index that this program made; name the folder of "
        "one, or build one in another folder with `clozeworks index`."
    )


def test_a_damaged_index_can_be_replaced(model, tmp_path):
    cw.Index.build(rows(1), model, tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InputError, match=r"is damaged .* or build the index again with --overw"):
        cw.Index.open(tmp_path / "index")
    cw.Index.build(rows(2), model, tmp_path / "index", overwrite=True)
    assert ids(tmp_path / "index") == ["d2"]


@pytest.mark.parametrize("name", ["shard-000000.tar", "shard-notes.txt", "a.temporary"])
def test_a_folder_with_other_files_is_refused(name, tmp_path):
    (tmp_path / name).write_text("precious")
    with pytest.raises(OutputError, match=r"holds other files .*; an index needs a folder of its"):
        check_free(tmp_path)
    (tmp_path / name).rename(tmp_path / "shard-000001.safetensors")
    check_free(tmp_path)


def test_two_who_opened_it_before_both_have_an_effect(model, tmp_path):
    cw.Index.build(rows(*range(6)), model, tmp_path)
    first, second = cw.Index.open(tmp_path, model), cw.Index.open(tmp_path, model)
    assert first.remove("d0") == 1
    assert second.remove("d1") == 1
    first.add(rows(7))
    second.add(rows(8))
    assert ids(tmp_path) == expected(2, 3, 4, 5, 7, 8)


def test_what_is_there_is_read_while_others_are_kept_out(model, tmp_path, monkeypatch):
    cw.Index.build(rows(*range(6)), model, tmp_path)
    index, locked = cw.Index.open(tmp_path, model), writer.locked

    def late(folder):
        """Another program writes just before this one gets hold of the index."""
        monkeypatch.setattr(writer, "locked", locked)
        cw.Index.open(folder).remove("d1")
        return locked(folder)

    monkeypatch.setattr(writer, "locked", late)
    assert index.remove("d0") == 1
    assert ids(tmp_path) == expected(2, 3, 4, 5)
    monkeypatch.setattr(writer, "locked", late)
    monkeypatch.setattr(cw.Index, "remove", lambda self, name: cw.Index.add(self, rows(9)))
    index.add(rows(10))
    assert ids(tmp_path) == expected(2, 3, 4, 5, 9, 10)


def remove_some(folder, numbers, start):
    start.wait()
    for number in numbers:
        while True:
            try:
                cw.Index.open(folder).remove(f"d{number}")
                break
            except OutputError:  # the other one writes
                continue


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_two_processes_remove(fresh_state, made_documents, embedder):
    folder, state = fresh_state()
    with writing(folder, state) as index:
        index.add(made_documents(*range(40)), embedder, AddedCounts())
        index.finish()
    fork = multiprocessing.get_context("fork")
    start = fork.Barrier(2)
    names = [f"{number:03}" for number in range(30)]
    processes = [
        fork.Process(target=remove_some, args=(folder, names[half::2], start)) for half in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert ids(folder) == [f"d{number:03}" for number in range(30, 40)]


def test_an_index_that_was_replaced_meanwhile_is_not_mixed(model, tiny_models, tmp_path):
    cw.Index.build(rows(1), model, tmp_path)
    index = cw.Index.open(tmp_path, model)
    cw.Index.build(rows(2), tiny_models["roberta"], tmp_path, overwrite=True)
    index = cw.Index.open(tmp_path, tiny_models["roberta"])
    cw.Index.build(rows(3), model, tmp_path, overwrite=True)
    with pytest.raises(InputError, match="vectors of different models cannot be compared"):
        index.add(rows(4))
    assert ids(tmp_path) == ["d3"]


def full_disk(monkeypatch, after):
    """No room for a further shard after so many."""
    write, done = shard.write_arrays, []

    def full(path, arrays):
        done.append(path)
        if len(done) > after:
            with shard.atomic_file(path):
                raise OSError(28, "No space left on device")
        return write(path, arrays)

    monkeypatch.setattr(shard, "write_arrays", full)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_keeps_the_index_that_is_replaced(after, model, tmp_path, monkeypatch):
    cw.Index.build(rows(*range(20)), model, tmp_path, codes="int8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        full_disk(patch, after)
        with pytest.raises(OutputError, match="No space left on device; nothing was changed"):
            cw.Index.build(rows(*range(30), word="dog"), model, tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    index = cw.Index.build(rows(*range(30), word="dog"), model, tmp_path, overwrite=True)
    assert ids(tmp_path) == expected(*range(30)) and index.store.state.coding is None
    named = {note.file for note in index.store.state.files()}
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "index.json", *named}


def test_an_interrupt_keeps_the_index_that_is_replaced(model, tmp_path, monkeypatch):
    cw.Index.build(rows(*range(20)), model, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            cw.Index.build(rows(*range(30), word="dog"), model, tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert read_state(tmp_path).complete


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_kill_keeps_the_index_that_is_replaced(
    moment, fresh_state, made_documents, embedder, monkeypatch
):
    """Killed just before the file of that number gets its name."""
    folder, state = fresh_state()
    with writing(folder, state) as index:
        index.add(made_documents(*range(12)), embedder, AddedCounts())
        index.finish()
    old = DocumentStore(folder).state
    if (child := os.fork()) == 0:
        put, times = Path.replace, iter(range(1, 10**6))

        def dying(self, target):
            if next(times) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return put(self, target)

        try:
            Path.replace = dying
            begun = replace(state, next_shard=50, complete=False)
            index = writer.IndexWriter(folder, begun, replacing=True)
            index.add(made_documents(*range(30), suffix=" new"), embedder, AddedCounts())
            index.finish()
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert read_state(folder) == old
    assert len(DocumentStore(folder)) == 12
    remove_unnamed(folder, old)
    assert not list(folder.glob("shard-00005*"))


def test_what_was_interrupted_stays_incomplete(model, tmp_path, monkeypatch):
    many, other = tmp_path / "many.txt", tmp_path / "other.txt"
    many.write_text("\n".join(f"The cat sat on mat {n}." for n in range(20)))
    other.write_text("The dog lay on the rug.\n")
    out = tmp_path / "index"

    def build(*files):
        build_index(FileDocuments(list(files)), model, out, IndexSettings())
        return read_state(out).complete

    def interrupted():
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            stop_after(patch, 3)
            build(many)
        return not read_state(out).complete

    assert interrupted()
    index = cw.Index.open(out, model)
    index.remove(f"{many}:1")
    assert not read_state(out).complete
    index.add(rows(1))
    assert not read_state(out).complete
    assert not build(other)
    assert build(many, other)
    assert read_state(out).unfinished == ()
    assert len(index.open(out)) == 22
    index.remove("d1")
    index.add(rows(2))
    assert read_state(out).complete


def test_pruning_settles_what_was_interrupted(model, tmp_path, monkeypatch):
    many, other = tmp_path / "many.txt", tmp_path / "other.txt"
    many.write_text("\n".join(f"The cat sat on mat {n}." for n in range(20)))
    other.write_text("The dog lay on the rug.\n")
    out = tmp_path / "index"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 3)
        build_index(FileDocuments([many]), model, out, IndexSettings())
    build_index(FileDocuments([other]), model, out, IndexSettings(), prune=True)
    assert read_state(out).complete and ids(out) == [f"{other}:1"]


def test_an_interrupted_addition_of_a_program_is_finished_by_the_same(model, tmp_path, monkeypatch):
    index = cw.Index.build(rows(1), model, tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 1)
        index.add(rows(*range(2, 12)))
    assert not read_state(tmp_path).complete
    build_index(documents_of(rows(77)), model, tmp_path, IndexSettings())
    assert not read_state(tmp_path).complete
    index.add(rows(*range(2, 12)))
    assert read_state(tmp_path).complete
    assert ids(tmp_path) == expected(*range(1, 12), 77)


def test_an_id_that_is_named_twice_counts_once(model, tmp_path):
    index = cw.Index.build(rows(*range(4)), model, tmp_path)
    assert index.remove(["d1", "d1", "d1"]) == 1
    assert len(index) == 3


@pytest.mark.parametrize("moment", range(1, 9))
def test_an_interrupt_after_a_file_is_written_comes_through(moment, model, tmp_path, monkeypatch):
    cw.Index.build(rows(*range(4)), model, tmp_path)
    settle, times = atomic._settle, iter(range(1, 10**6))

    def stopping(folder):
        settle(folder)
        if next(times) == moment:
            raise KeyboardInterrupt

    changed = [*rows(0, 1, word="dog"), *rows(*range(2, 40))]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(atomic, "_settle", stopping)
        cw.Index.build(changed, model, tmp_path)
    found = ids(tmp_path)
    assert len(found) == len({*found}) and {*found} >= {*expected(*range(4))}
    cw.Index.build(changed, model, tmp_path)
    assert ids(tmp_path) == expected(*range(40))
    assert read_state(tmp_path).complete


def test_a_report_says_what_is_missing(command, model, tiny_models, tmp_path, monkeypatch):
    out, path = tmp_path / "index", tmp_path / "rows.jsonl"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 3)
        cw.Index.build(rows(*range(20)), model, out)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(30)))
    made = command("index", path, "-m", tiny_models["bert"], "-o", out)
    assert made.code == 0
    sentence = (
        f"{out} is not complete: files of a command that was stopped are missing; run that "
        "again, or remove what is not in these files with --prune."
    )
    assert sentence in made.err
