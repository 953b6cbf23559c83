"""Speed of fine-tuning a classifier end to end, side by side with the Trainer of transformers.

The same BERT of 6 layers and width 384, the same rows with the lengths of SST-2, 32 rows a step:
ours through `cw.finetune`, the peer through `Trainer` with dynamic padding, and once more with
batches grouped by length. Each measurement is a process of its own; repetitions alternate.
End to end is everything after the imports: reading rows, loading the model, training, judging
the dev rows once, writing the model (and, ours, the report). Training is the steps alone.

    python benchmarks/finetune.py [--train FILE.tsv --dev FILE.tsv --model FOLDER] [--quick]
        [--repeats 3] [--rows 4096]

Without files made-up rows and fresh weights are used, and accuracy says little.
"""

import argparse
import csv
import gzip
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from measuring import compare_sides, made_up_words, measured_apart, most_memory

ITEMS, RATE = 32, 5e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, help="a header, then sentence and label")
    parser.add_argument("--dev", type=Path, help="the same")
    parser.add_argument("--model", type=Path, help="a BERT folder; fresh weights if not given")
    parser.add_argument("--rows", type=int, default=4096, help="training rows")
    parser.add_argument("--quick", action="store_true", help="256 rows, one repetition")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.repeats = 256, 1
    if options.measure:
        print(json.dumps(MEASURES[options.measure](options)))
        return
    with tempfile.TemporaryDirectory() as place:
        prepare(options, Path(place))
        compare(options)


def prepare(options: argparse.Namespace, place: Path) -> None:
    """Files with as many rows as are asked for, and a model."""
    if options.train is None:
        words = made_up_words(place / "words")
        rows = made_up(words, options.rows + 512)
    else:
        rows = read(options.train)[: options.rows] + read(options.dev)
    if options.model is None:
        options.model = fresh_model(place / "words", place / "model")
    for name, part in (("train", rows[: options.rows]), ("dev", rows[options.rows :])):
        target = place / f"{name}.csv"
        with target.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("sentence", "label"), *part])
        setattr(options, name, target)


def compare(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(options.threads)
    sides = compare_sides(MEASURES, lambda side: measure(side, options), options.repeats)
    print(f"{options.rows:,} rows, {ITEMS} a step, {options.repeats} repetitions")
    print(f"matmul peak: {sides.peak:.0f} Gflop/s")
    print(f"{'':20}{'rows/s':>10}{'training':>10}{'MB at the peak':>16}{'dev accuracy':>14}")
    for name in MEASURES:
        print(
            f"{name:20}{sides.median(name):10.1f}{sides.median(name, 'training'):10.1f}"
            f"{sides.median(name, 'memory'):16,.0f}{sides.median(name, 'accuracy'):14.3f}"
        )
    for name in list(MEASURES)[1:]:
        print(
            f"ratio to {name}: {sides.ratio('speed', name):.2f} end to end, "
            f"{sides.ratio('training', name):.2f} training alone"
        )
    result = {
        "benchmark": "finetune",
        **sides.record("rows/s, end to end"),
        "grouped_ratio": round(sides.ratio("speed", "grouped by length"), 3),
        "training_ratio": round(sides.ratio("training"), 3),
        "grouped_training_ratio": round(sides.ratio("training", "grouped by length"), 3),
        "memory_ratio": round(sides.ratio("memory"), 3),
    }
    print(json.dumps(result))


def measure(side: str, options: argparse.Namespace) -> dict[str, float]:
    keys = ("train", "dev", "model", "rows", "threads")
    return measured_apart(__file__, side, options, keys)


def ours(options: argparse.Namespace) -> dict[str, float]:
    import clozeworks as cw

    times: list[float] = []

    from clozeworks.engine.callbacks import Callback

    class Watch(Callback):
        def on_message(self, sentence: str) -> None:
            pass

        def on_train_begin(self, steps: int) -> None:
            times.append(time.perf_counter())

        def on_log(self, step: int, record: Mapping[str, Any]) -> None:
            times.append(time.perf_counter())

        def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
            pass

    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        done = cw.finetune(
            {
                "run": f"{place}/run",
                "model": str(options.model),
                "task": {"kind": "classify"},
                "data": {"train": [str(options.train)], "dev": [str(options.dev)]},
                "training": {"epochs": 1.0, "batch_size": ITEMS, "learning_rate": RATE},
                "evaluation": {"per_epoch": 1},
            },
            callbacks=[Watch()],
            quiet=True,
        )
        end = time.perf_counter()
    return {
        "speed": options.rows / (end - begin),
        "training": options.rows / (times[-1] - times[0]),
        "memory": most_memory(),
        "accuracy": done.best.measured.values["accuracy"],
    }


def peer(options: argparse.Namespace, grouped: bool = False) -> dict[str, float]:
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    begin = time.perf_counter()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2)
    times: list[float] = []

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

    def encoded(path: Path) -> list[dict[str, Any]]:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:]
        ids = tokenizer([text for text, _ in rows], truncation=True)["input_ids"]
        return [
            {"input_ids": each, "labels": int(label)}
            for each, (_, label) in zip(ids, rows, strict=True)
        ]

    train, dev = encoded(options.train), encoded(options.dev)
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            output_dir=place,
            per_device_train_batch_size=ITEMS,
            num_train_epochs=1,
            learning_rate=RATE,
            warmup_steps=max(1, options.rows // ITEMS // 10),
            weight_decay=0.01,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_num_workers=0,
            **({"train_sampling_strategy": "group_by_length"} if grouped else {}),
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=train,
            data_collator=DataCollatorWithPadding(tokenizer),
            callbacks=[Clock()],
        )
        trainer.train()
        said = trainer.predict(dev).predictions.argmax(-1)
        trainer.save_model(place)
        end = time.perf_counter()
    right = np.mean(said == np.array([row["labels"] for row in dev]))
    return {
        "speed": options.rows / (end - begin),
        "training": options.rows / (times[-1] - times[0]),
        "memory": most_memory(),
        "accuracy": float(right),
    }


MEASURES = {
    "ours": ours,
    "peer": peer,
    "grouped by length": lambda options: peer(options, grouped=True),
}


def read(path: Path) -> list[tuple[str, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [(row[0].strip(), row[1]) for row in rows]


def fresh_model(words: Path, folder: Path) -> Path:
    import clozeworks as cw

    model = cw.new(
        "bert-base",
        words,
        heads=("pooler",),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    return model.save(folder)


def made_up(words: list[str], count: int) -> list[tuple[str, str]]:
    """Rows whose number of words follows a lognormal law; a word decides the label."""
    random = np.random.default_rng(1)
    lengths = random.lognormal(np.log(9) - 0.7**2 / 2, 0.7, count)
    rows = []
    for size in np.clip(lengths.round(), 1, 60).astype(int):
        label = int(random.integers(2))
        rows.append((" ".join([*random.choice(words, size), words[label]]), str(label)))
    return rows


if __name__ == "__main__":
    main()
