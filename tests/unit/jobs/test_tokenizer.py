"""A tokenizer learns the text of files, not how they are written."""

import bz2
import csv
import gzip
import json
import lzma

import pytest

import clozeworks as cw
from clozeworks.data.files.file_format import FileFormat
from clozeworks.errors import InputError
from clozeworks.text.training.train import train_from_iterator

KINDS = ["wordpiece", "bpe", "unigram"]


@pytest.fixture(scope="module")
def lines(made_up):
    """Lines with what some formats write in another way: quotation marks, commas, letters."""
    return [f'{made_up(number)} "Ünïcode, {{{number}}}"' for number in range(120)]


@pytest.fixture(scope="module")
def expected(lines):
    return {kind: train_from_iterator(lines, kind=kind, size=400).fingerprint for kind in KINDS}


def trained(inputs, kind="wordpiece", **options):
    return cw.train_tokenizer(inputs, kind=kind, size=400, **options).fingerprint


def as_text(lines):
    return "\n".join(lines).encode()


def as_json(lines, field="text"):
    return "\n".join(json.dumps({"id": 7, field: line}) for line in lines).encode()


def write_table(path, lines, column="text"):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", column], *([n, line] for n, line in enumerate(lines))])


@pytest.mark.parametrize("kind", KINDS)
def test_the_lines_of_a_text_file(lines, expected, kind, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(as_text(lines))
    assert trained([path], kind) == expected[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_blank_lines_and_other_ends_change_nothing(lines, expected, kind, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf\r\n" + "\r\n\r\n \t\r\n".join(lines).encode())
    assert trained([str(path)], kind) == expected[kind]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.jsonl", bytes),
        ("a.jsonl.gz", gzip.compress),
        ("a.jsonl.bz2", bz2.compress),
        ("a.jsonl.xz", lzma.compress),
    ],
)
def test_the_text_of_json_packed_or_not(lines, expected, name, pack, tmp_path):
    (tmp_path / name).write_bytes(pack(as_json(lines)))
    assert trained([tmp_path / name]) == expected["wordpiece"]


def test_tables_and_columns(lines, expected, tmp_path):
    write_table(tmp_path / "a.csv", lines, "body")
    (tmp_path / "b.tsv").write_text("\n".join(["body\tid", *(f"{line}\t1" for line in lines)]))
    for name in ("a.csv", "b.tsv"):
        assert trained([tmp_path / name], columns=["body"]) == expected["wordpiece"]


def test_parquet(lines, expected, tmp_path):
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    parquet.write_table(arrow.table({"text": lines}), tmp_path / "a.parquet")
    assert trained([tmp_path / "a.parquet"]) == expected["wordpiece"]


def test_folders_and_patterns_in_any_order(lines, expected, tmp_path):
    folder = tmp_path / "news"
    folder.mkdir()
    (folder / "a.txt").write_bytes(as_text(lines[:40]))
    (folder / "b.jsonl").write_bytes(as_json(lines[40:80]))
    write_table(folder / "c.csv", lines[80:])
    (folder / "vocab.txt").write_text("not this")
    (folder / "page.html").write_text("<p>nor this</p>")
    assert trained([folder]) == expected["wordpiece"]
    given = [str(folder / "[bc].*"), folder / "a.txt", folder / "a.txt"]
    assert trained(given) == trained(given[::-1]) == expected["wordpiece"]


def test_another_encoding(lines, expected, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    assert trained([path], file_format=FileFormat(encoding="latin-1")) == expected["wordpiece"]


def test_a_text_without_blank_lines_need_not_fit_in_memory(lines, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("clozeworks.data.files.documents.LONGEST_DOCUMENT", 1000)
    path = tmp_path / "a.txt"
    path.write_bytes(as_text(lines))
    assert trained([path]) == expected["wordpiece"]


def test_progress_is_told_in_bytes_of_all_files(lines, tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.jsonl.gz"
    first.write_bytes(as_text(lines))
    second.write_bytes(gzip.compress(as_json(lines)))
    sizes = [path.stat().st_size for path in (first, second)]
    calls = []
    trained([second, first], progress=lambda *call: calls.append(call))
    total = sum(sizes)
    reading = [(done, whole) for stage, done, whole in calls if stage == "read"]
    assert {(sizes[0], total), (total, total)} <= set(reading)
    assert reading == sorted(reading) and {whole for _, whole in reading} == {total}
    learning = [("learn", 0, 1), ("learn", 1, 1)]
    assert [call for call in calls if call[0] != "read"] == learning == calls[-2:]


@pytest.mark.parametrize("kind", KINDS)  # each reads in a way of its own, bpe from within a library
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"one\ntwo\xff\n", ", line 2: byte 0xFF is not valid UTF-8; "),
        ("a.jsonl", b'{"text": "a"}\n{"body": "b"}\n', ", line 2 has no field 'text'; "),
        ("a.txt.gz", gzip.compress(b"some words " * 1000, mtime=0)[:-12], " ends too early; "),
        ("a.pdf", b"%PDF", " has the suffix '.pdf'; known: .csv, .json, "),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(tmp_path, kind, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        trained([path], kind)
    assert str(caught.value).startswith(f"{path}{said}")


def test_no_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(" \n\n")
    with pytest.raises(InputError) as caught:
        trained([path])
    assert str(caught.value) == (
        "the training text is empty; a tokenizer learns from words; give files with text."
    )


@pytest.mark.parametrize("make", [str, lambda path: path])
def test_one_name_is_no_list(tmp_path, make):
    with pytest.raises(InputError) as caught:
        trained(make(tmp_path / "a.txt"))
    assert str(caught.value) == (
        f"inputs is one name, '{tmp_path / 'a.txt'}'; it must be a list of names; put it in a list."
    )
