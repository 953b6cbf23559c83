"""How far a file has been read, and what progress makes of it."""

import gzip

import pytest

from clozeworks.cli.predict import TokenProgress
from clozeworks.cli.rows import LineReader, TableRows
from clozeworks.data.labelled.bad_rows import BadRows


def test_a_share_grows_with_the_lines_that_were_given(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("京京京\n" * 100, encoding="utf-8")
    lines = LineReader(path, "utf-8")
    given = iter(lines)
    for number in range(1, 101):
        assert next(given) == "京京京"
        assert lines.share() == pytest.approx(number / 100)


def test_the_share_of_a_packed_file_is_that_of_its_bytes(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,n\n" + b"the cat,1\n" * 100))
    rows = TableRows(path, ".csv", "utf-8", BadRows())
    assert len(list(rows.all(rows.head))) == 100 and rows.share() == 1.0


def test_the_share_of_a_parquet_file_is_that_of_its_rows(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr("clozeworks.cli.rows.HEAD_ROWS", 10)
    path = tmp_path / "a.parquet"
    columns = {"text": ["the cat"] * 200, "picture": [b"x"] * 200}
    parquet.write_table(pyarrow.table(columns), path)
    rows = TableRows(path, ".parquet", "utf-8", BadRows())
    assert rows.head.names == ("text",) and rows.share() == 10 / 200
    assert [number for number, _ in rows.all(rows.head)] == list(range(1, 201))
    assert rows.share() == 1.0


def test_long_rows_are_held_in_small_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("clozeworks.cli.rows.HEAD_CHARACTERS", 50)
    path = tmp_path / "a.tsv"
    path.write_text("text\n" + ("x" * 30 + "\n") * 9, encoding="utf-8")
    rows = TableRows(path, ".tsv", "utf-8", BadRows())
    assert len(rows.head.rows) == 2 and len(list(rows.all(rows.head))) == 9


def test_tokens_to_come_are_reckoned_from_the_share():
    shown, share = [], [0.25]
    tokens = TokenProgress(lambda done, total: shown.append((done, total)), lambda: share[0])
    tokens(50, 100)
    tokens(100, 100)
    tokens.next_chunk()
    share[0] = 0.5
    tokens(10, 100)
    share[0] = None
    tokens(20, 100)
    assert shown == [(50, 400), (100, 400), (110, 400), (120, 0)]
