"""A step of training models that write, side by side with transformers.

GPT-2's small shape is asked for every token of a text from those before it, T5's small shape for an
answer to each text, with dropout as published and an update by AdamW. A step is 16 texts of mixed
lengths (lognormal, mean about 64 tokens, up to 256), T5's answers half as long; with --equal all
texts have 64 tokens. The peer pads each batch to its longest text. Each side has a process of its
own, in which ours keeps memory as the engine does; repetitions alternate.

    python benchmarks/writing_steps.py [--only gpt2] [--repeats 5] [--equal] [--threads 2] [--quick]
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from generate import make_model
from measuring import apart, matmul_peak

TEXTS, LONGEST = 16, 256
SHAPES = {"gpt2": "gpt2", "t5": "t5-small"}
Texts = list[np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--equal", action="store_true", help="texts of 64 tokens: no padding")
    parser.add_argument("--quick", action="store_true", help="2 layers, 2 repetitions")
    options = parser.parse_args()
    if options.quick:
        options.repeats = 2
    torch.set_num_threads(options.threads)
    for name in options.only:
        measure(name, options)


def measure(name: str, options: argparse.Namespace) -> None:
    """One shape: both libraries on the same weights and texts, in turn."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        entries = make_model(SHAPES[name], folder, quick=options.quick)
        texts = made_up(random, entries, 1.0, options.equal)
        answers = made_up(random, entries, 0.5, options.equal) if name == "t5" else []
        sides = {
            side: apart(asked, kind, folder, options.threads)
            for side, kind in (("ours", Ours), ("peer", Peer))
        }
        own, peer = (side(("cost", texts, answers)) for side in sides.values())
        differ = abs(own - peer)
        times: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(options.repeats + 1):
            for side in sides if turn % 2 else reversed(sides):
                begin = time.perf_counter()
                sides[side](("step", texts, answers))
                if turn:  # the first is to get warm
                    times[side].append(time.perf_counter() - begin)
    tokens = sum(map(len, texts)) + sum(map(len, answers))
    speed = {side: tokens / statistics.median(found) for side, found in times.items()}
    ratios = [other / mine for mine, other in zip(times["ours"], times["peer"], strict=True)]
    ratio = speed["ours"] / speed["peer"]
    kind = "equal" if options.equal else "mixed"
    print(
        f"{name:6}{kind:7}{speed['ours']:9,.0f} tokens/s, transformers {speed['peer']:,.0f}, ratio "
        f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}); losses differ by {differ:.0e}"
    )
    result = {"benchmark": "writing_steps", "shape": name, "lengths": kind}
    result |= {"ratio": round(ratio, 3), "ours": round(speed["ours"])}
    result |= {"peer": round(speed["peer"]), "unit": "tokens/s"}
    print(json.dumps({**result, "peak": round(matmul_peak() / 1e9)}), flush=True)


def asked(kind: Callable[[Path], Any], folder: Path, threads: int) -> Callable[[Any], Any]:
    """A side, asked for a cost or a step."""
    torch.set_num_threads(threads)
    side = kind(folder)
    return lambda what: getattr(side, what[0])(*what[1:])


def made_up(random: np.random.Generator, entries: int, share: float, equal: bool) -> Texts:
    """Token numbers of texts."""
    spread = 0.0 if equal else 0.8
    lengths = random.lognormal(np.log(64 * share) - spread**2 / 2, spread, TEXTS)
    sizes = np.clip(lengths.round(), 4, LONGEST).astype(int)
    return [random.integers(10, entries - 200, size) for size in sizes]


class Ours:
    """Packed texts, two pieces side by side, as the engine trains."""

    def __init__(self, folder: Path) -> None:
        from clozeworks.checkpoints import folder as folders
        from clozeworks.engine.distributed import ProcessGroup
        from clozeworks.engine.gradients import Gradients
        from clozeworks.objectives.causal_lm import CausalLM
        from clozeworks.objectives.span_corruption import SpanCorruption
        from clozeworks.runtime.allocator import memory_kept
        from clozeworks.runtime.workers import WorkerPool

        self.kept = memory_kept()
        self.kept.__enter__()  # until the process ends
        self.model = folders.load(folder).model
        self.objective: Any = SpanCorruption() if self.model.decoder is not None else CausalLM()
        self.workers = WorkerPool(torch.device("cpu"))
        self.update = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.gradients = Gradients(self.model, self.loss, ProcessGroup("cpu"), self.workers, seed=0)
        self.steps = 0

    def loss(self, tensors: Any) -> Any:
        """What a piece costs."""
        return self.objective.loss(self.model, tensors)

    def piece(self, texts: Texts, answers: Texts) -> Any:
        """A batch as the objective makes it, of these texts and answers."""
        from clozeworks.objectives.batch import ANSWERS, Batch
        from clozeworks.objectives.teacher_forcing import LENGTHS, READ, answer_part

        ids, lengths = np.concatenate(texts), np.array([len(text) for text in texts])
        if answers:
            sizes = np.array([len(answer) for answer in answers])
            part = answer_part(np.concatenate(answers), sizes, 0)
        else:
            before = np.delete(np.arange(len(ids)), np.cumsum(lengths) - 1)
            part = {ANSWERS: ids[before + 1], READ: ids[before], "before": before}
            part[LENGTHS] = lengths - 1
        return Batch(ids, np.zeros_like(ids), lengths, {self.objective.name: part})

    def cost(self, texts: Texts, answers: Texts) -> float:
        """The mean loss, without dropout."""
        self.model.eval()
        with torch.inference_mode():
            loss = self.loss(self.piece(texts, answers).tensors())
            return next(iter(loss.means().values()))

    def step(self, texts: Texts, answers: Texts) -> None:
        """Gradients of two pieces, each on a core, and an update."""
        self.model.train()
        order = sorted(range(len(texts)), key=lambda text: -len(texts[text]))
        pieces = []
        for worker in range(self.workers.count):
            mine = order[worker :: self.workers.count]
            own = [answers[text] for text in mine] if answers else []
            pieces.append(self.piece([texts[text] for text in mine], own))
        self.gradients.take(self.steps, pieces)
        self.update.step()
        self.steps += 1


class Peer:
    """The model of transformers on padded batches."""

    def __init__(self, folder: Path) -> None:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        name = json.loads((folder / "config.json").read_text())["architectures"][0]
        self.model = getattr(transformers, name).from_pretrained(folder)
        self.update = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)

    def loss(self, texts: Texts, answers: Texts) -> torch.Tensor:
        """The mean loss of the tokens asked for."""
        ids, mask = padded(texts, 0)
        labels, _ = padded(answers or texts, -100)
        loss: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, labels=labels).loss
        return loss

    def cost(self, texts: Texts, answers: Texts) -> float:
        """The mean loss, without dropout."""
        self.model.eval()
        with torch.inference_mode():
            return float(self.loss(texts, answers))

    def step(self, texts: Texts, answers: Texts) -> None:
        """Loss, gradients and an update."""
        self.model.train()
        self.loss(texts, answers).backward()
        self.update.step()
        self.update.zero_grad()


def padded(texts: Texts, filler: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The texts as rows of the longest one's length, and where they are."""
    ids = torch.full((len(texts), max(map(len, texts))), filler, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.from_numpy(text)
        mask[row, : len(text)] = 1
    return ids, mask


if __name__ == "__main__":
    main()
