"""Fine-tuning on real tasks, side by side with the Trainer of transformers: how good, not how fast.

Both sides get the same checkpoint, the same rows, epochs, rate, schedule and seeds, and are judged
with the weights of the last step on the same dev set by the same metric. A step is 32 items; of
questions the peer's is 32 windows. A run is a process of its own with one thread; as many run at
once as `--at-once` says. What is done stands in a file and is not done again.

    python benchmarks/quality.py DATA MODEL --results FILE.jsonl [--only SST-2 RTE] [--seeds 0 1 2]
        [--sides ours peer fresh frozen] [--at-once 2]
    python benchmarks/quality.py DATA MODEL --results FILE.jsonl --quick
    python benchmarks/quality.py --report FILE.jsonl

`fresh` is the same network from random weights, `frozen` logistic regression on its last layer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SIDES = ("ours", "peer", "fresh", "frozen")
ITEMS, RATE, WARMUP, DECAY = 32, 5e-5, 0.1, 0.01
SHAPE = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)


@dataclass(frozen=True)
class Work:
    """A task: its files, how many rows are learned from, how often, and the value that decides."""

    kind: str
    train: str
    dev: str
    rows: int
    epochs: int
    metric: str
    columns: str = ""


WORKS = {
    "SST-2": Work(
        "classify", "classify/sst2/train.tsv.gz", "classify/sst2/dev.tsv", 4_000, 2, "accuracy"
    ),
    "MRPC": Work(
        "compare",
        "pair/mrpc/msr_train.tsv.gz",
        "pair/mrpc/msr_test.tsv.gz",
        2_400,
        2,
        "accuracy",
        "label=label,first=sentence1,second=sentence2",
    ),
    "RTE": Work("compare", "pair/rte/train.tsv.gz", "pair/rte/dev.tsv", 2_000, 2, "accuracy"),
    "STS-B": Work(
        "compare",
        "pair/stsb/train.tsv.gz",
        "pair/stsb/dev.tsv.gz",
        3_000,
        2,
        "spearman",
        "label=score,first=sentence1,second=sentence2",
    ),
    "CoNLL-2003": Work(
        "tag", "tag/conll2003/train.bio.gz", "tag/conll2003/dev.bio.gz", 3_000, 2, "f1"
    ),
    "EWT": Work(
        "tag",
        "tag/ewt_pos/train.conllu.gz",
        "tag/ewt_pos/dev.conllu.gz",
        2_500,
        2,
        "token_accuracy",
    ),
    "SQuAD 1.1": Work(
        "answer", "answer/squad_v1_train.json.gz", "answer/squad_v1_dev.json.gz", 1_000, 2, "f1"
    ),
    "SQuAD 2.0": Work(
        "answer",
        "answer/squad_v2_train.json.gz",
        "answer/squad_v2_dev.json.gz",
        1_000,
        2,
        "f1",
    ),
    "ChnSentiCorp": Work(
        "classify",
        "classify/chnsenticorp/train.tsv.gz",
        "classify/chnsenticorp/dev.tsv.gz",
        4_000,
        2,
        "accuracy",
        "text=1,label=2",
    ),
    "Resume NER": Work(
        "tag",
        "tag/resume_zh/resume.train.bmes.gz",
        "tag/resume_zh/resume.dev.bmes.gz",
        3_821,
        3,
        "f1",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real data")
    parser.add_argument("model", type=Path, nargs="?", help="a BERT folder")
    parser.add_argument("--results", type=Path, help="what is done, a line for each run")
    parser.add_argument("--report", type=Path, help="show what a file of results holds")
    parser.add_argument("--only", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sides", nargs="+", default=["ours", "peer"], choices=SIDES)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--rows", type=int, help="at most so many rows, for all tasks")
    parser.add_argument("--quick", action="store_true", help="32 rows, one seed")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.seeds = 32, options.seeds[:1]
    if options.report:
        report(read(options.report))
    elif options.one:
        name, side, seed = options.one
        print(json.dumps(one(options, name, side, int(seed))))
    elif None in (options.data, options.model, options.results):
        print("quality: name the folder of real data, a model and --results; it takes hours.")
    else:
        run_all(options)
        report(read(options.results))


def run_all(options: argparse.Namespace) -> None:
    """Every run that is not done yet, seed by seed."""
    done = {(*work_of(row), row["seed"]) for row in read(options.results)}
    wanted = [
        (name, side, seed)
        for seed in options.seeds
        for name in options.only
        for side in options.sides
        if (*key(options, name, side), seed) not in done
        and not (side == "frozen" and seed != options.seeds[0])
    ]

    def run(job: tuple[str, str, int]) -> None:
        name, side, seed = job
        command = [sys.executable, __file__, str(options.data), str(options.model)]
        command += ["--rate", str(options.rate), "--one", name, side, str(seed)]
        if options.rows is not None:
            command += ["--rows", str(options.rows)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        made = subprocess.run(command, capture_output=True, text=True, env=environment)
        if made.returncode:
            print(f"{name}, {side}, seed {seed} failed:\n{made.stderr[-2000:]}", flush=True)
            return
        row = json.loads(made.stdout.splitlines()[-1])
        with options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{name}, {side}, seed {seed}: {row['value']:.4f} in {row['seconds']} s", flush=True)

    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(run, wanted))


def work_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What runs have in common that differ by their seed alone."""
    return tuple(row[name] for name in ("model", "task", "side", "asked", "rate"))


