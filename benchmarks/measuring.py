"""What several benchmarks measure with, and the made-up vocabulary they use."""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Every family names its sizes in its own words.
_SIZES = {
    "layers": ("num_hidden_layers", "n_layers", "n_layer"),
    "width": ("hidden_size", "dim", "d_model"),
    "heads": ("num_attention_heads", "n_heads", "n_head"),
    "inner": ("intermediate_size", "hidden_dim", "d_inner"),
}


def matmul_peak(size: int = 2048) -> float:
    """Operations a second of a large float32 matrix product, the best of four."""
    import torch

    a, out = torch.ones(size, size), torch.empty(size, size)
    best = 0.0
    for _ in range(4):
        begin = time.perf_counter()
        torch.mm(a, a, out=out)
        best = max(best, 2 * size**3 / (time.perf_counter() - begin))
    return best


def most_memory() -> float:
    """The most memory this program has held, in MB."""
    # Trap: getrusage counts what the parent held before this program was started.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@dataclass(frozen=True)
class Comparison:
    """What the repetitions of several sides came to."""

    runs: dict[str, list[dict[str, float]]]
    """The measurements of each side."""
    peak: float
    """The median of the matrix-product peaks before them, in Gflop/s."""

    def median(self, side: str, key: str = "speed") -> float:
        """The median of one number of a side."""
        return statistics.median(run[key] for run in self.runs[side])

    def ratio(self, key: str = "speed", peer: str = "peer") -> float:
        """Our median, divided by a peer's."""
        return self.median("ours", key) / self.median(peer, key)

    def record(self, unit: str) -> dict[str, Any]:
        """The speeds of ours and of the peer, for the JSON line."""
        speeds = {side: round(self.median(side), 1) for side in ("ours", "peer")}
        return {"ratio": round(self.ratio(), 3), **speeds, "unit": unit}


def compare_sides(
    sides: Iterable[str], measure: Callable[[str], dict[str, float]], repeats: int
) -> Comparison:
    """Measures all sides in turn, each repetition in the other order, and the machine beside it."""
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    peaks = []
    for turn in range(repeats):
        for side in runs if turn % 2 else reversed(runs):
            peaks.append(matmul_peak())
            runs[side].append(measure(side))
    return Comparison(runs, statistics.median(peaks) / 1e9)


def measured_apart(
    script: str, side: str, options: argparse.Namespace, keys: Sequence[str]
) -> dict[str, float]:
    """What a benchmark prints when it measures one side, in a process of its own.

    Args:
        script: The benchmark; it takes `--measure SIDE`.
        side: The side.
        options: Its options.
        keys: Those of them that are handed on.
    """
    command = [sys.executable, script, "--measure", side]
    for key in keys:
        command += [f"--{key}", str(getattr(options, key))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def apart(make: Callable[..., Callable[[Any], Any]], *arguments: Any) -> Callable[[Any], Any]:
    """The function that `make` gives, in a process of its own.

    Threads and memory of several sides in one process would get in each other's way.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=_answer, args=(there, make, arguments), daemon=True).start()

    def run(asked: Any) -> Any:
        here.send(asked)
        return here.recv()

    return run


def _answer(
    pipe: Any, make: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]
) -> None:
    """Answers until nobody asks any more."""
    run = make(*arguments)
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        pipe.send(run(asked))


def made_up_words(folder: Path) -> list[str]:
    """Makes a WordPiece vocabulary of 30,522 entries in a folder, and gives its words."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words: dict[str, None] = {}
    while len(words) < 30522 - 5:
        words["".join(random.choice(letters, random.integers(2, 10)))] = None
    folder.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *words]) + "\n")
    return list(words)


def sized(size: str, layers: int, width: int, head: int = 32) -> dict[str, int]:
    """What the config of a published size says for another depth, width and width of a head."""
    from clozeworks.families.family import published_sizes

    family = published_sizes()[size]
    known = family.config(family.blueprint(family.published(size), frozenset()))
    sizes = {"layers": layers, "width": width, "heads": width // head, "inner": 4 * width}
    return {key: sizes[what] for what, keys in _SIZES.items() for key in keys if key in known}
