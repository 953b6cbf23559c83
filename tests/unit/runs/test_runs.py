"""Runs are listed as they are, and do not notice."""

import json
import os
from pathlib import Path

import pytest

from clozeworks.errors import InputError, OutputError
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.runs import listing as runs
from clozeworks.runs.listing import find_runs, run_state
from clozeworks.storage import locks as locking
from clozeworks.storage.locks import held, locked

SESSION = {"command": ["/bin/clozeworks", "pretrain", "r.toml"], "ranks": 1}


def make(folder, *, step=None, model=False, lines=()):
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text(json.dumps({"training": {"steps": 100}}))
    (folder / "sessions.jsonl").write_text(json.dumps(SESSION) + "\n")
    (folder / ".lock").touch()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if step is not None:
        (folder / "snapshots" / f"step-{step:09}").mkdir(parents=True)
    if model:
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{}")
    return folder


def line(step):
    return {"step": step, "tokens_per_second": 123.0}


def measured(step, loss):
    return {"step": step, "evaluation": {"loss": loss}}


def test_states(tmp_path):
    stopped = make(tmp_path / "a", step=40, lines=[measured(0, 9.0), line(50), measured(50, 5.0)])
    found = run_state(stopped)
    assert (found.state, found.step, found.steps) == ("stopped", 40, 100)
    assert (found.loss, found.tokens_per_second) == (5.0, 123.0)
    assert found.go_on == "clozeworks pretrain r.toml"
    with locked(stopped):
        found = run_state(stopped)
        assert (found.state, found.step, found.go_on) == ("running", 50, None)
    finished = run_state(make(tmp_path / "b", step=100, model=True))
    assert (finished.state, finished.go_on) == ("finished", None)
    assert run_state(make(tmp_path / "c", step=100)).state == "stopped"  # the model is missing
    assert run_state(make(tmp_path / "d", lines=[measured(0, 9.0)])).state == "never began"
    early = run_state(make(tmp_path / "e", lines=[line(5)]))
    assert (early.state, early.step) == ("stopped", 0)  # killed before its first snapshot


@pytest.mark.parametrize(
    "content", ["{", "[]", "3", "{}", '{"training": 3}', '{"training": {"steps": "x"}}', "[" * 9999]
)
def test_a_damaged_recipe_is_said(tmp_path, content):
    folder = make(tmp_path / "a")
    (folder / "recipe.json").write_text(content)
    found = run_state(folder)
    assert (found.state, found.problem) == ("damaged", "recipe.json is no recipe")
    assert found.touched is not None


def test_other_damage(tmp_path):
    folder = make(tmp_path / "a", step=3)
    (folder / "recipe.json").unlink()
    assert run_state(folder).problem == "recipe.json is missing"
    folder = make(tmp_path / "b", step=3, lines=[measured(2, 4.0)])
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'\xff\x00{"step": 3, "eval\n[3]\n{"step": "x"}\n{"step": 9, "evaluation": 3}\n')
        file.write(b'{"step": 9, "evaluation": {}}\n{"step": 9, "tokens_per_second": "x"}\n')
    (folder / "sessions.jsonl").write_bytes(b"\xff{\n[]\n")
    found = run_state(folder)
    assert (found.state, found.step, found.loss, found.go_on) == ("stopped", 3, 4.0, None)
    assert found.tokens_per_second is None


def test_only_the_end_of_long_metrics_is_read(tmp_path, monkeypatch):
    lines = [measured(0, 9.0), *map(line, range(1, 500)), measured(500, 3.0), line(501)]
    folder = make(tmp_path / "a", step=500, lines=lines)
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_TAIL", 1000)
        patch.setattr(runs, "read", None)
        assert run_state(folder).loss == 3.0
    monkeypatch.setattr(runs, "_TAIL", 100)  # no evaluation in there
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines[:-2]))
    assert run_state(folder).loss == 9.0


def test_where_runs_are_looked_for(tmp_path):
    for name in ("a", "x/b", "x/y/c", ".hidden/e", "a/inside"):
        make(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "x", target_is_directory=True)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / ".lock").touch()
    names = [str(run.folder.relative_to(tmp_path)) for run in find_runs([tmp_path])]
    assert names == ["a", "x/b"]
    assert [run.folder.name for run in find_runs([tmp_path / "x", tmp_path])] == ["b", "c", "a"]
    assert [run.folder.name for run in find_runs([tmp_path / "a"])] == ["a"]
    with pytest.raises(InputError, match="nothing does not exist"):
        find_runs([tmp_path / "nothing"])
    with pytest.raises(InputError, match="is a file; name a folder with runs in it"):
        find_runs([tmp_path / "a" / "recipe.json"])


def test_asking_changes_nothing(tmp_path, listing):
    folder = make(tmp_path / "a", step=3)
    (folder / ".lock").unlink()
    before = listing(tmp_path)
    assert not held(folder)
    run_state(folder)
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


def test_a_real_run(tiny_recipe):
    done = pretrain(tiny_recipe)
    (found,) = find_runs([Path(tiny_recipe["run"]).parent])
    assert (found.state, found.step, found.steps) == ("finished", 6, 6)
    assert found.loss == done.records[-1]["evaluation"]["loss"]
