"""Files that are written completely or not at all."""

import errno
import io
import json
import os
import stat
from pathlib import Path

import pytest

from clozeworks.errors import InputError, OutputError
from clozeworks.storage.atomic import (
    append_lines,
    atomic_file,
    kept_unless,
    write_json,
    write_text,
    write_texts,
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class FullDisk(io.FileIO):
    """A file whose disk has no room left."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_bytes_arrive(folder):
    with atomic_file(Path("out.bin")) as file:
        file.write(b"\x00\r\n")
    assert Path("out.bin").read_bytes() == b"\x00\r\n"
    assert names(folder) == ["out.bin"]


def test_text_is_utf_8_with_plain_line_ends():
    with atomic_file(Path("out.txt"), "w") as file:
        file.write("é\n")
    assert Path("out.txt").read_bytes() == b"\xc3\xa9\n"


def test_the_old_file_stays_until_the_new_one_is_complete(folder):
    Path("out.bin").write_bytes(b"old")
    with atomic_file(Path("out.bin")) as file:
        file.write(b"new")
        file.flush()
        assert Path("out.bin").read_bytes() == b"old"
        temporary = next(name for name in names(folder) if name != "out.bin")
        assert temporary.startswith(".out.bin.") and f"-{os.getpid()}-" in temporary
    assert Path("out.bin").read_bytes() == b"new"


def test_two_writers_of_one_file_do_not_clash(folder):
    with atomic_file(Path("out.bin")) as first, atomic_file(Path("out.bin")) as second:
        first.write(b"first")
        second.write(b"second")
    assert Path("out.bin").read_bytes() == b"first"
    assert names(folder) == ["out.bin"]


@pytest.fixture(params=[True, False], ids=["links", "no links"])
def links(request, monkeypatch):
    """File systems with and without hard links."""
    if not request.param:

        def refuse(*names):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("links")
def test_a_file_that_appears_is_kept_and_so_are_the_results(folder):
    Path("out.2.bin").write_bytes(b"older")
    with pytest.raises(OutputError) as caught, atomic_file(Path("out.bin"), overwrite=False) as one:
        one.write(b"first")
        with atomic_file(Path("out.bin"), overwrite=False) as other:
            other.write(b"second")
    assert str(caught.value) == (
        f"out.bin exists by now, and is not replaced; the results are in {folder / 'out.3.bin'}; "
        "keep those you want."
    )
    assert {name: Path(name).read_bytes() for name in names(folder)} == {
        "out.bin": b"second", "out.2.bin": b"older", "out.3.bin": b"first",
    }  # fmt: skip


@pytest.mark.usefixtures("links")
def test_a_file_that_may_not_replace_follows_the_umask(folder):
    before = os.umask(0o022)
    try:
        with atomic_file(Path("out.txt"), "w", overwrite=False) as file:
            file.write("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("out.txt").stat().st_mode) == 0o644
    assert names(folder) == ["out.txt"] and Path("out.txt").read_text() == "new"


def test_the_longest_allowed_name_is_kept_beside(folder):
    name = "n" * 251 + ".npy"
    Path(name).touch()
    with pytest.raises(OutputError), atomic_file(Path(name), overwrite=False):
        pass
    assert names(folder) == ["n" * 40 + ".2.npy", name]


def test_a_name_that_is_taken_in_vain_is_given_back(folder, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(Path, "replace", fail)
    with (
        pytest.raises(OutputError, match=r"^out\.bin could not be written: Input/output error"),
        atomic_file(Path("out.bin"), overwrite=False),
    ):
        pass
    assert names(folder) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), InputError("No.")])
def test_an_interruption_leaves_nothing_behind(folder, error):
    Path("out.bin").write_bytes(b"old")
    with pytest.raises(type(error)) as caught, atomic_file(Path("out.bin")) as file:
        file.write(b"new")
        raise error
    assert caught.value is error
    assert names(folder) == ["out.bin"]
    assert Path("out.bin").read_bytes() == b"old"


@pytest.mark.parametrize("size", [1, 10_000_000])
def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch, size):
    Path("out.bin").write_bytes(b"old")
    monkeypatch.setattr(
        Path, "open", lambda self, mode: io.BufferedWriter(FullDisk(str(self), "x"))
    )
    with pytest.raises(OutputError) as caught, atomic_file(Path("out.bin")) as file:
        file.write(b"n" * size)
    monkeypatch.undo()
    os.chdir(folder)
    assert str(caught.value) == (
        "out.bin could not be written: No space left on device; nothing was changed; "
        "fix this, or choose another place."
    )
    assert names(folder) == ["out.bin"]
    assert Path("out.bin").read_bytes() == b"old"


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_failure_at_the_very_end_leaves_nothing_behind(folder, monkeypatch, place):
    def fail(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(*((os, "fsync") if place == "fsync" else (Path, "replace")), fail)
    with pytest.raises(KeyboardInterrupt), atomic_file(Path("out.bin")) as file:
        file.write(b"new")
    assert names(folder) == []


def test_a_folder_that_vanished_is_an_error():
    with pytest.raises(OutputError) as caught, atomic_file(Path("gone/out.bin")):
        pass
    assert str(caught.value) == (
        "gone/out.bin could not be written: No such file or directory; nothing was changed; "
        "fix this, or choose another place."
    )


def test_a_new_file_follows_the_umask():
    before = os.umask(0o022)
    try:
        with atomic_file(Path("out.bin")):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("out.bin").stat().st_mode) == 0o644


def test_a_replaced_file_keeps_its_permissions():
    Path("out.bin").touch()
    Path("out.bin").chmod(0o600)
    with atomic_file(Path("out.bin")):
        pass
    assert stat.S_IMODE(Path("out.bin").stat().st_mode) == 0o600


def test_a_link_stays_a_link(folder):
    Path("real").mkdir()
    Path("real/out.bin").write_bytes(b"old")
    Path("out.bin").symlink_to("real/out.bin")
    with atomic_file(Path("out.bin")) as file:
        file.write(b"new")
    assert Path("out.bin").is_symlink()
    assert Path("real/out.bin").read_bytes() == b"new"
    assert names(folder) == ["out.bin", "real"]


def test_the_longest_allowed_name_can_be_written(folder):
    name = "n" * 251 + ".npy"
    with atomic_file(Path(name)) as file:
        file.write(b"new")
    assert names(folder) == [name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_device_or_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out.jsonl").symlink_to(tmp_path / "pipe")
    with (
        pytest.raises(OutputError, match=r"out\.jsonl is a device or a pipe, not a file; choose"),
        atomic_file(tmp_path / "out.jsonl"),
    ):
        pass
    assert (tmp_path / "pipe").is_fifo()
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "out.jsonl"}


def test_lines_are_added_whole_or_not_at_all(folder, largest_file):
    append_lines(Path("notes"), "é\n")
    with largest_file(100), pytest.raises(OutputError) as caught:
        append_lines(Path("notes"), 60 * "a" + "\n" + 60 * "b" + "\n")
    assert str(caught.value) == (
        "notes could not be written: File too large; nothing was changed; fix this, or choose "
        "another place."
    )
    assert Path("notes").read_text("utf-8") == "é\n"
    append_lines(Path("notes"), "c\n")
    assert Path("notes").read_text("utf-8") == "é\nc\n"


def test_half_a_line_of_a_crash_goes_with_the_next_one(folder):
    Path("notes").write_text('{"a": 1}\n{"b"')
    append_lines(Path("notes"), '{"c": 3}\n')
    assert Path("notes").read_text() == '{"a": 1}\n{"c": 3}\n'


def test_several_files_are_replaced_together_or_not_at_all(folder, largest_file):
    for name in "abc":
        Path(name).write_text("old")
    wrong = pytest.raises(OutputError, match=r"^b could not be written: File too large; ")
    with largest_file(100), wrong:
        write_texts(Path(), {"a": "new", "b": 101 * "n", "c": "new"})
    assert [Path(name).read_text() for name in "abc"] == ["old"] * 3
    assert names(folder) == ["a", "b", "c"]
    write_texts(Path(), {"a": "new", "c": "new"})
    assert [Path(name).read_text() for name in "abc"] == ["new", "old", "new"]


@pytest.mark.parametrize("before", [b"old", None])
def test_a_file_is_put_back_unless_all_goes_well(folder, before):
    path = Path("file")
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(KeyboardInterrupt), kept_unless(path):
        path.write_bytes(b"new")
        raise KeyboardInterrupt
    assert (path.read_bytes() if path.exists() else None) == before
    assert names(folder) == [] if before is None else ["file"]
    with kept_unless(path) as settle:
        path.write_bytes(b"new")
        settle()
    assert path.read_bytes() == b"new" and names(folder) == ["file"]


def test_json_holds_names_that_are_not_utf_8():
    """Such a name of a file is a string with half characters in Python."""
    name = os.fsdecode(b"caf\xe9 \xc3\xa9.csv")
    write_json(Path("out.json"), {name: name})
    assert json.loads(Path("out.json").read_bytes()) == {name: name}
    assert "é.csv" in Path("out.json").read_text("utf-8")


def test_a_page_shows_names_that_are_not_utf_8():
    write_text(Path("page"), os.fsdecode(b"caf\xe9 \xc3\xa9.csv\n"))
    assert Path("page").read_text("utf-8") == "caf\\udce9 é.csv\n"
