"""Speed of pre-training end to end, side by side with the Trainer of transformers.

Both train the same network on the same masked blocks of 128 tokens, data included: ours through
`cw.pretrain` from a corpus on disk, the peer through `Trainer` with its masked-LM collator and the
blocks in memory. Each measurement is a process of its own; repetitions alternate. The first steps
start threads and fill caches and are not counted.

    python benchmarks/pretrain.py [CORPUS] [--size small|base] [--quick] [--repeats 3]

`small` is 4 layers of width 256 and 32 x 128 tokens a step, `base` is BERT base and 8 x 128.
Without a corpus a made-up one with a vocabulary of 30,522 is used.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from measuring import made_up_words, matmul_peak, most_memory

LENGTH = 128
# Layers, width, heads, inner width; sequences a step; steps, of which the first are not counted.
SIZES = {
    "small": ((4, 256, 4, 1024), 32, 24),
    "base": ((12, 768, 12, 3072), 8, 12),
}
UNCOUNTED = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="a corpus folder")
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--quick", action="store_true", help="one repetition of few steps")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--steps", type=int, help="steps of a measurement")
    parser.add_argument("--changes", nargs="*", default=[], help="settings of our recipe")
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.steps = options.steps or (9 if options.quick else SIZES[options.size][2])
    if options.measure:
        print(json.dumps(MEASURES[options.measure](options)))
        return
    with tempfile.TemporaryDirectory() as place:
        options.corpus = options.corpus or made_up(Path(place))
        compare(options, 1 if options.quick else options.repeats)


def compare(options: argparse.Namespace, repeats: int) -> None:
    import torch

    torch.set_num_threads(options.threads)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in MEASURES}
    peaks = []
    for turn in range(repeats):
        for name in MEASURES if turn % 2 else reversed(MEASURES):
            peaks.append(matmul_peak())
            found[name].append(measure(name, options))
    speed = {name: statistics.median(f["speed"] for f in each) for name, each in found.items()}
    memory = {name: statistics.median(f["memory"] for f in each) for name, each in found.items()}
    pairs = [a["speed"] / b["speed"] for a, b in zip(found["ours"], found["peer"], strict=True)]
    vocabulary = found["ours"][0]["vocabulary"]
    peak = statistics.median(peaks)
    share = speed["ours"] * operations(options.size, vocabulary) / peak
    (layers, width, _, _), sequences, _ = SIZES[options.size]
    print(
        f"{layers} layers of width {width}, vocabulary {vocabulary:,}, {sequences} x {LENGTH} "
        f"tokens a step, dropout {options.dropout}, {options.threads} threads, "
        f"{repeats} repetitions"
    )
    print(f"matmul peak: {peak / 1e9:.0f} Gflop/s")
    print(f"{'':24}{'clozeworks':>12}{'transformers':>16}")
    print(f"{'tokens a second':24}{speed['ours']:12,.0f}{speed['peer']:16,.0f}")
    print(f"{'share of matmul peak':24}{share:12.0%}")
    print(f"{'peak memory, MB':24}{memory['ours']:12,.0f}{memory['peer']:16,.0f}")
    print(f"{'first loss':24}{found['ours'][0]['first']:12.3f}{found['peer'][0]['first']:16.3f}")
    print(f"{'last loss':24}{found['ours'][0]['last']:12.3f}{found['peer'][0]['last']:16.3f}")
    first = found["ours"][0]
    print(
        f"a snapshot stops training for {first['snapshot']:.2f} s; the step beside which it is "
        f"written takes {first['slower']:.2f} s longer"
    )
    print(
        f"ratio of medians {speed['ours'] / speed['peer']:.2f}, of single repetitions "
        f"{min(pairs):.2f} to {max(pairs):.2f}"
    )
    result = {
        "benchmark": f"pretrain {options.size}",
        "ratio": round(speed["ours"] / speed["peer"], 3),
        "ours": round(speed["ours"]),
        "peer": round(speed["peer"]),
        "unit": "tokens/s",
        "peak_share": round(share, 3),
        "memory_ratio": round(memory["ours"] / memory["peer"], 3),
        "snapshot_seconds": round(found["ours"][0]["snapshot"], 3),
    }
    print(json.dumps(result))


def operations(size: str, vocabulary: float) -> float:
    """Floating-point operations that training needs for a token, matrix products only.

    The vocabulary is scored at the 15 % of tokens that are asked; who scores it everywhere does
    more work, but not more of what is needed.
    """
    layers, width, _, inner = SIZES[size][0]
    body = layers * (4 * width * width + 2 * width * inner + 2 * LENGTH * width)
    head = 0.15 * (width * width + width * vocabulary)
    return float(3 * 2 * (body + head))


def measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, str(options.corpus), "--measure", name]
    for key in ("size", "threads", "dropout", "steps"):
        command += [f"--{key}", str(getattr(options, key))]
    command += ["--changes", *options.changes] if options.changes else []
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def speed_of(times: list[float], tokens: int) -> float:
    return tokens * (len(times) - 1 - UNCOUNTED) / (times[-1] - times[UNCOUNTED])


def ours(options: argparse.Namespace) -> dict[str, float]:
    from clozeworks.data.corpus.corpus import Corpus
    from clozeworks.engine.snapshots import Snapshots
    from clozeworks.jobs.pretrain.job import pretrain

    (layers, width, heads, inner), sequences, _ = SIZES[options.size]
    times: list[float] = []
    losses: list[float] = []
    stops: list[float] = []

    from clozeworks.engine.callbacks import Callback

    class Watch(Callback):
        def on_message(self, sentence: str) -> None:
            pass

        def on_log(self, step: int, record: Mapping[str, Any]) -> None:
            times.append(time.perf_counter())
            losses.append(record["loss"])

        def on_train_begin(self, steps: int) -> None:
            pass

        def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
            pass

    # What holds the training up: beginning a snapshot, and waiting for its tensors.
    begin, wait = Snapshots.begin, Snapshots.wait_for_tensors

    def timed(method: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any, **named: Any) -> None:
            before = time.perf_counter()
            method(*args, **named)
            stops.append(time.perf_counter() - before)

        return call

    Snapshots.begin, Snapshots.wait_for_tensors = timed(begin), timed(wait)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as place:
        recipe = {
            "run": f"{place}/run",
            "objective": {
                "kind": "masked_lm",
                "examples": {"kind": "blocks", "length": LENGTH},
            },
            "model": {
                "start": "bert-base",
                "config": {
                    "hidden_size": width,
                    "num_hidden_layers": layers,
                    "num_attention_heads": heads,
                    "intermediate_size": inner,
                    "hidden_dropout_prob": options.dropout,
                    "attention_probs_dropout_prob": options.dropout,
                },
            },
            "data": {"corpus": str(options.corpus)},
            "training": {
                "steps": options.steps,
                "batch_tokens": sequences * LENGTH,
                "learning_rate": 1e-4,
                "optimizer": {"kind": "adam_w"},
            },
            # A snapshot at the last step but one: behind it there is a step to be held up.
            "checkpointing": {"every_steps": options.steps - 1},
            "logging": {"every_steps": 1},
            "evaluation": {"every_steps": 0, "tokens": LENGTH},
        }
        pretrain(recipe, *options.changes, callback=Watch())
    return {
        # The step during which a snapshot is written is left out of the speed.
        "speed": speed_of(times[:-1], sequences * LENGTH),
        "memory": most_memory(),
        "first": losses[0],
        "last": losses[-1],
        # One begins behind the last step but one; the last stands when nobody waits any more.
        "snapshot": sum(sorted(stops)[-3:-1]),
        "slower": times[-1] - times[-2] - statistics.median(np.diff(times[UNCOUNTED:-1])),
        "vocabulary": Corpus.open(options.corpus).tokenizer.size,
    }


def peer(options: argparse.Namespace) -> dict[str, float]:
    import torch
    import transformers
    from datasets import Dataset

    from clozeworks.data.corpus.corpus import Corpus
    from clozeworks.data.examples.blocks import Blocks

    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    (layers, width, heads, inner), sequences, _ = SIZES[options.size]
    corpus = Corpus.open(options.corpus)
    own = corpus.tokenizer
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(corpus.folder / "tokenizer" / "tokenizer.json"),
        pad_token=own.special.pad,
        unk_token=own.special.unknown,
        mask_token=own.special.mask,
        cls_token=own.special.first,
        sep_token=own.special.last,
    )
    examples = Blocks(length=LENGTH).arrange(corpus.split("train"), own, 0)
    count = min(examples.size(0), options.steps * sequences)
    clean = examples.take(0, np.arange(count))
    blocks = [block for block in np.split(clean.ids, clean.starts[1:]) if len(block) == LENGTH]
    data = Dataset.from_dict({"input_ids": [block.tolist() for block in blocks]})
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=own.size,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            hidden_dropout_prob=options.dropout,
            attention_probs_dropout_prob=options.dropout,
        )
    )
    times: list[float] = []
    losses: list[float] = []

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            times.append(time.perf_counter())

        def on_log(self, *args: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs and "loss" in logs:
                losses.append(float(logs["loss"]))

    with tempfile.TemporaryDirectory() as place:
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                output_dir=place,
                per_device_train_batch_size=sequences,
                max_steps=options.steps - 1,
                learning_rate=1e-4,
                weight_decay=0.01,
                optim="adamw_torch_fused",
                save_strategy="no",
                report_to=[],
                logging_steps=1,
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=data,
            data_collator=transformers.DataCollatorForLanguageModeling(tokenizer),
            callbacks=[Watch()],
        )
        trainer.train()
    return {
        "speed": speed_of(times, sequences * LENGTH),
        "memory": most_memory(),
        "first": losses[0],
        "last": losses[-1],
    }


def made_up(place: Path) -> Path:
    """A corpus over the 30,517 words of a made-up vocabulary."""
    from clozeworks.data.corpus.build import build_corpus
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    folder = place / "tokenizer"
    words = made_up_words(folder)
    random = np.random.default_rng(1)
    shares = 1 / np.arange(1, len(words) + 1)
    drawn = random.choice(words, 600_000, p=shares / shares.sum())
    source = place / "text.txt"
    lines = [" ".join(drawn[start : start + 200]) for start in range(0, len(drawn), 200)]
    source.write_text("\n\n".join(lines))
    return build_corpus([source], place / "corpus", Tokenizer.load(folder)).corpus.folder


MEASURES = {"ours": ours, "peer": peer}

if __name__ == "__main__":
    main()
