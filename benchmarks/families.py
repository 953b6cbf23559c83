"""Families side by side with transformers: a step of training, and reading texts.

Each family at 6 layers of width 384 (or --layers, --width), fresh weights that both libraries read
from the same folder, a vocabulary of 30,522. A step of training is 32 texts of mixed lengths
(lognormal, mean about 64 tokens, up to 256), 15 % of the tokens asked, dropout as the family has
it, and an update by AdamW. Reading is the last layer of 256 such texts. The peer pads each batch of
32 to its longest text, as its collator does; repetitions alternate. XLNet is asked for the tokens
themselves, by the content stream.

    python benchmarks/families.py [--only albert deberta-v2] [--repeats 5] [--equal] [--quick]
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

from measuring import matmul_peak, sized

TOKENS, TEXTS, LONGEST, ASKED = 30_522, 32, 256, 0.15
# A published size that stands for each family, the head that is trained, and the class of the peer.
FAMILIES = {
    "bert": ("bert-base", "vocabulary", "BertForMaskedLM"),
    "albert": ("albert-base-v1", "vocabulary", "AlbertForMaskedLM"),
    "electra": ("electra-base", "replaced", "ElectraForPreTraining"),
    "xlnet": ("xlnet-base", "vocabulary", "XLNetLMHeadModel"),
    "deberta": ("deberta-base", "vocabulary", "DebertaForMaskedLM"),
    "deberta-v2": ("deberta-v3-base", "vocabulary", "DebertaV2ForMaskedLM"),
    "modernbert": ("modernbert-base", "vocabulary", "ModernBertForMaskedLM"),
}
Run = Callable[[], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--equal", action="store_true", help="texts of 64 tokens: no padding")
    parser.add_argument(
        "--quick", action="store_true", help="1 layer, 2 repetitions, 64 texts read"
    )
    options = parser.parse_args()
    if options.quick:
        options.layers, options.repeats = 1, 2
    torch.set_num_threads(options.threads)
    print(f"{options.layers} layers of width {options.width}, {options.threads} threads")
    print(f"{'family':12}{'what':10}{'ours':>12}{'transformers':>14}  tokens/s, ratio, differs by")
    for name in options.only:
        measure(name, options)


def measure(name: str, options: argparse.Namespace) -> None:
    """One family: both libraries on the same weights and texts, in turn."""
    random = np.random.default_rng(0)
    spread = 0.0 if options.equal else 0.8
    batches = [make_texts(random, TEXTS, spread) for _ in range(2 if options.quick else 8)]
    asked = [random.random(len(text)) < ASKED for text in batches[0]]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        make_model(name, folder, options)
        ours, peer = Ours(name, folder), Peer(name, folder)
        apart = np.abs(ours.vectors(batches[0]) - peer.vectors(batches[0])).max()
        works: dict[str, tuple[Run, Run, int]] = {
            "reading": (
                lambda: ours.read(batches),
                lambda: peer.read(batches),
                sum(len(text) for batch in batches for text in batch),
            ),
            "training": (
                lambda: ours.step(batches[0], asked),
                lambda: peer.step(batches[0], asked),
                sum(map(len, batches[0])),
            ),
        }
        ours.begin_training()
        peer.begin_training()
        for what, (mine, theirs, tokens) in works.items():
            mine(), theirs()  # warm
            times: dict[str, list[float]] = {"ours": [], "peer": []}
            for turn in range(options.repeats):
                order = [("ours", mine), ("peer", theirs)]
                for side, run in order if turn % 2 else reversed(order):
                    begin = time.perf_counter()
                    run()
                    times[side].append(time.perf_counter() - begin)
            speed = {side: tokens / statistics.median(found) for side, found in times.items()}
            ratio = speed["ours"] / speed["peer"]
            print(
                f"{name:12}{what:10}{speed['ours']:12,.0f}{speed['peer']:14,.0f}  "
                f"ratio {ratio:.2f}, {apart:.0e}",
                flush=True,
            )
            result = {"benchmark": "families", "family": name, "what": what}
            result |= {"ratio": round(ratio, 3), "peak": round(matmul_peak() / 1e9)}
            print(json.dumps(result), flush=True)
        ours.workers.close()


def make_texts(random: np.random.Generator, count: int, spread: float) -> list[np.ndarray]:
    """Token numbers of texts of mixed lengths."""
    lengths = random.lognormal(np.log(64) - spread**2 / 2, spread, count)
    sizes = np.clip(lengths.round(), 4, LONGEST).astype(int)
    return [random.integers(1_000, TOKENS, size) for size in sizes]


def make_model(name: str, folder: Path, options: argparse.Namespace) -> None:
    """A folder with fresh weights."""
    from clozeworks.checkpoints import folder as folders
    from clozeworks.checkpoints.report import LoadReport
    from clozeworks.checkpoints.sentence import Pooling
    from clozeworks.core.initialize import initialize
    from clozeworks.families.family import Config, published_sizes

    size, head, _ = FAMILIES[name]
    family = published_sizes()[size]
    changes = sized(size, options.layers, options.width)
    config = Config({**family.published(size), **changes, "vocab_size": TOKENS}, name)
    model = family.blueprint(config, frozenset({head})).build()
    initialize(model)
    checkpoint = folders.Checkpoint(
        model=model,
        family=family,
        config={},
        tokenizer=None,
        pooling=Pooling(),
        report=LoadReport(),
    )
    folders.save(checkpoint, folder, overwrite=False, shard_bytes=10**10)


class Ours:
    """Packed texts, two pieces side by side."""

    def __init__(self, name: str, folder: Path) -> None:
        from clozeworks.checkpoints import folder as folders
        from clozeworks.runtime.workers import WorkerPool

        self.head = FAMILIES[name][1]
        self.model = folders.load(folder).model
        self.device = torch.device("cpu")
        self.workers = WorkerPool(self.device)

    def vectors(self, texts: list[np.ndarray]) -> np.ndarray:
        """The last layer, packed."""
        from clozeworks.core.layout import Layout

        with torch.inference_mode():
            ids = torch.from_numpy(np.concatenate(texts))
            return self.model(ids, Layout([len(text) for text in texts])).numpy()

    def read(self, batches: list[list[np.ndarray]]) -> float:
        """Every batch, side by side, as `embed` does."""
        self.model.eval()
        return sum(float(found[0, 0]) for _, found in self.workers.infer(self.vectors, batches))

    def begin_training(self) -> None:
        """Makes the optimiser and what takes gradients."""
        from clozeworks.engine.distributed import ProcessGroup
        from clozeworks.engine.gradients import Gradients

        self.update = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.gradients = Gradients(self.model, self.cost, ProcessGroup("cpu"), self.workers, seed=0)
        self.steps = 0

    def cost(self, tensors: Any) -> Any:
        """What a piece costs: tokens named, or judged."""
        from clozeworks.core.loss import Loss

        part = tensors.targets["asked"]
        hidden = self.model(tensors.ids, tensors.layout)
        head = self.model.head(self.head)
        places = part["positions"] if self.head == "vocabulary" else None
        x = head.read(hidden, tensors.layout, places)
        return Loss({"asked": head.loss(x, part["answers"])})

    def step(self, texts: list[np.ndarray], asked: list[np.ndarray]) -> float:
        """Gradients of two pieces, each on a core, and an update."""
        from clozeworks.objectives.batch import Batch

        self.model.train()
        by_length = sorted(range(len(texts)), key=lambda text: -len(texts[text]))
        pieces = []
        for worker in range(self.workers.count):
            mine = by_length[worker :: self.workers.count]
            ids, marks = (np.concatenate([side[text] for text in mine]) for side in (texts, asked))
            places = np.flatnonzero(marks)
            answers = ids[places] if self.head == "vocabulary" else marks.astype(np.int64)
            part = {"positions": places, "answers": answers}
            lengths = np.array([len(texts[text]) for text in mine])
            pieces.append(Batch(ids, np.zeros_like(ids), lengths, {"asked": part}))
        measured = self.gradients.take(self.steps, pieces)
        self.update.step()
        self.steps += 1
        return measured.loss


class Peer:
    """The model of transformers on padded batches."""

    def __init__(self, name: str, folder: Path) -> None:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        _, self.head, kind = FAMILIES[name]
        self.model = getattr(transformers, kind).from_pretrained(folder)
        self.body = self.model.base_model

    def padded(self, texts: list[np.ndarray]) -> dict[str, torch.Tensor]:
        """The texts as rows of the longest one's length."""
        longest = max(map(len, texts))
        ids = torch.zeros(len(texts), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.from_numpy(text)
            mask[row, : len(text)] = 1
        return {"input_ids": ids, "attention_mask": mask}

    def vectors(self, texts: list[np.ndarray]) -> np.ndarray:
        """The last layer, packed."""
        self.model.eval()
        with torch.inference_mode():
            batch = self.padded(texts)
            rows = self.body(**batch).last_hidden_state
            return rows[batch["attention_mask"].bool()].numpy()

    def read(self, batches: list[list[np.ndarray]]) -> float:
        """Every batch, one after the other."""
        return sum(float(self.vectors(batch)[0, 0]) for batch in batches)

    def begin_training(self) -> None:
        """Makes the optimiser."""
        self.update = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)

    def step(self, texts: list[np.ndarray], asked: list[np.ndarray]) -> float:
        """Loss, gradients and an update."""
        self.model.train()
        batch = self.padded(texts)
        labels = torch.full_like(batch["input_ids"], -100)
        for row, (text, marks) in enumerate(zip(texts, asked, strict=True)):
            labels[row, : len(text)] = torch.from_numpy(
                np.where(marks, text, -100) if self.head == "vocabulary" else marks.astype(np.int64)
            )
        if self.head != "vocabulary":
            labels = labels.clamp(min=0)  # its loss leaves padding out by the mask
        loss = self.model(**batch, labels=labels).loss
        loss.backward()
        self.update.step()
        self.update.zero_grad()
        return float(loss.detach())


if __name__ == "__main__":
    main()
