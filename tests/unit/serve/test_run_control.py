"""Stop and go on: only the process that is the run, only commands that train."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from clozeworks.runs.state import RunState, read_state
from clozeworks.serve.workspace import processes
from clozeworks.serve.workspace.processes import (
    RefusedControl,
    StartedRuns,
    continuing_words,
    stop_run,
)

HOLDS = (
    "import sys, time; from pathlib import Path; from clozeworks.storage.locks import locked\n"
    "with locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
)
RECIPE = 'run = "run"\n[data]\ncorpus = "corpus"\n'


@pytest.fixture
def process(tmp_path):
    """Starts a process that holds the lock of a run, with more words in its command."""
    started = []

    def start(*words, code=HOLDS):
        command = [sys.executable, "-c", code, str(tmp_path / "run"), *words]
        each = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(each)
        assert each.stdout.readline() == "held\n"
        return each

    (tmp_path / "run").mkdir()
    yield start
    for each in started:
        each.kill()
        each.wait()
        each.stdout.close()


def state_of(folder, pid, **more):
    """What the state says, as it is read back from the disk."""
    state = {"status": "running", "pid": pid, "host": platform.node(), **more}
    RunState("pretrain", **state).write(folder)
    return read_state(folder)


def test_the_process_of_a_run_is_told_to_end(process, tmp_path):
    run = tmp_path / "run"
    training = process("clozeworks", "pretrain", "recipe.toml")
    stop_run(run, state_of(run, training.pid))
    assert training.wait(10) == -15


@pytest.mark.parametrize(
    "words", [(), ("clozeworks", "embed"), ("pretrain",), ("notes", "pretrain")]
)
def test_another_command_is_left_alone_even_if_it_holds_the_lock(process, tmp_path, words):
    other = process(*words)
    with pytest.raises(RefusedControl, match="is not the command that trains this run"):
        stop_run(tmp_path / "run", state_of(tmp_path / "run", other.pid))
    assert other.poll() is None


def test_another_run_is_left_alone(process, tmp_path):
    """Its state names the process of another training, which does not hold this lock."""
    run = tmp_path / "run"
    process("clozeworks", "pretrain")
    other = process(
        "clozeworks", "pretrain", code="import time; print('held', flush=True); time.sleep(60)"
    )
    with pytest.raises(RefusedControl, match="is not the command"):
        stop_run(run, state_of(run, other.pid))
    assert other.poll() is None


@pytest.mark.parametrize("pid", [None, 0, 1, -1, "this process", 2**31 - 1])
def test_a_process_that_it_cannot_be(process, tmp_path, pid):
    process("clozeworks", "pretrain")
    pid = os.getpid() if pid == "this process" else pid
    with pytest.raises(RefusedControl, match=r"which process it is|is not the command"):
        stop_run(tmp_path / "run", state_of(tmp_path / "run", pid))


def test_a_run_that_does_not_train_or_trains_elsewhere(process, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(RefusedControl, match="nothing to stop"):
        stop_run(run, state_of(run, 12345))
    training = process("clozeworks", "pretrain")
    with pytest.raises(RefusedControl, match="trains on 'elsewhere'; stop it there"):
        stop_run(run, state_of(run, training.pid, host="elsewhere"))
    assert training.poll() is None


@pytest.fixture
def place(tmp_path):
    """A folder that is opened, with a run and the recipe that started it."""
    folder = tmp_path / "work"
    (folder / "run").mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    (tmp_path / "secret.toml").write_text(RECIPE)
    return folder


def stopped(place, *words, **more):
    """The state of a run that a command started."""
    state = {"status": "stopped", "where": str(place), **more}
    RunState("pretrain", command=("/bin/clozeworks", *words), **state).write(place / "run")
    return read_state(place / "run")


def test_what_trains_goes_on(place):
    for words in (
        ["pretrain", "recipe.toml", "training.steps=20", "--device", "cpu"],
        ["pretrain", str(place / "recipe.toml"), "--device=cuda:1"],
        ["pretrain", "bert-base-wordpiece", "run=run", "data.corpus=corpus"],
        [
            "finetune",
            "classify",
            "google/bert",
            "reviews.csv",
            "--out",
            "run",
            "search.learning_rates=[1e-4,2e-5]",
        ],
    ):
        assert continuing_words(place / "run", stopped(place, *words), [place]) == words


@pytest.mark.parametrize(
    "words",
    [
        ["pretrain", "../secret.toml"],
        ["pretrain", "recipe.toml", "run=/etc/cron.d"],
        ["pretrain", "recipe.toml", "--out=/etc"],
        ["pretrain", "recipe.toml", 'data.train=["a.csv","/etc/passwd"]'],
        ["pretrain", "recipe.toml", "model.start=~/secret"],
        ["pretrain", "recipe.toml", "model.start=http://evil.example#m"],
        ["pretrain", "recipe.toml", "x={a='/etc/x'}"],
        ["pretrain", "recipe.toml", "a:/etc/x"],
        ["pretrain", "link/secret.toml"],
        ["finetune", "classify", "model", "/etc/passwd"],
        ["finetune", "classify", "model", "a/../../../b.csv"],
    ],
)
def test_nothing_outside_of_what_was_opened_is_named(place, tmp_path, words):
    (place / "link").symlink_to(tmp_path)
    with pytest.raises(RefusedControl, match="is not in what was opened; type it yourself: "):
        continuing_words(place / "run", stopped(place, *words), [place])


@pytest.mark.parametrize(
    "recipe",
    [
        'run = "/etc/run"',
        'run = "run"\n[data]\ncorpus = "../../corpus"',
        '"~/x" = 1',
        'a = [{b = "/x"}]',
    ],
)
def test_a_recipe_names_nothing_outside_either(place, recipe):
    (place / "recipe.toml").write_text(recipe)
    with pytest.raises(RefusedControl, match="is not in what was opened"):
        continuing_words(place / "run", stopped(place, "pretrain", "recipe.toml"), [place])


@pytest.mark.parametrize(
    ("command", "more", "sentence"),
    [
        (("/bin/sh", "pretrain", "recipe.toml"), {}, "no command started this run"),
        (("/bin/clozeworks",), {}, "no command started this run"),
        (("clozeworks", "serve", "x"), {}, "only `clozeworks pretrain` and `finetune`"),
        (("clozeworks", "-m", "pretrain"), {}, "only `clozeworks pretrain` and `finetune`"),
        (("clozeworks", "quickstart", "x"), {}, "only `clozeworks pretrain` and `finetune`"),
        (("clozeworks", "pretrain", "recipe.toml"), {"where": "/etc"}, "'/etc', which is not in"),
        (("clozeworks", "pretrain", "recipe.toml"), {"where": "."}, "which is not in"),
        (
            ("clozeworks", "pretrain", "recipe.toml"),
            {"where": None},
            "in which folder it was started",
        ),
        (("clozeworks", "pretrain", "recipe.toml"), {"ranks": 4}, "shared by 4 processes"),
        (("clozeworks", "pretrain", "gone.toml"), {}, "is not there any more"),
        (("clozeworks", "pretrain", "x\0y"), {}, "is not in what was opened"),
        (("clozeworks", "pretrain", *["x"] * 1_000), {}, "too long"),
        (
            ("clozeworks", "pretrain", "recipe.toml"),
            {"status": "finished"},
            "nothing to go on with",
        ),
        (("clozeworks", "pretrain", "recipe.toml"), {"status": "running"}, None),
    ],
)
def test_a_hostile_state(place, command, more, sentence):
    state = {"status": "stopped", "where": str(place), **more}
    RunState("pretrain", command=command, **state).write(place / "run")
    read = read_state(place / "run")
    if sentence is None:  # it says that it runs, and nobody holds its folder
        assert continuing_words(place / "run", read, [place]) == list(command[1:])
        return
    with pytest.raises(RefusedControl, match=sentence):
        continuing_words(place / "run", read, [place])


def test_it_is_started_without_a_shell_and_without_modules_of_the_folder(place, monkeypatch):
    (place / "clozeworks.py").write_text("raise SystemExit('hostile code ran')")
    (place / "torch.py").write_text("raise SystemExit('hostile code ran')")
    asked = []

    class Recorded(subprocess.Popen):
        def __init__(self, words, **how):
            asked.append((words, how))
            super().__init__([*words[:4], "--help"], **how)

    source = Path(processes.__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.path.relpath(source)]))
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    started = StartedRuns()
    state = stopped(place, "pretrain", "recipe.toml")
    started.start(place / "run", state, [place])
    with pytest.raises(RefusedControl, match="told to go on already"):
        started.start(place / "run", state, [place])
    ((words, how),) = asked
    assert words == [sys.executable, "-P", "-m", "clozeworks", "pretrain", "recipe.toml"]
    assert how["cwd"] == str(place) and how["start_new_session"] and "shell" not in how
    assert how["env"]["PYTHONPATH"] == str(source)
    process, _ = started._started[place / "run"]
    assert process.wait(60) == 0, "its own module was run, not that of the folder"
    assert started.complaint(place / "run") is None


def test_why_it_did_not_go_on_is_told(place):
    (place / "recipe.toml").write_text('run = "run"\nnothing = 1\n')
    started = StartedRuns()
    started.start(place / "run", stopped(place, "pretrain", "recipe.toml"), [place])
    process, _ = started._started[place / "run"]
    assert process.wait(120) == 2
    assert "recipe.toml" in started.complaint(place / "run") or "nothing" in started.complaint(
        place / "run"
    )
