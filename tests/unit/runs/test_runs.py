"""A run says how far it is; runs are listed as they say, and do not notice."""

import json
import os
from pathlib import Path

import pytest

from clozeworks.engine.callbacks import Callback
from clozeworks.engine.guards import Diverged
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import InputError, OutputError, SettingError
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.runs.listing import find_runs
from clozeworks.runs.recorder import RunRecorder
from clozeworks.runs.state import RunState, read_state
from clozeworks.storage import locks as locking
from clozeworks.storage.locks import held, locked

COMMAND = ("/bin/clozeworks", "pretrain", "r.toml")


def make(folder, /, *, snapshot=None, **changes):
    folder.mkdir(parents=True)
    (folder / ".lock").touch()
    known = {"status": "stopped", "step": 40, "steps": 100, "command": COMMAND}
    RunState("pretrain", **{**known, **changes}).write(folder)
    if snapshot is not None:
        (folder / "snapshots" / f"step-{snapshot:09}").mkdir(parents=True)
    return folder


def test_what_was_written_is_read(tmp_path):
    state = RunState(
        "finetune", "stopped", "seed 2 of 3", "seed-7", 40, 100, 0.5, 123.0, "f1", 0.9,
        "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:06+00:00", COMMAND, str(tmp_path), 2,
    )  # fmt: skip
    state.write(tmp_path)
    found = read_state(tmp_path)
    assert found == state
    assert found.continue_command.endswith(
        "torchrun --nproc-per-node 2 -m clozeworks pretrain r.toml"
    )


@pytest.mark.parametrize(
    ("status", "command"),
    [
        ("stopped", "clozeworks pretrain r.toml"),
        ("failed", "clozeworks pretrain r.toml"),
        ("finished", None),
    ],
)
def test_how_to_continue(tmp_path, status, command):
    assert read_state(make(tmp_path / "a", status=status)).continue_command == command


def test_a_run_that_was_killed_is_stopped_at_its_last_snapshot(tmp_path):
    folder = make(tmp_path / "a", status="running", step=57, pid=3, host="here", snapshot=40)
    with locked(folder):
        found = read_state(folder)
        assert (found.status, found.step, found.pid) == ("running", 57, 3)
        assert found.continue_command is None
    found = read_state(folder)
    assert (found.status, found.step, found.pid, found.host) == ("stopped", 40, None, None)
    assert found.continue_command == "clozeworks pretrain r.toml"
    early = read_state(make(tmp_path / "b", status="running", step=5))
    assert (early.status, early.step) == ("stopped", 0)  # killed before its first snapshot
    seed = make(tmp_path / "c", status="running", step=9, folder="seed-3", snapshot=50)
    for step in (4, 8, 6):
        (seed / "seed-3" / "snapshots" / f"step-{step:09}").mkdir(parents=True)
    assert read_state(seed).step == 8


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "3", "{}", "[" * 9999, '{"kind": "pretrain"}',
        '{"kind": "pretrain", "status": "tired"}',
        '{"kind": "pretrain", "status": "stopped", "step": "x"}',
        '{"kind": "pretrain", "status": "stopped", "loss": "x"}',
        '{"kind": "pretrain", "status": "stopped", "updated": "yesterday"}',
    ],
)  # fmt: skip
def test_a_damaged_state_is_described(tmp_path, content):
    folder = make(tmp_path / "a")
    (folder / "state.json").write_text(content)
    found = read_state(folder)
    assert (found.status, found.problem) == ("damaged", "state.json is not the state of a run")


def test_a_run_without_a_state(tmp_path):
    (tmp_path / "sessions.jsonl").touch()
    ((folder, found),) = find_runs([tmp_path]).items()
    assert (folder, found.status) == (tmp_path, "unknown")
    assert found.problem == (
        "there is no state.json: this is a part of another run, or an older version wrote it; run "
        "the command it was started with again"
    )
    with locked(tmp_path):
        assert read_state(tmp_path).status == "running"


def test_where_runs_are_looked_for(tmp_path):
    for name in ("a", "x/b", "x/y/c", ".hidden/e", "a/inside"):
        make(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "x", target_is_directory=True)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / ".lock").touch()
    assert [str(run.relative_to(tmp_path)) for run in find_runs([tmp_path])] == ["a", "x/b"]
    assert [run.name for run in find_runs([tmp_path / "x", tmp_path])] == ["b", "c", "a"]
    assert [run.name for run in find_runs([tmp_path / "a"])] == ["a"]
    with pytest.raises(InputError, match="nothing does not exist"):
        find_runs([tmp_path / "nothing"])
    with pytest.raises(InputError, match="is a file; name a folder with runs in it"):
        find_runs([tmp_path / "a" / "state.json"])


