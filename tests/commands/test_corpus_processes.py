"""Builds in processes of their own that are stopped, killed, and go on."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clozeworks.storage.locks import locked

# The real command, with small pieces and shards, and a line of progress at every block.
BUILD = """
import sys
from clozeworks.cli import main
from clozeworks.display import progress
from clozeworks.data.corpus import build, split_writer
from clozeworks.data.files import compression
progress.ProgressBar.__init__.__kwdefaults__["every"] = 0.0
build.CHUNK_CHARACTERS, split_writer.SHARD_TOKENS = int(sys.argv[1]), int(sys.argv[2])
compression._BLOCK = 1 << 16
main.main(["corpus", "build", *sys.argv[3:]])
"""
GO_ON = "\nStopped. Run the same command again to go on.\n"
SIZES = [100_000, 50_000]


def workers_of(out):
    """The numbers of the worker processes of a build, whoever their parent is by now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if b"clozeworks.data.corpus.workers" in words and os.fsencode(out / "tokenizer") in words:
            found.append(int(path.parent.name))
    return found


def wait_until(condition, seconds=20.0, pause=0.01):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(pause)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Some 3 MB of text, in two files."""
    words = [f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "re") for b in ("st", "p", "ndo", "")]
    folder = tmp_path_factory.mktemp("texts")
    rng = random.Random(0)
    for name in ("a.txt", "b.txt"):
        texts = [
            ". ".join(" ".join(rng.choices(words, k=9)) for _ in range(8)) for _ in range(4000)
        ]
        (folder / name).write_text("\n\n".join(texts))
    return folder


@pytest.fixture
def large(tmp_path, made_up):
    """Some 12 MB of text that repeats some documents, in files of several kinds."""
    folder = tmp_path / "texts"
    folder.mkdir()
    rng = random.Random(1)
    for part in range(3):
        texts = [
            " ".join(made_up(rng.randrange(60_000)) for _ in range(rng.randint(1, 4)))
            for _ in range(14_000)
        ]
        (folder / f"{part}.txt").write_text("\n\n".join(texts))
        (folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, texts[:3000])))
    return folder


@pytest.fixture
def build(start, tokenizer_folder, tmp_path):
    """Starts a build; ends what is left of it."""
    running = []

    def begin(source, out, *more, workers=2, sizes=SIZES):
        options = ["--tokenizer", tokenizer_folder, "--out", out, "--workers", workers, *more]
        running.append(start(["-c", BUILD, *sizes, source, *options]))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def whole(build, source, tmp_path, hashes):
    """The hashes of a build that nothing disturbs."""
    process = build(source, tmp_path / "whole")
    assert process.communicate(timeout=60) and process.returncode == 0
    return hashes(tmp_path / "whole")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_build_that_is_stopped_says_how_to_go_on(
    build, source, whole, tmp_path, hashes, number, code
):
    out = tmp_path / "out"
    process = build(source, out)
    wait_until(lambda: list(out.glob("building/train-00001.json")))
    assert len(workers_of(out)) == 2
    process.send_signal(number)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == code
    assert said.endswith(GO_ON) and said.count("Stopped.") == 1 and "Traceback" not in said
    assert not workers_of(out)
    assert not list(out.rglob("*.temporary")) and not (out / "manifest.json").exists()
    again = build(source, out)
    said = again.communicate(timeout=60)[1]
    assert again.returncode == 0 and " left by an earlier run.\n" in said
    assert hashes(out) == whole


def test_ctrl_c_while_workers_begin(build, source, tmp_path):
    """A terminal tells every process of the group; a worker that only begins has no answer yet."""
    out = tmp_path / "out"
    process = build(source, out)
    wait_until(lambda: workers_of(out))
    for number in workers_of(out):
        if os.getpgid(number) == os.getpgid(process.pid):
            os.kill(number, signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 130 and said.endswith(GO_ON) and "Traceback" not in said
    assert not workers_of(out)


def test_workers_end_with_a_program_that_is_killed(build, source, tmp_path):
    out = tmp_path / "out"
    process = build(source, out)
    wait_until(lambda: list(out.glob("building/train-00000.json")))
    process.kill()
    process.wait()
    wait_until(lambda: not workers_of(out))
    assert "Traceback" not in process.stderr.read()


def test_a_worker_that_is_killed(build, source, whole, tmp_path, hashes):
    out = tmp_path / "out"
    process = build(source, out)
    wait_until(lambda: list(out.glob("building/train-00000.json")))
    os.kill(workers_of(out)[0], signal.SIGKILL)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 2
    assert said.splitlines()[-1] == (
        "clozeworks: a worker process ended while it made tokens, perhaps because memory ran out; "
        "run the same command again to go on, with fewer --workers."
    )
    assert "Traceback" not in said and not workers_of(out)
    again = build(source, out, workers=1)
    assert again.communicate(timeout=60) and again.returncode == 0
    assert hashes(out) == whole


def test_workers_that_are_held_up(build, source, tmp_path, hashes, monkeypatch):
    """As by Ctrl-Z or a debugger: what they were writing then is written in parts."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    sizes = [500_000, 50_000]  # answers that no pipe takes at once
    calm = build(source, tmp_path / "calm", workers=1, sizes=sizes)
    assert calm.communicate(timeout=60) and calm.returncode == 0
    out = tmp_path / "out"
    process = build(source, out, sizes=sizes)

    def hold_up():
        for number in workers_of(out):
            for held in (signal.SIGSTOP, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    os.kill(number, held)
        return process.poll() is not None

    wait_until(hold_up, pause=0.0)
    assert process.returncode == 0
    assert hashes(out) == hashes(tmp_path / "calm")


def test_modules_where_the_user_stands_are_not_ours(build, source, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    for name in ("numpy", "json", "queue"):
        (tmp_path / "here" / f"{name}.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path / "here")
    script = BUILD.replace("import sys\n", "import sys\nsys.path.remove('')\n", 1)
    monkeypatch.setitem(globals(), "BUILD", script)
    process = build(source, tmp_path / "out")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "not this one" not in said


def test_a_second_build_is_refused(build, source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with locked(out):  # as the first build does, which may be done before it could be stopped
        second = build(source, out)
        said = second.communicate(timeout=20)[1]
    assert second.returncode == 2 and said == (
        f"clozeworks: {out} is being written by another program; wait for it, or choose another "
        "folder.\n"
    )
    first = build(source, out)
    assert first.communicate(timeout=60) and first.returncode == 0


@pytest.mark.slow
def test_a_build_killed_twenty_times(build, command, large, tmp_path, hashes):
    """Each build is killed at some moment, then goes on, is killed earlier, and goes on again."""
    assert 10e6 < sum(path.stat().st_size for path in large.iterdir()) < 20e6
    options = {"sizes": [200_000, 150_000]}
    begin = time.monotonic()
    process = build(large, tmp_path / "whole", "--validation", "0.1", **options)
    assert process.communicate(timeout=120) and process.returncode == 0
    seconds = time.monotonic() - begin
    whole = hashes(tmp_path / "whole")
    assert sum(name.endswith(".safetensors") for name in whole) > 10
    rng = random.Random(20)
    out, kills, finished, resumed = tmp_path / "out-0", 0, 0, 0
    while kills < 20:
        process = build(large, out, "--validation", "0.1", **options)
        try:
            said = process.communicate(timeout=rng.random() * seconds)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            wait_until(lambda out=out: not workers_of(out))
            continue
        assert process.returncode == 0, said
        assert hashes(out) == whole
        finished, resumed = finished + 1, resumed + (" left by an earlier run." in said)
        out = tmp_path / f"out-{finished}"
    process = build(large, out, "--validation", "0.1", **options)
    assert process.communicate(timeout=120) and process.returncode == 0
    assert hashes(out) == whole
    assert resumed > 1
    assert command("corpus", "verify", out).code == 0
