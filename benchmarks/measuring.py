"""What several benchmarks measure with, and the made-up vocabulary they use."""

import time
from pathlib import Path

import numpy as np


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
