"""Runs in processes of their own that are killed and stopped, and end with the same bits."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Imports everything once; then each line it reads becomes a process with the real command.
FORKS = """
import json, os, sys
import clozeworks.display.training, clozeworks.jobs.pretrain.job
import matplotlib.figure, torch._dynamo
from clozeworks.cli import main
from clozeworks.cli.commands import pretrain
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["clozeworks", *order["arguments"]]
        main.main()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
SOURCE = Path(__file__).resolve().parents[2] / "src"
TIMED = {"seconds", "tokens_per_second", "share_of_peak"}


def wait_until(condition, seconds=60.0, pause=0.002):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "this takes too long"
        time.sleep(pause)
    return found


def ends(folder):
    """What must be the same however often a run was stopped."""
    steps = sorted((folder / "snapshots").glob("step-*"))
    files = [steps[-1] / "model.safetensors", steps[-1] / "optimizer.safetensors"]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return (
        [path.name for path in steps],
        [path.read_bytes() for path in (*files, folder / "model" / "model.safetensors")],
        [{key: value for key, value in line.items() if key not in TIMED} for line in lines],
    )


def done(folder):
    """The newest step of which there is a snapshot."""
    return max([int(path.name[5:]) for path in (folder / "snapshots").glob("step-*")], default=-1)


class Process:
    """A run in a process of its own."""

    def __init__(self, server, arguments, place):
        self.server, self.err = server, place / "err.txt"
        self.err.write_text("")  # the process may not have come so far when it is read
        names = {"out": str(place / "out.txt"), "err": str(self.err)}
        order = json.dumps({"arguments": list(map(str, arguments)), **names})
        print(order, file=server.stdin, flush=True)
        self.number = int(server.stdout.readline())
        self.ended = False

    def watches(self):
        """Whether the run watches for signals: from then on it also catches a closed terminal's."""
        status = Path(f"/proc/{self.number}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        return caught & 1 << (signal.SIGHUP - 1)

    def send(self, number):
        os.kill(self.number, number)

    def end(self):
        """Waits; the exit code and what was said."""
        self.ended = True
        return int(self.server.stdout.readline()), self.err.read_text()


@pytest.fixture(scope="module")
def forks():
    """A process that has imported everything and waits for orders."""
    server = subprocess.Popen(
        [sys.executable, "-c", FORKS],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    yield server
    server.stdin.close()
    server.wait(60)
    server.stdout.close()


@pytest.fixture
def begin(forks, recipe, tmp_path):
    """Starts the run of the recipe in another process; ends what is left of it."""
    begun = []

    def start(*changes):
        begun.append(Process(forks, ["pretrain", recipe, *changes], tmp_path))
        return begun[-1]

    yield start
    for process in begun:
        if not process.ended:
            process.send(signal.SIGKILL)
            process.end()


@pytest.fixture(scope="module")
def undisturbed(forks, write_recipe, tmp_path_factory):
    """What a run comes to that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    code, said = Process(forks, ["pretrain", write_recipe(folder)], folder).end()
    assert code == 0, said
    return ends(folder / "run")


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def test_a_run_that_is_killed_goes_on_to_the_same_bits(begin, undisturbed, run):
    moments = [(run / "metrics.jsonl").exists, lambda: done(run) >= 4]
    for moment in moments:
        process = begin()
        wait_until(moment)
        process.send(signal.SIGKILL)
        assert process.end()[0] == -signal.SIGKILL
        assert not (run / "model").exists()
    code, said = begin().end()
    assert code == 0 and "Going on from step " in said
    assert ends(run) == undisturbed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_run_that_is_stopped_says_how_to_go_on(
    begin, undisturbed, run, recipe, number, code, tmp_path
):
    process = begin()
    wait_until(lambda: done(run) >= 2)
    process.send(number)
    found, said = process.end()
    assert found == code and "Traceback" not in said
    step = done(run)
    assert said.endswith(
        f"Stopped after step {step}; nothing is lost. Go on with: clozeworks pretrain {recipe}\n"
    )
    code, said = begin().end()
    assert code == 0 and f"Going on from step {step} of 12.\n" in said
    assert ends(run) == undisturbed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_second_signal_does_not_wait_for_the_step(begin, run, number, code):
    """A step of hundreds of pieces takes far longer than this test waits."""
    process = begin(
        "training.batch_tokens=100000",
        "training.micro_batch_tokens=32",
        "data.stages=[{length=24}]",
    )
    wait_until(process.watches)
    time.sleep(0.3)
    process.send(number)
    time.sleep(0.3)
    assert done(run) == -1, "the first signal waits for the step"
    before = time.monotonic()
    process.send(number)
    found, said = process.end()
    assert found == code and "Traceback" not in said
    assert time.monotonic() - before < 20
    assert "Stopped after step 0; nothing is lost." in said and done(run) == 0


def test_a_signal_before_the_first_step(begin, run, recipe):
    process = begin("training.steps=100000", "evaluation.tokens=100000000")
    wait_until(lambda: (run / "metrics.jsonl").exists())
    process.send(signal.SIGTERM)
    code, said = process.end()
    assert code == 75 and "Traceback" not in said and "Go on with: " in said


def test_two_runs_cannot_share_a_folder(begin, command, recipe, run):
    process = begin("training.steps=100000")
    wait_until(lambda: done(run) >= 2)
    second = command("pretrain", recipe, "training.steps=100000")
    assert (second.code, second.out) == (2, "")
    assert second.err.startswith(f"clozeworks: {run} is being written by another program")
    process.send(signal.SIGKILL)
    assert process.end()[0] == -signal.SIGKILL


@pytest.mark.slow
def test_twenty_kills_also_while_snapshots_are_written(start, recipe, run, tmp_path):
    """The command as people start it, on two threads; half of the kills wait for a snapshot."""
    command = [
        "-m",
        "clozeworks",
        "pretrain",
        recipe,
        "checkpointing.every_steps=1",
        "training.steps=40",
    ]

    def begun(*changes):
        return start([*command, *changes], OMP_NUM_THREADS="2")

    def finished(*changes):
        process = begun(*changes)
        said = process.communicate()[1]
        assert process.returncode == 0, said
        return said

    def writing():
        return list(run.glob("snapshots/.step-*"))

    finished(f"run={tmp_path / 'whole'}")
    whole = ends(tmp_path / "whole")
    rng, amid = random.Random(0), 0
    for kill in range(20):
        process, before = begun(), done(run)
        wait_until(writing if kill % 2 else lambda before=before: done(run) > before)
        time.sleep(rng.random() * (0.002 if kill % 2 else 0.1))
        process.kill()
        process.communicate()
        amid += bool(writing())
        if done(run) > 30 and kill < 19:  # begin again, so that no kill comes too late
            finished()
            assert ends(run) == whole
            shutil.rmtree(run)
    assert "Going on from step " in finished()
    assert amid >= 3, "too few kills hit a snapshot in the making"
    assert not writing()
    assert ends(run) == whole
