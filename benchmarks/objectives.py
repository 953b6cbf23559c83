"""What small models learn with the objectives of the papers, at an equal number of tokens.

A BERT of 4 layers and width 256 is trained on the same corpus with each objective and two seeds.
The table shows the held-out loss and accuracy of masked tokens. Each objective is measured on the
questions it trains with, and once more on the same plain masks for all, which is the column to
compare. This is a comparison of beginnings, not of what the papers trained for weeks.

Masks that never change can differ from new ones only where texts are seen again. These two are
compared on a corpus of their own, small enough for several epochs (`--again`).

    python benchmarks/objectives.py CORPUS [--again SMALL] [--tokens 1000000] [--seeds 0 1]
    python benchmarks/objectives.py CORPUS --only SpanBERT order --quick
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

LENGTH = 128
SHAPE = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def objectives(corpus: Path, again: Path | None) -> dict[str, tuple[Path, Any]]:
    """Each objective as a recipe writes it, and the corpus it learns from."""

    def named(name: str) -> Any:
        from clozeworks import config
        from clozeworks.objectives.published import published

        return config.plain(published(name, LENGTH))

    full = {"kind": "full_sentences", "length": LENGTH}
    order = {
        "kind": "sentence_order",
        "examples": {"kind": "sentence_order_pairs", "length": LENGTH},
    }
    found = {
        "BERT: masks and next sentence": (corpus, named("bert")),
        "RoBERTa: full sentences": (corpus, named("roberta")),
        "masks and sentence order": (
            corpus,
            {"kind": "sum", "parts": [{"kind": "masked_lm"}, order]},
        ),
        "SpanBERT: spans and boundaries": (corpus, named("spanbert")),
    }
    if again is not None:
        fixed = {**named("roberta"), "masks": 1, "examples": full}
        found["few texts, new masks each epoch"] = (again, named("roberta"))
        found["few texts, one mask for ever"] = (again, fixed)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="a corpus folder")
    parser.add_argument("--again", type=Path, help="a small corpus, for masks that never change")
    parser.add_argument("--only", nargs="+", default=[""], help="words of the names to run")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it works")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    if options.corpus is None:
        print("objectives: name a corpus folder of real text; made-up text teaches nothing.")
        return
    tokens = 20_000 if options.quick else options.tokens
    seeds = options.seeds[:1] if options.quick else options.seeds
    rows: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        for name, (corpus, objective) in objectives(options.corpus, options.again).items():
            if not any(word in name for word in options.only):
                continue
            found = trained(corpus, objective, seed, tokens)
            rows.setdefault(name, []).append(found)
            print(f"seed {seed}, {name}: {found}", flush=True)
    report(rows, tokens, seeds)


def trained(corpus: Path, objective: Any, seed: int, tokens: int) -> dict[str, float]:
    """Trains one model, and measures it on its own questions and on plain masks."""
    from clozeworks.jobs.pretrain.job import pretrain

    each = 2048
    with tempfile.TemporaryDirectory() as place:
        recipe = {
            "run": f"{place}/run",
            "seed": seed,
            "objective": objective,
            "model": {"start": "bert-base", "config": SHAPE},
            "data": {"corpus": str(corpus)},
            "training": {
                "steps": tokens // each,
                "batch_tokens": each,
                "learning_rate": 1e-3,
                "optimizer": {"kind": "adam_w", "betas": [0.9, 0.98]},
                "schedule": {"kind": "linear", "warmup_steps": max(1, tokens // each // 20)},
            },
            "logging": {"every_steps": 50},
            "evaluation": {"every_steps": 0, "tokens": 65_536},
            "checkpointing": {"every_minutes": 1000},
        }
        begin = time.perf_counter()
        done = pretrain(recipe)
        own = done.records[-1]["evaluation"]["masked_lm"]
        plain = plain_masks(f"{place}/run/model", corpus)
        assert done.baseline is not None
    return {
        "own loss": round(own["loss"], 4),
        "loss": round(plain[0], 4),
        "accuracy": round(plain[1], 4),
        "by frequency": round(plain[2], 4),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def plain_masks(model: str, corpus: Path) -> tuple[float, float, float]:
    """Loss and accuracy on the same masks for all, and the loss of guessing by frequency."""
    import torch

    import clozeworks as cw
    from clozeworks.data.corpus.corpus import VALIDATION, Corpus
    from clozeworks.data.examples.loader import Loader
    from clozeworks.data.examples.whole_sentences import FullSentences
    from clozeworks.engine.distributed import ProcessGroup
    from clozeworks.engine.evaluation import evaluate
    from clozeworks.engine.stages import MicroBatcher
    from clozeworks.jobs.pretrain.baseline import unigram_baseline
    from clozeworks.objectives.batch import Vocabularies
    from clozeworks.objectives.masked_lm import MaskedLM
    from clozeworks.runtime.workers import WorkerPool

    opened = Corpus.open(corpus)
    split = opened.split(VALIDATION)
    examples = FullSentences(length=LENGTH).arrange(split, opened.tokenizer, 0)
    objective, ranks = MaskedLM.roberta(), ProcessGroup("cpu")
    workers = WorkerPool(torch.device("cpu"))
    cutter = MicroBatcher(
        objective, 0, Vocabularies.of(opened.tokenizer, split), 2048, workers.count
    )
    batch_size = min(examples.size(0), 65_536 // LENGTH)
    pieces = Loader(examples, cutter, seed=0, batch_size=batch_size, workers=0).batch(0)
    network = cw.load(model).model
    found = evaluate(
        network,
        lambda tensors: objective.loss(network, tensors),
        objective.loss_names,
        pieces,
        ranks,
        workers,
    )
    workers.close()
    baseline = unigram_baseline(opened, pieces, ranks)
    assert baseline is not None
    part = found.parts["masked_lm"]
    return part.loss, part.accuracy, baseline.loss


def report(rows: dict[str, list[dict[str, float]]], tokens: int, seeds: list[int]) -> None:
    print(f"\n{tokens:,} tokens each, seeds {seeds}")
    print(
        f"{'objective':36}{'loss, each seed':>18}{'accuracy':>18}{'own loss':>18}"
        f"{'by frequency':>14}{'seconds':>9}"
    )
    for name, found in rows.items():
        columns = [
            " ".join(f"{row[key]:.{digits}f}" for row in found)
            for key, digits in (("loss", 3), ("accuracy", 3), ("own loss", 3))
        ]
        seconds = statistics.mean(row["seconds"] for row in found)
        print(
            f"{name:36}{columns[0]:>18}{columns[1]:>18}{columns[2]:>18}"
            f"{found[0]['by frequency']:14.3f}{seconds:9.0f}"
        )
    means = {name: statistics.mean(row["loss"] for row in found) for name, found in rows.items()}
    print(json.dumps({"benchmark": "objectives", "tokens": tokens, "loss": means}))


if __name__ == "__main__":
    main()
