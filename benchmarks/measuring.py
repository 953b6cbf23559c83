"""What several benchmarks measure with, and the made-up vocabulary they use."""

import multiprocessing
import time
from collections.abc import Callable
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
