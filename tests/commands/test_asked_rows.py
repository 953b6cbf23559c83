"""How far a file has been read, and what progress makes of it."""

import gzip

import pytest

from clozeworks.cli.predict import TokenProgress
from clozeworks.data.files.lines import LineReader
from clozeworks.data.files.tables import TableReader


def test_a_share_grows_with_the_lines_that_were_given(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("京京京\n" * 100, encoding="utf-8")
    lines = LineReader(path)
    given = iter(lines)
    for number in range(1, 101):
        assert next(given) == "京京京"
        assert lines.fraction_read() == pytest.approx(number / 100)


def test_the_share_of_a_packed_file_is_that_of_its_bytes(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,n\n" + b"the cat,1\n" * 100))
    rows = TableReader(path)
    assert len(list(rows.rows(rows.head))) == 100 and rows.fraction_read() == 1.0


def test_the_share_of_a_parquet_file_is_that_of_its_rows(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr("clozeworks.data.files.tables.HEAD_ROWS", 10)
    path = tmp_path / "a.parquet"
    columns = {"text": ["the cat"] * 200, "picture": [b"x"] * 200}
    parquet.write_table(pyarrow.table(columns), path)
    rows = TableReader(path)
    assert rows.head.names == ("text",) and rows.fraction_read() == pytest.approx(
        64 / 200, abs=0.01
    )
    assert [number for number, _ in rows.rows(rows.head)] == list(range(1, 201))
    assert rows.fraction_read() == 1.0


def test_long_rows_are_held_in_small_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("clozeworks.data.files.tables.HEAD_CHARACTERS", 50)
    path = tmp_path / "a.tsv"
    path.write_text("text\n" + ("x" * 30 + "\n") * 9, encoding="utf-8")
    rows = TableReader(path)
    assert len(rows.head.rows) == 2 and len(list(rows.rows(rows.head))) == 9


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