def key(options: argparse.Namespace, name: str, side: str) -> tuple[Any, ...]:
    return str(options.model), name, side, asked_rows(options, name), options.rate


def asked_rows(options: argparse.Namespace, name: str) -> int:
    return min(WORKS[name].rows, options.rows or WORKS[name].rows)


def one(options: argparse.Namespace, name: str, side: str, seed: int) -> dict[str, Any]:
    """One run: what it reached, between what, and how long it took."""
    import torch

    torch.set_num_threads(1)
    work, model = WORKS[name], str(options.model)
    train, dev = items(options.data, work, options.rows)
    begin = time.perf_counter()
    if side == "peer":
        import quality_peer

        settings = quality_peer.Settings(
            options.model, seed, work.epochs, ITEMS, options.rate, WARMUP, DECAY
        )
        measured = quality_peer.MEASURE[work.kind](train, dev, settings)
    else:
        with tempfile.TemporaryDirectory() as place:
            files = [
                written(part, Path(place) / f"{n}.jsonl") for n, part in enumerate((train, dev))
            ]
            measured = OURS[side](options, work, files, seed, Path(place))
    return {
        "model": model,
        "task": name,
        "side": side,
        "seed": seed,
        "asked": asked_rows(options, name),
        "rows": len(train),
        "dev": len(dev),
        "epochs": work.epochs,
        "rate": options.rate,
        "metric": work.metric,
        "value": measured.values[work.metric],
        "interval": measured.intervals.get(work.metric),
        "values": measured.values,
        "seconds": round(time.perf_counter() - begin, 1),
    }


def ours(
    options: argparse.Namespace, work: Work, files: Sequence[str], seed: int, place: Path
) -> Any:
    import clozeworks as cw

    done = cw.finetune(recipe(options, work, files, seed, place), quiet=True)
    return done.best.measured


def fresh(
    options: argparse.Namespace, work: Work, files: Sequence[str], seed: int, place: Path
) -> Any:
    """The same network, its weights drawn anew."""
    import clozeworks as cw

    config = json.loads((options.model / "config.json").read_text())
    shape = {key: config[key] for key in SHAPE}
    cw.new("bert-base", options.model, seed=seed, **shape).save(place / "fresh")
    options.model = place / "fresh"
    return ours(options, work, files, seed, place)


def frozen(
    options: argparse.Namespace, work: Work, files: Sequence[str], seed: int, place: Path
) -> Any:
    """Logistic regression on the last layer."""
    import clozeworks as cw
    from clozeworks.jobs.probe.job import probe
    from clozeworks.tasks.task import read_labelled

    train = read_labelled(files[0], work.kind)  # type: ignore[arg-type]
    dev = read_labelled(files[1], work.kind, train.reading)  # type: ignore[arg-type]
    return probe(cw.load(options.model), train, dev, layers=["last"], seed=seed).best.measured