def test_asking_changes_nothing(tmp_path, listing):
    folder = make(tmp_path / "a", status="running")
    (folder / ".lock").unlink()
    before = listing(tmp_path)
    assert not held(folder)
    read_state(folder)
    assert listing(tmp_path) == before


def test_asking_keeps_nobody_out(tmp_path, monkeypatch):
    folder = make(tmp_path / "a")
    handle = os.open(folder / ".lock", os.O_RDONLY)
    locking.fcntl.flock(handle, locking.fcntl.LOCK_SH)  # somebody asks just now
    monkeypatch.setattr(locking.time, "sleep", lambda _: os.close(handle))
    with locked(folder):
        assert held(folder)
    assert not held(folder)


def test_a_folder_that_is_held_is_refused_after_a_moment(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(OutputError, match="is being written by another program"),
        locked(tmp_path),
    ):
        pass


class Watcher(Callback):
    """Reads the state of a run whenever the run says something."""

    def __init__(self, folder):
        self.folder, self.seen = Path(folder), []

    def on_train_begin(self, steps):
        self.seen.append(read_state(self.folder))

    def on_log(self, step, record):
        self.seen.append(read_state(self.folder))

    on_evaluate = on_log


def test_a_real_run(tiny_recipe):
    watcher = Watcher(tiny_recipe["run"])
    done = pretrain(tiny_recipe, callback=watcher)
    assert {state.status for state in watcher.seen} == {"running"}
    last = watcher.seen[-1]
    assert (last.kind, last.steps, last.pid) == ("pretrain", 6, os.getpid())
    assert last.host
    ((folder, found),) = find_runs([Path(tiny_recipe["run"]).parent]).items()
    assert folder == done.folder
    assert (found.status, found.step, found.steps, found.pid) == ("finished", 6, 6, None)
    assert found.loss == done.records[-1]["evaluation"]["loss"]
    assert found.tokens_per_second > 0 and found.started <= found.updated
    pretrain(tiny_recipe)  # nothing is left to do
    again = read_state(done.folder)
    assert (again.status, again.step, again.started) == ("finished", 6, found.started)


def test_a_run_that_failed_says_why(tiny_recipe, monkeypatch):
    def diverge(self):
        raise Diverged("step 3: not finite.")

    monkeypatch.setattr(Trainer, "run", diverge)
    with pytest.raises(Diverged):
        pretrain(tiny_recipe)
    found = read_state(Path(tiny_recipe["run"]))
    assert (found.status, found.problem, found.pid) == ("failed", "step 3: not finite.", None)


def test_an_interrupted_run_is_stopped(tiny_recipe, monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pretrain(tiny_recipe)
    found = read_state(Path(tiny_recipe["run"]))
    assert (found.status, found.problem) == ("stopped", None)


def test_a_run_that_is_refused_keeps_its_state(tiny_recipe):
    done = pretrain(tiny_recipe)
    before = (done.folder / "state.json").read_bytes()
    with pytest.raises(SettingError, match=r"training\.steps was 6, now 7"):
        pretrain(tiny_recipe, "training.steps=7")
    assert (done.folder / "state.json").read_bytes() == before


def test_a_state_that_cannot_be_written_costs_nothing(tiny_recipe, monkeypatch):
    def full(self, folder):
        raise OutputError("no space")

    monkeypatch.setattr(RunState, "write", full)
    assert pretrain(tiny_recipe).outcome.finished


def test_notes_on_a_disk_that_was_full_for_a_while(tmp_path, largest_file):
    """What is written is cut where the disk ends, and all of it is there once there is room."""
    (tmp_path / "recipe.json").write_text("{}")
    recorder = RunRecorder("pretrain", None, tmp_path)
    with largest_file(100):
        for number in range(3):
            recorder.on_message(f"message {number}")
    recorder.on_message("message 3")
    lines = (tmp_path / "notes.jsonl").read_text().splitlines()
    assert [json.loads(line)["note"] for line in lines] == [f"message {n}" for n in range(4)]


def test_the_file_is_plain_json(tiny_recipe):
    done = pretrain(tiny_recipe)
    record = json.loads((done.folder / "state.json").read_text(encoding="utf-8"))
    assert record["kind"] == "pretrain" and record["status"] == "finished"
    assert isinstance(record["command"], list) and record["where"] == str(Path.cwd())
