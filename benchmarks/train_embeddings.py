"""Speed of teaching sentence vectors, side by side with SentenceTransformerTrainer.

The same MiniLM (6 layers, width 384), the same rows, one epoch, the ranking loss. Three cases:
triplets in steps of 64; triplets in steps of 1,024, ours by GradCache and the peer by its
CachedMultipleNegativesRankingLoss; scored pairs in steps of 64 with CoSENT. Each measurement is a
process of its own; repetitions alternate. Training is the steps alone, everything else left out.

    python benchmarks/train_embeddings.py --model FOLDER [--triplets FILE.jsonl] [--pairs FILE.tsv]
        [--quick] [--repeats 3] [--rows 2048]

Without files made-up rows are used, with the lengths of SNLI and STS-B.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from measuring import compare_sides, measured_apart, most_memory

RATE = 2e-5
CASES = {
    "triplets, 64 a step": ("triplets", 64),
    "triplets, 1,024 a step": ("triplets", 1024),
    "scored pairs, 64 a step": ("pairs", 64),
}
# Tokens that are computed at a time, where the default takes more memory than the peer.
MICRO_BATCH_TOKENS = {"triplets, 1,024 a step": 768}
# The mini-batch that makes the peer's cached loss fastest here is found by trying these.
MINI_BATCHES = (32, 64, 128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a sentence model folder")
    parser.add_argument("--triplets", type=Path, help="jsonl: anchor, positive, negative")
    parser.add_argument("--pairs", type=Path, help="tsv: sentence1, sentence2, score")
    parser.add_argument("--rows", type=int, default=2048, help="training rows")
    parser.add_argument("--quick", action="store_true", help="one repetition of fewer rows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="a part of the name of a case")
    parser.add_argument("--mini", type=int, default=64, help="the peer's mini-batch, if cached")
    parser.add_argument("--measure", choices=["ours", "peer"], help=argparse.SUPPRESS)
    parser.add_argument("--case", choices=list(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.repeats = 1024, 1
    if options.measure:
        print(json.dumps({"ours": ours, "peer": peer}[options.measure](options)))
        return
    with tempfile.TemporaryDirectory() as place:
        prepare(options, Path(place))
        results = [
            compare(options, case) for case in CASES if options.only is None or options.only in case
        ]
    print(json.dumps({"benchmark": "train_embeddings", "cases": results}))


def prepare(options: argparse.Namespace, place: Path) -> None:
    """Files with as many rows as are asked for, each text once."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in ("ka", "lo", "mi", "ru", "te") for b in ("na", "so", "ti", "ve")]

    def text(mean: float, number: int) -> str:
        count = max(3, int(rng.poisson(mean)))
        return " ".join([*rng.choice(words, count), str(number)])

    if options.triplets is None:
        triplets = [
            {"anchor": text(14, n), "positive": text(8, n), "negative": text(8, n)}
            for n in range(options.rows)
        ]
    else:
        triplets = distinct(read_lines(options.triplets), options.rows)
    if options.pairs is None:
        pairs = [(text(11, n), text(11, n), n % 6) for n in range(options.rows)]
    else:
        head, *lines = [line.split("\t") for line in read_lines(options.pairs)]
        names = [head.index(name) for name in ("sentence1", "sentence2", "score")]
        pairs = [tuple(line[n].strip() for n in names) for line in lines][: options.rows]
    options.triplets, options.pairs = place / "triplets.jsonl", place / "pairs.jsonl"
    options.triplets.write_text("\n".join(json.dumps(row) for row in triplets) + "\n")
    options.pairs.write_text(
        "\n".join(
            json.dumps({"sentence1": a, "sentence2": b, "score": float(s)}) for a, b, s in pairs
        )
        + "\n"
    )


def read_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return text.rstrip("\n").split("\n")


def distinct(lines: list[str], count: int) -> list[dict[str, str]]:
    """Rows that share no text, so that both sides see the same steps."""
    seen: set[str] = set()
    rows = []
    for row in map(json.loads, lines):
        if seen.isdisjoint(row.values()) and len({*row.values()}) == 3:
            seen.update(row.values())
            rows.append(row)
    return rows[:count]