OURS = {"ours": ours, "fresh": fresh, "frozen": frozen}


def recipe(
    options: argparse.Namespace, work: Work, files: Sequence[str], seed: int, place: Path
) -> dict[str, Any]:
    return {
        "run": str(place / "run"),
        "model": str(options.model),
        "task": {"kind": work.kind},
        "data": {"train": [files[0]], "dev": [files[1]]},
        "training": {
            "epochs": float(work.epochs),
            "batch_size": ITEMS,
            "learning_rate": options.rate,
            "optimizer": {"kind": "adam_w", "weight_decay": DECAY},
            "schedule": {"kind": "linear", "warmup_fraction": WARMUP},
        },
        # Judged once, at the end, as the peer is: the last weights, not the best ones.
        "evaluation": {"every_steps": 10**9},
        "seeds": [seed],
    }


def items(data: Path, work: Work, most: int | None) -> tuple[list[Any], list[Any]]:
    """Rows to learn from, drawn once for all seeds and sides, and the whole dev set."""
    from clozeworks.data.labelled.columns import parse_columns
    from clozeworks.data.labelled.reading import Reading
    from clozeworks.tasks.task import read_labelled

    columns = parse_columns(work.columns, work.kind) if work.columns else {}  # type: ignore[arg-type]
    train = read_labelled(data / work.train, work.kind, Reading(columns=columns))  # type: ignore[arg-type]
    dev = read_labelled(data / work.dev, work.kind, train.reading)  # type: ignore[arg-type]
    order = np.random.default_rng(0).permutation(len(train.items))
    count = min(work.rows, most or work.rows)
    judged = dev.items if most is None else dev.items[:most]
    return [train.items[index] for index in order[:count]], list(judged)


def written(part: Sequence[Any], path: Path) -> str:
    """The items as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for item in part:
            file.write(json.dumps(line_of(item), ensure_ascii=False) + "\n")
    return str(path)


def line_of(item: Any) -> dict[str, Any]:
    from clozeworks.tasks.classify import TextItem
    from clozeworks.tasks.compare import PairItem
    from clozeworks.tasks.tagging.items import WordsItem

    if isinstance(item, TextItem):
        return {"text": item.text, "label": item.label}
    if isinstance(item, PairItem):
        return {"sentence1": item.first, "sentence2": item.second, "label": item.label}
    if isinstance(item, WordsItem):
        return {"words": item.words, "tags": item.tags}
    return {
        "id": item.id,
        "question": item.question,
        "context": item.context,
        "answers": {
            "text": [answer.text for answer in item.answers],
            "answer_start": [answer.begin for answer in item.answers],
        },
        "is_impossible": item.impossible,
    }


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each task and side: every seed, their mean, and the interval of the dev set."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(work_of(row), []).append(row)
    print(
        f"{'task':14}{'side':8}{'rows':>7}{'metric':>16}{'mean':>8}{'spread':>8}"
        f"{'95 % of items':>18}  seeds; model"
    )
    for (model, task, side, asked, _), found in groups.items():
        values = [row["value"] for row in found]
        spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""
        ends = found[0]["interval"]
        shown = f"{ends[0]:.3f} to {ends[1]:.3f}" if ends else ""
        print(
            f"{task:14}{side:8}{asked:7,}{found[0]['metric']:>16}{statistics.mean(values):8.4f}"
            f"{spread:>8}{shown:>18}  {', '.join(f'{value:.4f}' for value in values)}; "
            f"{Path(model).name}"
        )
    means = {
        f"{task}, {side}, {asked} rows": round(statistics.mean(row["value"] for row in found), 4)
        for (_, task, side, asked, _), found in groups.items()
    }
    print(json.dumps({"benchmark": "quality", "means": means}))


if __name__ == "__main__":
    main()
