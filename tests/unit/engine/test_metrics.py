"""The metrics file: lines that survive crashes, full disks and going back."""

import errno
import os

import pytest

from clozeworks.engine import metrics as module
from clozeworks.engine.metrics import Metrics, read
from clozeworks.errors import OutputError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def written(path, steps):
    metrics = Metrics(path)
    for step in steps:
        metrics.add({"step": step, "loss": step / 2, "name": "é北"})
    metrics.close()


def test_each_line_is_there_at_once(path):
    metrics = Metrics(path)
    metrics.add({"step": 1})
    metrics.add({"step": 2})
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    assert metrics.records == [{"step": 1}, {"step": 2}]
    metrics.close()


def test_lines_behind_the_step_are_dropped(path):
    written(path, range(1, 9))
    metrics = Metrics(path, 5)
    assert [record["step"] for record in metrics.records] == [1, 2, 3, 4, 5]
    metrics.add({"step": 6})
    metrics.close()
    assert [record["step"] for record in read(path)] == [1, 2, 3, 4, 5, 6]
    assert next(read(path)) == {"step": 1, "loss": 0.5, "name": "é北"}


@pytest.mark.parametrize(
    "damage",
    [
        "{", "[" * 100_000, "9" * 5000, "[]", '{"loss": 1.0}', '{"step": true}', '{"step": 2.0}',
        '{"step": 2, "loss": "x"}', '{"step": 2, "evaluation": 5}', '{"step": 2, "evaluation": []}',
        '{"step": 2, "evaluation": {"loss": {}}}', '{"step": 2, "masked_lm": {"loss": []}}',
        "\x00\x1b", "\ud800",
    ],
)  # fmt: skip
def test_a_damaged_line_is_left_out_and_counted(path, damage):
    written(path, [1, 2])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + damage.encode("utf-8", "surrogatepass") + b"\n" + lines[1])
    metrics = Metrics(path, 9)
    metrics.close()
    assert [record["step"] for record in metrics.records] == [1, 2]
    assert metrics.damaged == [2]
    assert path.read_bytes() == b"".join(lines)


def test_half_a_character_can_be_written_again(path):
    path.write_text('{"step": 1, "name": "\\ud800"}\n')
    Metrics(path, 9).close()
    assert next(read(path)) == {"step": 1, "name": "\ud800"}


def test_a_run_that_begins_anew_keeps_nothing(path):
    written(path, [0, 1])
    Metrics(path, -1).close()
    assert path.read_bytes() == b""


def test_a_line_that_is_cut_anywhere_is_left_out(path):
    written(path, [1, 2])
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for cut in range(second, len(whole) - 1):
        path.write_bytes(whole[:cut])
        metrics = Metrics(path, 9)
        assert [record["step"] for record in metrics.records] == [1]
        metrics.add({"step": 2, "loss": 1.0, "name": "é北"})
        metrics.close()
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "line", ["[]", "3", "null", '{"loss": 1}', '{"step": "1"}', "\x00\x00", ""]
)
def test_lines_that_are_no_record_are_left_out(path, line):
    path.write_text(f'{line}\n{{"step": 1}}\n')
    assert list(read(path)) == [{"step": 1}]


def test_no_file_has_no_lines(path):
    assert list(read(path)) == []


class Full:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = self.file.write(data[: self.room])
        self.room -= count
        return count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.mark.parametrize("room", [0, 1, 5, 11, 12, 20])
def test_a_full_disk_loses_no_line_once_there_is_room(path, room):
    metrics = Metrics(path)
    metrics._file = full = Full(metrics._file, room)
    failed = 0
    for step in (1, 2, 3):
        try:
            metrics.add({"step": step})
        except OutputError as error:
            failed += 1
            assert str(error) == f"{path} could not be written (No space left on device)"
    assert failed == 3 - room // 12
    assert [record["step"] for record in metrics.records] == [1, 2, 3]
    with pytest.raises(OutputError):
        metrics._write()
    full.room = 1000
    metrics.close()
    assert list(read(path)) == [{"step": 1}, {"step": 2}, {"step": 3}]


def test_going_back_writes_the_file_whole_or_not_at_all(path, monkeypatch):
    written(path, [1, 2, 3])
    before = path.read_bytes()

    def torn(record):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_line", torn)
    with pytest.raises(KeyboardInterrupt):
        Metrics(path, 2)
    assert path.read_bytes() == before