def compare(options: argparse.Namespace, case: str) -> dict[str, Any]:
    options.case = case
    if "1,024" in case and not options.quick:
        tried = {}
        for mini in MINI_BATCHES:
            options.mini = mini
            tried[mini] = measure("peer", options)["speed"]
        options.mini = max(tried, key=tried.__getitem__)
    sides = compare_sides(("ours", "peer"), lambda side: measure(side, options), options.repeats)
    print(f"{case}; matmul peak {sides.peak:.0f} Gflop/s")
    for name in sides.runs:
        print(
            f"  {name:6}{sides.median(name):10.1f} rows/s{sides.median(name, 'memory'):10,.0f} MB, "
            f"first loss {sides.median(name, 'first'):.4f}"
        )
    memory = sides.ratio("memory")
    mini = f", mini-batches of {options.mini}" if "1,024" in case else ""
    print(f"  ratio {sides.ratio():.2f}, memory {memory:.2f} of the peer's{mini}", flush=True)
    return {"case": case, **sides.record("rows/s"), "memory_ratio": round(memory, 3)}


def measure(side: str, options: argparse.Namespace) -> dict[str, float]:
    keys = ("case", "model", "triplets", "pairs", "rows", "threads", "mini")
    return measured_apart(__file__, side, options, keys)


def ours(options: argparse.Namespace) -> dict[str, float]:
    import clozeworks as cw
    from clozeworks.engine.callbacks import Callback

    kind, size = CASES[options.case]
    times: list[float] = []
    losses: list[float] = []

    class Watch(Callback):
        def on_message(self, sentence: str) -> None:
            pass

        def on_train_begin(self, steps: int) -> None:
            times.append(time.perf_counter())

        def on_step(self, step: int, result: Any) -> None:
            times.append(time.perf_counter())
            losses.append(result.loss)

        def on_log(self, step: int, record: Mapping[str, Any]) -> None:
            pass

        def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
            pass

    file = options.triplets if kind == "triplets" else options.pairs
    with tempfile.TemporaryDirectory() as place:
        dev = Path(place) / "dev.jsonl"
        dev.write_text("\n".join(options.pairs.read_text().splitlines()[:8]) + "\n")
        cw.finetune(
            {
                "run": f"{place}/run",
                "model": str(options.model),
                "task": {"kind": "embed"},
                "data": {"train": [str(file)], "dev": [str(dev)]},
                "training": {
                    "epochs": 1.0,
                    "batch_size": size,
                    "micro_batch_tokens": MICRO_BATCH_TOKENS.get(options.case, 2048),
                    "learning_rate": RATE,
                },
                "evaluation": {"every_steps": 0},
            },
            callbacks=[Watch()],
            quiet=True,
        )
    return result(times, losses, size)


def peer(options: argparse.Namespace) -> dict[str, float]:
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses
    from transformers import TrainerCallback

    kind, size = CASES[options.case]
    torch.manual_seed(0)
    model = SentenceTransformer(str(options.model), device="cpu")
    file = options.triplets if kind == "triplets" else options.pairs
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    if kind == "pairs":
        loss: Any = losses.CoSENTLoss(model)
    elif size > 64:
        loss = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=options.mini)
    else:
        loss = losses.MultipleNegativesRankingLoss(model)
    times: list[float] = []

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as place:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=place,
            num_train_epochs=1,
            per_device_train_batch_size=size,
            learning_rate=RATE,
            warmup_steps=0,
            save_strategy="no",
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            dataloader_drop_last=True,
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_list(rows),
            loss=loss,
            callbacks=[Clock()],
        )
        trainer.train()
        logged = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    return result(times, logged, size)


def result(times: list[float], losses: list[float], size: int) -> dict[str, float]:
    steps = len(times) - 1
    # The first step of either side warms up.
    first = 1 if steps > 1 else 0
    seconds = times[-1] - times[first]
    return {
        "speed": (steps - first) * size / seconds,
        "memory": most_memory(),
        "first": float(losses[0]),
    }


if __name__ == "__main__":
    main()
