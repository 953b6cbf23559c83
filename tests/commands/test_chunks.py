"""`clozeworks embed`, `fill` and `score` chunk by chunk: what is written, and what is left."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.cli.main import Terminated
from clozeworks.data import chunks
from clozeworks.errors import InputError, SettingError
from clozeworks.language_model.model import LanguageModel

TEXTS = [f"the cat {'sat ' * (number % 7)}on mat {number}" for number in range(10)]


@pytest.fixture(scope="module")
def bert(tiny_models):
    return tiny_models["bert"]


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 3)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_chunks_are_joined_in_order(command, bert, source, tmp_path, suffix):
    out = tmp_path / f"v{suffix}"
    outcome = command("embed", bert, source, "--out", out)
    assert outcome.code == 0 and "\n10 texts in " in outcome.err
    if suffix == ".npy":
        found = np.load(out)
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["text"] for row in rows] == TEXTS
        found = np.array([row["vector"] for row in rows], np.float32)
    else:
        table = pytest.importorskip("pyarrow.parquet").read_table(out)
        assert table["text"].to_pylist() == TEXTS
        found = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_allclose(found, cw.load(bert).embed(TEXTS), atol=1e-6)


def stopping(monkeypatch, stop, calls):
    """Ends the work at a call of `embed`, counted from 1."""
    embed, made = LanguageModel.embed, []

    def stopped(self, *arguments, **options):
        made.append(1)
        if len(made) == calls:
            raise stop
        return embed(self, *arguments, **options)

    monkeypatch.setattr(LanguageModel, "embed", stopped)


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_who_stops_keeps_the_vectors_beside_the_old_file(
    command, bert, source, tmp_path, monkeypatch, listing, suffix
):
    out, partial = tmp_path / f"v{suffix}", tmp_path / f"v.partial{suffix}"
    out.write_bytes(b"old")
    stopping(monkeypatch, KeyboardInterrupt(), 3)
    outcome = command("embed", bert, source, "--out", out, "--overwrite")
    assert outcome.code == 130 and outcome.err.startswith("\nStopped. 6 of 10 texts in ")
    assert outcome.err.endswith(
        f" s until then; vectors in {partial}; the same command with --resume goes on there.\n"
    )
    assert out.read_bytes() == b"old"
    if suffix == ".npy":
        assert np.load(partial).shape == (6, 32)
    elif suffix == ".jsonl":
        assert len(partial.read_text().splitlines()) == 6
    else:
        assert pytest.importorskip("pyarrow.parquet").read_table(partial).num_rows == 6
    assert set(listing(tmp_path)) == {"a.txt", partial.name, out.name}
    whole = tmp_path / f"whole{suffix}"
    monkeypatch.undo()
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 3)
    assert command("embed", bert, source, "--out", whole).code == 0
    outcome = command("embed", bert, source, "--out", out, "--overwrite", "--resume")
    assert outcome.code == 0 and "\n10 texts, 4 of them now, in " in outcome.err
    assert out.read_bytes() == whole.read_bytes() and not partial.exists()


def test_going_on_with_another_input_is_refused(command, refused, bert, source, tmp_path):
    out, partial = tmp_path / "v.jsonl", tmp_path / "v.partial.jsonl"
    partial.write_text('{"text": "other", "vector": [1]}\n')
    refused(
        f"{partial}, result 1 is not about {source}, line 1; it was made from another input; give "
        "that one, or begin again without --resume.",
        *("embed", bert, source, "--out", out, "--resume"),
    )
    partial.write_text("{}\n")
    refused(
        f"{partial} is not a file of vectors ('text'); delete it and begin again.",
        *("embed", bert, source, "--out", out, "--resume"),
    )


@pytest.mark.parametrize("suffix", [".npy", ".jsonl"])
def test_going_on_with_another_model_is_refused(
    command, refused, bert, source, tmp_path, monkeypatch, suffix
):
    out, partial = tmp_path / f"v{suffix}", tmp_path / f"v.partial{suffix}"
    stopping(monkeypatch, KeyboardInterrupt(), 3)
    command("embed", bert, source, "--out", out)
    before = partial.read_bytes()
    refused(
        f"{partial} does not hold what {bert} answers; it was made with another model or other "
        "options; give those, or begin again without --resume.",
        *("embed", bert, source, "--out", out, "--resume", "--pooling", "max"),
    )
    assert partial.read_bytes() == before and not out.exists()


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (Terminated(143), 143)])
def test_who_stops_at_once_leaves_nothing(
    command, bert, source, tmp_path, monkeypatch, listing, stop, code
):
    stopping(monkeypatch, stop, 1)
    outcome = command("embed", bert, source, "--out", tmp_path / "v.npy")
    assert (outcome.code, outcome.err) == (code, "\nStopped. Nothing was left half-written.\n")
    assert list(listing(tmp_path)) == ["a.txt"]


def test_an_error_in_the_last_line_comes_before_the_first_vector(
    refused, bert, source, monkeypatch
):
    source.write_text(source.read_text() + "\n")
    stopping(monkeypatch, AssertionError(), 1)
    refused(
        f"{source}, line 11: the text is blank; fill it in, or leave out such lines with "
        "--skip-blank.",
        *("embed", bert, source),
    )


def test_a_text_that_is_too_long_is_named_and_the_others_are_kept(command, bert, source, tmp_path):
    source.write_text(source.read_text() + "cat " * 700 + "\n")
    outcome = command("embed", bert, source, "--out", tmp_path / "v.npy")
    partial = tmp_path / "v.partial.npy"
    first, second = outcome.err.splitlines()
    assert outcome.code == 2 and first.startswith("9 of 11 texts in ")
    assert first.endswith(f"vectors in {partial}; the same command with --resume goes on there.")
    assert second.startswith(f"clozeworks: {source}, line 11 has 702 tokens; at most 512 are")
    assert np.load(partial).shape == (9, 32)


def test_lines_of_standard_input_are_answered_as_they_arrive(bert):
    process = subprocess.Popen(
        [sys.executable, "-m", "clozeworks", "embed", bert, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        encoding="utf-8",
    )
    try:
        for text in ("the cat", "我爱北京"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        out, err = process.communicate("\nthe dog", timeout=60)
    finally:
        process.kill()
    assert out == "" and process.returncode == 2
    assert err.startswith("2 texts in ")
    assert "standard input, line 3: the text is blank; " in err


def test_in_python_texts_are_taken_as_they_are_needed(bert):
    model, taken = cw.load(bert), []

    def lines():
        for text in TEXTS:
            taken.append(text)
            yield text

    found, vectors = [], []
    for texts, rows in model.embed_chunks(lines(), chunk_size=4, pooling="max"):
        assert len(taken) == len(found) + len(texts)
        found += texts
        vectors.append(rows)
    assert found == TEXTS and [len(rows) for rows in vectors] == [4, 4, 2]
    np.testing.assert_allclose(
        np.concatenate(vectors), model.embed(TEXTS, pooling="max"), atol=1e-6
    )


def test_in_python_a_bad_text_is_named_by_its_number(bert):
    model = cw.load(bert)
    chunks_of = model.embed_chunks(iter([*TEXTS, " "]), chunk_size=4)
    assert len(next(chunks_of)[0]) == len(next(chunks_of)[0]) == 4
    with pytest.raises(InputError) as caught:
        next(chunks_of)
    assert str(caught.value) == (
        "text 11 is only white space; a vector needs at least one word; drop it."
    )
    with pytest.raises(InputError) as caught:
        next(model.embed_chunks("the cat"))
    assert str(caught.value) == (
        "the texts are one str; they must be an iterable of str; use embed for one text."
    )
    with pytest.raises(SettingError) as caught:
        next(model.embed_chunks(TEXTS, chunk_size=0))
    assert str(caught.value) == "chunk_size is 0; it must be at least 1."
    with pytest.raises(InputError) as caught:
        next(model.embed_chunks([1, 2]))
    assert str(caught.value).startswith("text 1 is 1 of type int; texts must be str; ")


def test_in_python_vectors_go_to_a_file_as_they_come(bert, tmp_path):
    model = cw.load(bert)
    with cw.open_vectors(tmp_path / "v.npy") as file:
        for texts, vectors in model.embed_chunks(iter(TEXTS), chunk_size=4):
            file.write(texts, vectors)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), model.embed(TEXTS), atol=1e-6)


def test_fill_prints_a_chunk_before_the_next_is_read(command, bert, source):
    source.write_text("the [MASK] sat\n" * 5 + "the cat sat\n")
    outcome = command("fill", bert, source, "--json")
    assert outcome.code == 2 and len(outcome.out.splitlines()) == 3
    assert outcome.err == (
        f"clozeworks: {source}, line 6 ('the cat sat') has no gap; write [MASK] where a word is "
        "missing.\n"
    )


def test_score_adds_up_over_chunks(command, gpt, source, monkeypatch):
    parts = command("score", gpt, source)
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 100)
    whole = command("score", gpt, source)
    assert parts.code == 0 and parts.err == whole.err and parts.err.startswith("10 texts, ")
    assert len(parts.out.splitlines()) == len(whole.out.splitlines()) == 10
