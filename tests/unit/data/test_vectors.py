"""Files of vectors, and what is checked before they are computed."""

import errno
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from clozeworks.data.files import vectors as vectors_module
from clozeworks.data.files.vectors import (
    VECTOR_SUFFIXES,
    JsonLinesWriter,
    check_output,
    open_vectors,
)
from clozeworks.errors import InputError, MissingExtra, OutputError

TEXTS = ["plain", 'with "quotes", \n and \u2028', "巴黎 é 😀"]
MATRIX = np.array([[0.1, -0.0], [1e-8, 3.4e38], [1e-45, 123456789]], dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_vectors(path, vectors, texts, *, overwrite=False):
    with open_vectors(path, overwrite=overwrite) as file:
        file.write(texts, vectors)


class Interrupted(io.FileIO):
    """A file whose writing is stopped by the person at the keyboard."""

    def write(self, data):
        raise KeyboardInterrupt


class FullDisk(io.FileIO):
    """A file whose disk has no room left."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def check(name, *, overwrite=False):
    check_output(Path(name), overwrite=overwrite, suffixes=VECTOR_SUFFIXES)


def message(error, call, *arguments, **options):
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


def same_bits(first, second):
    return first.dtype == second.dtype and np.array_equal(first.view("u4"), second.view("u4"))


def test_npy_holds_the_matrix():
    write_vectors(Path("out.npy"), MATRIX, TEXTS)
    assert same_bits(np.load("out.npy"), MATRIX)


def test_jsonl_holds_texts_and_shortest_numbers():
    write_vectors(Path("out.jsonl"), MATRIX, TEXTS)
    lines = Path("out.jsonl").read_text(encoding="utf-8").split("\n")
    assert lines[0] == '{"text": "plain", "vector": [0.1, -0.0]}'
    assert lines.pop() == ""
    rows = [json.loads(line) for line in lines]
    assert [row["text"] for row in rows] == TEXTS
    assert same_bits(np.array([row["vector"] for row in rows], dtype=np.float32), MATRIX)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(hypothesis_numpy.arrays(np.float32, (1, 8), elements=finite))
def test_jsonl_gives_back_the_same_float32(matrix):
    file = io.BytesIO()
    JsonLinesWriter(file).write(["a"], matrix)
    row = json.loads(file.getvalue())["vector"]
    assert same_bits(np.array([row], dtype=np.float32), matrix)


@pytest.mark.parametrize("rows_in_group", [2, 100])
def test_parquet_holds_texts_and_lists_of_fixed_size(monkeypatch, rows_in_group):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr(vectors_module, "PARQUET_ROWS", rows_in_group)
    write_vectors(Path("out.parquet"), MATRIX, TEXTS)
    table = parquet.read_table("out.parquet")
    assert table.schema.field("text").type == pyarrow.string()
    assert table.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 2)
    assert table["text"].to_pylist() == TEXTS
    assert same_bits(np.array(table["vector"].to_pylist(), dtype=np.float32), MATRIX)


@pytest.mark.parametrize("suffix", VECTOR_SUFFIXES)
def test_no_texts_make_a_file_without_rows(suffix):
    write_vectors(Path(f"out{suffix}"), np.zeros((0, 4), dtype=np.float32), [])
    assert Path(f"out{suffix}").exists()
    if suffix == ".npy":
        assert np.load("out.npy").shape == (0, 4)


@pytest.mark.parametrize("suffix", VECTOR_SUFFIXES)
def test_every_other_layout_and_precision_is_stored_as_float32(suffix):
    write_vectors(Path(f"a{suffix}"), np.asfortranarray(MATRIX.astype(np.float64)), TEXTS)
    write_vectors(Path(f"b{suffix}"), MATRIX, TEXTS)
    assert Path(f"a{suffix}").read_bytes() == Path(f"b{suffix}").read_bytes()


def test_capital_suffixes_count():
    write_vectors(Path("out.NPY"), MATRIX, TEXTS)
    assert same_bits(np.load("out.NPY"), MATRIX)


def test_overwrite_replaces():
    Path("out.npy").write_bytes(b"old")
    write_vectors(Path("out.npy"), MATRIX, TEXTS, overwrite=True)
    assert same_bits(np.load("out.npy"), MATRIX)


@pytest.mark.parametrize("suffix", VECTOR_SUFFIXES)
def test_a_full_disk_leaves_the_old_file(folder, monkeypatch, suffix):
    Path(f"out{suffix}").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda self, mode: io.BufferedWriter(FullDisk(str(self), "x")))
        text = message(
            OutputError, write_vectors, Path(f"out{suffix}"), MATRIX, TEXTS, overwrite=True
        )
    assert text == (
        f"out{suffix} could not be written: No space left on device; nothing was changed; "
        "fix this, or choose another place."
    )
    assert [entry.name for entry in folder.iterdir()] == [f"out{suffix}"]
    assert Path(f"out{suffix}").read_bytes() == b"old"


@pytest.mark.parametrize("suffix", VECTOR_SUFFIXES)
def test_an_interruption_leaves_nothing_behind(folder, monkeypatch, suffix):
    with monkeypatch.context() as patch:
        patch.setattr(
            Path, "open", lambda self, mode: io.BufferedWriter(Interrupted(str(self), "x"))
        )
        with pytest.raises(KeyboardInterrupt):
            write_vectors(Path(f"out{suffix}"), np.zeros((3, 10_000), dtype=np.float32), TEXTS)
    assert list(folder.iterdir()) == []


def test_vectors_and_texts_must_belong_together():
    assert message(InputError, write_vectors, Path("out.npy"), MATRIX, TEXTS[:2]) == (
        "There are 3 vectors and 2 texts; each text has one vector; "
        "give as many of one as of the other."
    )


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros(3, dtype=np.float32), "of shape (3,) and type float32"),
        (np.zeros((3, 2), dtype=np.int64), "of shape (3, 2) and type int64"),
    ],
)
def test_vectors_must_be_a_matrix_of_floats(array, found):
    assert message(InputError, write_vectors, Path("out.npy"), array, TEXTS) == (
        f"The vectors are an array {found}; it must be a matrix of floating-point numbers; "
        "give one row per text."
    )


def test_json_cannot_hold_nan(folder):
    matrix = np.array([[0.0], [np.nan]], dtype=np.float32)
    assert message(InputError, write_vectors, Path("out.jsonl"), matrix, ["a", "b"]) == (
        "Vector 2 holds nan; JSON has only finite numbers; write a .npy or .parquet file instead."
    )
    assert list(folder.iterdir()) == []
    write_vectors(Path("out.npy"), matrix, ["a", "b"])


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_half_a_character_cannot_be_written(folder, suffix):
    texts = ["a", "b", "c\udc80"]
    assert message(InputError, write_vectors, Path(f"out{suffix}"), MATRIX, texts) == (
        "Text 3 holds the lone surrogate \\udc80; that is half a character and cannot be written; "
        "fix the text, or write a .npy file."
    )
    assert list(folder.iterdir()) == []


def test_parquet_needs_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    expected = (
        "Writing parquet needs the library 'pyarrow', which is not installed; "
        "install it with: pip install 'clozeworks[parquet]'."
    )
    assert message(MissingExtra, check, "out.parquet") == expected
    assert message(MissingExtra, write_vectors, Path("out.parquet"), MATRIX, TEXTS) == expected


def test_a_good_place_passes():
    check("out.npy")
    Path("old.npy").touch()
    check("old.npy", overwrite=True)


def test_an_existing_file_is_kept():
    Path("vectors.npy").write_bytes(b"old")
    expected = "vectors.npy exists; choose another name, or replace it with --overwrite."
    assert message(OutputError, check, "vectors.npy") == expected
    assert message(OutputError, write_vectors, Path("vectors.npy"), MATRIX, TEXTS) == expected
    assert Path("vectors.npy").read_bytes() == b"old"


def test_a_file_that_appears_meanwhile_is_kept():
    place = Path("vectors.2.npy").absolute()
    with pytest.raises(OutputError) as caught, open_vectors("vectors.npy") as file:
        file.write(TEXTS, MATRIX)
        Path("vectors.npy").write_bytes(b"old")
    assert str(caught.value) == (
        f"vectors.npy exists by now, and is not replaced; the results are in {place}; keep those "
        "you want."
    )
    assert Path("vectors.npy").read_bytes() == b"old"
    assert np.array_equal(np.load(place), MATRIX)


@pytest.mark.parametrize("suffix", VECTOR_SUFFIXES)
def test_parts_make_the_same_file_as_all_at_once(monkeypatch, suffix):
    monkeypatch.setattr(vectors_module, "PARQUET_ROWS", 8)
    texts, matrix = TEXTS * 7, np.tile(MATRIX, (7, 1))
    write_vectors(Path(f"whole{suffix}"), matrix, texts)
    with open_vectors(f"parts{suffix}") as file:
        for start in range(0, 21, 4):
            file.write(texts[start : start + 4], matrix[start : start + 4])
            assert not Path(f"parts{suffix}").exists()
    assert file.count == 21
    assert Path(f"parts{suffix}").read_bytes() == Path(f"whole{suffix}").read_bytes()


def test_all_vectors_of_a_file_have_one_width():
    with pytest.raises(InputError) as caught, open_vectors("out.npy") as file:
        file.write(TEXTS, MATRIX)
        file.write(TEXTS, np.zeros((3, 5), np.float32))
    assert str(caught.value) == (
        "Vector 4 has 5 numbers, and those before it 2; all of a file have the same; write two "
        "files."
    )
    assert not Path("out.npy").exists()


def test_unknown_suffixes_list_the_known_ones():
    rule = (
        "known: .npy, .jsonl, .parquet; the suffix chooses the format, "
        "so end the name in one of them."
    )
    assert message(OutputError, check, "out.npz") == (
        f"out.npz has the suffix '.npz'; {rule} Did you mean '.npy'?"
    )
    assert message(OutputError, check, "out.bin") == f"out.bin has the suffix '.bin'; {rule}"
    assert message(OutputError, check, "out") == f"out has no suffix; {rule}"


def test_a_folder_is_not_a_file():
    Path("out").mkdir()
    assert message(OutputError, check, "out", overwrite=True) == (
        "out is a folder; name a file, such as out/vectors.npy."
    )


def test_the_folder_must_exist():
    assert message(OutputError, check, "runs/day 1/out.npy") == (
        "runs/day 1/out.npy cannot be written: the folder runs/day 1 does not exist; "
        "create it with: mkdir -p 'runs/day 1'."
    )


@pytest.mark.parametrize("name", ["notes.txt/out.npy", "notes.txt/deeper/out.npy"])
def test_the_folder_must_not_be_a_file(name):
    Path("notes.txt").touch()
    assert message(OutputError, check, name) == (
        f"{name} cannot be written: notes.txt is a file, not a folder; choose another place."
    )


def test_the_folder_must_be_writable(monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert message(OutputError, check, "out.npy") == (
        "out.npy cannot be written: the folder . is not writable; "
        "choose another place, or change its permissions."
    )


def test_a_name_may_be_too_long():
    name = "n" * 300 + ".npy"
    assert message(OutputError, check, name) == (
        f"{name} cannot be written: File name too long; choose another place."
    )
