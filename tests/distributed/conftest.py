"""Starts commands as one process or as several that share a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def start():
    """Starts a command as one process or through torchrun; ends what is left of it."""
    running = []

    def begin(*arguments, ranks=1):
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        launcher += ["--master-port", "0", "--standalone"]
        before = launcher if ranks > 1 else []
        process = subprocess.Popen(
            [sys.executable, *before, "-m", "clozeworks", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def finish(start):
    """Runs a command to its end; what it said."""

    def run(*arguments, ranks=1):
        process = start(*arguments, ranks=ranks)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return out, err

    return run
