"""Speed of cross-encoders, side by side with sentence-transformers: training and reranking.

The same MiniLM (6 layers, width 384) with one logit and the same rows. Three cases: pairs with 0
or 1 in steps of 32; lists of 8 documents in steps of 16 queries, LambdaLoss; 100 passages for each
query put in order, the peer with the batch size that suits it best. Each measurement is a process
of its own; repetitions alternate. Training is the steps alone, everything else left out.

    python benchmarks/rerank.py [--model FOLDER] [--pairs FILE.tsv] [--quick] [--repeats 3]

Without a model one with fresh weights is made, without pairs (query, document, label) made-up ones
are used, with the lengths of WikiQA.
"""

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from measuring import compare_sides, made_up_words, measured_apart, most_memory, sized

RATE = 2e-5
PASSAGES, LIST = 100, 8
TRAINING = {"pairs, 32 a step": 32, f"lists of {LIST}, 16 a step": 16}
RERANKING = f"{PASSAGES} passages a query"
BATCHES = (16, 32, 64, 100)  # tried for the peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a cross-encoder's folder")
    parser.add_argument("--pairs", type=Path, help="tsv with a header: query, document, label")
    parser.add_argument("--steps", type=int, default=20, help="training steps")
    parser.add_argument("--queries", type=int, default=12, help="queries to rerank for")
    parser.add_argument("--quick", action="store_true", help="one repetition of fewer steps")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="a part of the name of a case")
    parser.add_argument("--batch", type=int, default=32, help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=["ours", "peer"], help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.steps, options.queries, options.repeats = 6, 4, 1
    if options.measure:
        side = {"ours": (train, rerank), "peer": (train_peer, rerank_peer)}[options.measure]
        print(json.dumps(side[options.case == RERANKING](options)))
        return
    with tempfile.TemporaryDirectory() as place:
        prepare(options, Path(place))
        cases = [case for case in (*TRAINING, RERANKING) if (options.only or "") in case]
        results = [compare(options, case) for case in cases]
    print(json.dumps({"benchmark": "rerank", "cases": results}))


def prepare(options: argparse.Namespace, place: Path) -> None:
    """A model with one logit, pairs, and lists of them, as files that both sides read."""
    import clozeworks as cw
    from clozeworks.tasks.rerank.task import Rerank
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    words = made_up_words(place / "words")
    if options.model is None:
        model = cw.new("bert-base", Tokenizer.load(place / "words"), **sized("bert-base", 6, 384))
        options.model = model.for_task(Rerank(activation="sigmoid")).save(place / "model")
    rng = np.random.default_rng(0)

    def text(mean: float) -> str:
        return " ".join(rng.choice(words, max(3, int(rng.poisson(mean)))))

    if options.pairs is None:
        rows = [(text(6), text(25), n % 5 == 0) for n in range(8_000)]
    else:
        with options.pairs.open(encoding="utf-8", newline="") as file:
            rows = [tuple(row) for row in csv.reader(file, delimiter="\t")][1:]
    pairs = [{"query": q, "document": d, "label": float(label)} for q, d, label in rows]
    every = [pairs[n : n + LIST] for n in range(0, len(pairs), LIST)]
    lists = [
        {
            "query": several[0]["query"],
            "documents": [each["document"] for each in several],
            "labels": [float(n == 0) for n in range(len(several))],
        }
        for several in every
    ]
    options.pairs = place / "rows"
    for name, written in (("pairs", pairs), ("lists", lists)):
        content = "".join(json.dumps(row) + "\n" for row in written)
        Path(f"{options.pairs}-{name}.jsonl").write_text(content, encoding="utf-8")


def rows_of(options: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    lines = Path(f"{options.pairs}-{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def compare(options: argparse.Namespace, case: str) -> dict[str, Any]:
    options.case = case
    if case == RERANKING and not options.quick:
        tried = {}
        for options.batch in BATCHES:
            tried[options.batch] = measure("peer", options)["speed"]
        options.batch = max(tried, key=tried.__getitem__)
    sides = compare_sides(("ours", "peer"), lambda side: measure(side, options), options.repeats)
    print(f"{case}; matmul peak {sides.peak:.0f} Gflop/s")
    for name in sides.runs:
        speed, memory = sides.median(name), sides.median(name, "memory")
        print(f"  {name:6}{speed:10.1f} pairs/s{memory:10,.0f} MB")
    print(f"  ratio {sides.ratio():.2f}", flush=True)
    return {"case": case, **sides.record("pairs/s")}


def measure(side: str, options: argparse.Namespace) -> dict[str, float]:
    keys = ("case", "model", "pairs", "steps", "queries", "threads", "batch")
    return measured_apart(__file__, side, options, keys)


def train(options: argparse.Namespace) -> dict[str, float]:
    import clozeworks as cw
    from clozeworks.engine.callbacks import Callback

    size, is_pairs = TRAINING[options.case], options.case.startswith("pairs")
    times: list[float] = []

    class Watch(Callback):
        def on_message(self, sentence: str) -> None:
            pass

        def on_train_begin(self, steps: int) -> None:
            times.append(time.perf_counter())

        def on_step(self, step: int, result: Any) -> None:
            times.append(time.perf_counter())

        def on_log(self, step: int, record: Mapping[str, Any]) -> None:
            pass

        def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
            pass

    rows = rows_of(options, "pairs" if is_pairs else "lists")[: options.steps * size]
    loss = {"kind": "binary_cross_entropy", "pos_weight": 1.0} if is_pairs else None
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("train.jsonl", "dev.jsonl")]
        for file, some in zip(files, (rows, rows[:8]), strict=True):
            file.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
        cw.finetune(
            {
                "run": f"{place}/run",
                "model": str(options.model),
                "task": {"kind": "rerank", "loss": loss or {"kind": "lambda_loss"}},
                "data": {"train": [str(files[0])], "dev": [str(files[1])]},
                "training": {"epochs": 1.0, "batch_size": size, "learning_rate": RATE},
                "evaluation": {"every_steps": 0},
            },
            callbacks=[Watch()],
            quiet=True,
        )
    return result(times, size if is_pairs else size * LIST)


def train_peer(options: argparse.Namespace) -> dict[str, float]:
    import torch
    from datasets import Dataset
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import (
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
        losses,
    )
    from transformers import TrainerCallback

    size, is_pairs = TRAINING[options.case], options.case.startswith("pairs")
    torch.manual_seed(0)
    model = CrossEncoder(str(options.model), device="cpu")
    rows = rows_of(options, "pairs" if is_pairs else "lists")[: options.steps * size]
    # Mini-batches of its usual size, as many pairs as the step has queries.
    loss = losses.BinaryCrossEntropyLoss(model) if is_pairs else losses.LambdaLoss(model)
    times: list[float] = []

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as place:
        arguments = CrossEncoderTrainingArguments(
            output_dir=place,
            num_train_epochs=1,
            per_device_train_batch_size=size,
            learning_rate=RATE,
            warmup_steps=0,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            dataloader_drop_last=True,
            disable_tqdm=True,
        )
        CrossEncoderTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_list(rows),
            loss=loss,
            callbacks=[Clock()],
        ).train()
    return result(times, size if is_pairs else size * LIST)


def result(times: list[float], size: int) -> dict[str, float]:
    steps = len(times) - 1
    first = 1 if steps > 1 else 0  # the first step of either side warms up
    seconds = times[-1] - times[first]
    return {"speed": (steps - first) * size / seconds, "memory": most_memory()}


def questions(options: argparse.Namespace) -> list[tuple[str, list[str]]]:
    rows = rows_of(options, "pairs")
    starts = range(0, (options.queries + 1) * PASSAGES, PASSAGES)
    return [
        (rows[n]["query"], [each["document"] for each in rows[n : n + PASSAGES]]) for n in starts
    ]


def rerank(options: argparse.Namespace) -> dict[str, float]:
    import clozeworks as cw

    model = cw.load(options.model)
    return timed(model.rerank, questions(options))


def rerank_peer(options: argparse.Namespace) -> dict[str, float]:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(options.model), device="cpu")

    def ranked(query: str, documents: list[str]) -> Any:
        return model.rank(query, documents, batch_size=options.batch, show_progress_bar=False)

    return timed(ranked, questions(options))


def timed(ranked: Any, asked: list[tuple[str, list[str]]]) -> dict[str, float]:
    """Passages a second; the first query warms up."""
    first, *others = asked
    ranked(*first)
    begin = time.perf_counter()
    for query, documents in others:
        ranked(query, documents)
    seconds = time.perf_counter() - begin
    return {"speed": len(others) * PASSAGES / seconds, "memory": most_memory()}


if __name__ == "__main__":
    main()
