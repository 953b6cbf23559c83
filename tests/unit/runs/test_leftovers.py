"""What killed programs leave behind is removed by the next one, and nothing else is."""

import os
import signal
import subprocess
import sys
import time

import pytest

from clozeworks.storage import leftovers
from clozeworks.storage.atomic import write_text
from clozeworks.storage.leftovers import claimed, remove_leftovers, temporary_path

WRITER = """
import os, sys
from pathlib import Path
from clozeworks.checkpoints.whole_folder import fresh_folder
from clozeworks.storage.atomic import atomic_file
with fresh_folder(Path(sys.argv[1]) / "model") as folder:
    (folder / "half").write_text("half")
    with atomic_file(Path(sys.argv[1]) / "out.txt", "w") as file:
        file.write("half")
        print("ready", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """A program that writes a folder and a file, and waits in the middle."""
    program = subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout.readline() == b"ready\n"
    yield program
    program.kill()
    program.wait()
    program.stdin.close()
    program.stdout.close()


def test_only_what_a_killed_program_has_left(writer, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    assert len(before) == 2 and all(name.startswith(".") for name in before)
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # it runs
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    (tmp_path / ".mine.tmp").touch()
    write_text(tmp_path / "other.txt", "another program writes here")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.tmp", "other.txt"]


def test_what_another_machine_writes_stays_for_a_day(tmp_path, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(leftovers, "_machine", lambda: "0123abcd")
        folder, file = (temporary_path(tmp_path / "x", end) for end in (".tmp", ".temporary"))
    folder.mkdir()
    (folder / "inside").touch()
    file.touch()
    remove_leftovers(tmp_path)
    assert folder.exists() and file.exists()
    old = time.time() - 25 * 3600
    for path in (folder, file):
        os.utime(path, (old, old))
    with claimed(file):
        remove_leftovers(tmp_path)
        assert folder.exists() and file.exists()  # a file inside is new; the other is held
    os.utime(folder / "inside", (old, old))
    remove_leftovers(tmp_path)
    assert not folder.exists() and not file.exists()


def test_a_disk_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "fcntl", None)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = temporary_path(tmp_path / "x", ".tmp")
    theirs = path.with_name(path.name.replace(f"-{os.getpid()}-", f"-{gone.pid}-"))
    for each in (path, theirs):
        each.mkdir()
    remove_leftovers(tmp_path)
    assert path.exists() and not theirs.exists()


def test_who_ends_takes_what_it_had_begun_along(tmp_path):
    """A signal may come between the lines that would have removed it."""
    other = tmp_path / f".out.npy.{'0' * 8}-1-{'0' * 8}.temporary"
    other.write_text("of somebody else")
    script = (
        "from pathlib import Path; from clozeworks.storage.leftovers import temporary_path; "
        f"temporary_path(Path({str(tmp_path / 'out.npy')!r}), '.temporary').write_text('half')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert list(tmp_path.iterdir()) == [other]
