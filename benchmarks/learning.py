"""What each family's own way of learning is worth: pre-trained small, then fine-tuned.

Networks of 4 layers and width 128 learn from the same corpus, each as its paper says: once all
from as many tokens, once each for as long as BERT takes for these; a way that is as fast as BERT
within a fifth has one run for both. How many steps that is, short runs tell, one after the other in
rounds. Then each is fine-tuned on SST-2, CoNLL-2003 and RTE with three seeds by `quality.py`. What
is done stands in the folder OUT and is not done again; the curves are drawn there.

    python benchmarks/learning.py CORPUS DATA OUT [--only BERT ELECTRA] [--tokens 4000000]
        [--seeds 0 1 2] [--rows 2000] [--quick]
    python benchmarks/learning.py CORPUS DATA OUT --rates
    python benchmarks/learning.py --report OUT
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import sized

LENGTH, EACH, LAYERS, WIDTH, HEAD = 128, 2048, 4, 128, 32
TRIAL = 30  # steps of a short run that tells how fast a way is
YARDSTICK = "BERT"  # equal time is what this one takes
ALIKE = 0.2  # a way as fast as that within a fifth has one run for both budgets
RATE = 5e-4  # of fine-tuning; networks this small learn little at the usual 5e-5
TASKS = ("SST-2", "CoNLL-2003", "RTE")
# Name: the published size that stands for the family, and the objective.
WAYS = {
    "BERT": ("bert-base", "bert"),
    "RoBERTa's objective": ("bert-base", "roberta"),
    "SpanBERT": ("bert-base", "spanbert"),
    "ALBERT": ("albert-base-v1", "albert"),
    "ELECTRA": ("electra-small", "electra"),
    "XLNet": ("xlnet-base", "xlnet"),
    "DeBERTa": ("deberta-base", "deberta"),
    "DeBERTa v3": ("deberta-v3-base", "deberta-v3"),
    "ModernBERT": ("modernbert-base", "roberta"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="a corpus folder")
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real tasks")
    parser.add_argument("out", type=Path, nargs="?", help="where everything is kept")
    parser.add_argument("--only", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--tokens", type=int, default=4_000_000, help="of each run")
    parser.add_argument("--rates", action="store_true", help="only find out how fast each is")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of fine-tuning")
    parser.add_argument("--rows", type=int, help="labelled rows at most")
    parser.add_argument("--quick", action="store_true", help="to see that it works")
    parser.add_argument("--report", type=Path, help="show what a folder holds")
    options = parser.parse_args()
    if options.report:
        report(options.report)
        return
    if None in (options.corpus, options.data, options.out):
        print("learning: name a corpus, the folder of real tasks and a folder to keep; hours.")
        return
    if options.quick:
        options.tokens, options.rows, options.seeds = 40_000, 32, [0]
    options.out.mkdir(parents=True, exist_ok=True)
    rates = measured_rates(options.out, options.corpus, rounds=1 if options.quick else 3)
    if options.rates:
        return
    steps = options.tokens // EACH
    for name in options.only:
        run(name, options, steps, "tokens")
    for name in sorted(options.only, key=lambda name: rates[name]):  # the slowest differ most
        share = rates[name] / rates[YARDSTICK]
        if abs(share - 1) > ALIKE:
            run(name, options, max(1, round(steps * share)), "time")
    report(options.out)


def run(name: str, options: argparse.Namespace, steps: int, budget: str) -> None:
    """Pre-trains, unless that is done, and fine-tunes."""
    from clozeworks.jobs.pretrain.job import pretrain

    folder = options.out / f"{name}, equal {budget}"
    if not (folder / "model").exists():
        done = pretrain(recipe(name, folder, options.corpus, steps))
        if not done.outcome.finished:
            sys.exit(f"{name}: stopped; the same command goes on.")
        seconds = round(done.outcome.seconds, 1)
        summary = {"name": name, "budget": budget, "steps": steps, "seconds": seconds}
        (folder / "learning.json").write_text(json.dumps(summary))
        print(f"{name}: {steps * EACH:,} tokens in {seconds:,.0f} s", flush=True)
    command = [sys.executable, str(Path(__file__).with_name("quality.py")), str(options.data)]
    command += [str(folder / "model"), "--results", str(options.out / "quality.jsonl")]
    command += ["--sides", "ours", "--only", *TASKS, "--seeds", *map(str, options.seeds)]
    command += ["--rate", str(RATE)]
    if options.rows:
        command += ["--rows", str(options.rows)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{name}: fine-tuning failed:\n{made.stderr[-2000:]}")
    print(*(line for line in made.stdout.splitlines() if ", seed " in line), sep="\n", flush=True)


def recipe(name: str, folder: Path, corpus: Path, steps: int) -> dict[str, Any]:
    """How a way is pre-trained: everything but network and objective is alike."""
    from clozeworks import config
    from clozeworks.families.family import published_sizes
    from clozeworks.objectives.published import published

    size, objective = WAYS[name]
    family = published_sizes()[size]
    known = family.config(family.blueprint(family.published(size), frozenset()))
    still = {key: 0.0 for key, value in known.items() if "dropout" in key and value}
    return {
        "run": str(folder),
        "objective": config.plain(published(objective, LENGTH)),
        "model": {"start": size, "config": {**still, **sized(size, LAYERS, WIDTH, HEAD)}},
        "data": {"corpus": str(corpus)},
        "training": {
            "steps": steps,
            "batch_tokens": EACH,
            "learning_rate": 1e-3,
            "optimizer": {"kind": "adam_w", "betas": [0.9, 0.98]},
            "schedule": {"kind": "linear", "warmup_steps": max(1, steps // 20)},
        },
        "logging": {"every_steps": 50},
        "evaluation": {"every_steps": max(1, steps // 10), "tokens": 16_384},
        "checkpointing": {"every_minutes": 10},
    }


def measured_rates(out: Path, corpus: Path, rounds: int) -> dict[str, float]:
    """Tokens per second of every way: the best of some short runs, kept in the folder."""
    from clozeworks.jobs.pretrain.job import pretrain

    kept = out / "rates.json"
    if kept.exists():
        known: dict[str, float] = json.loads(kept.read_text())
        return known
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(rounds):
            for name, found in rates.items():
                trial = recipe(name, Path(place) / f"{name} {turn}", corpus, TRIAL)
                trial["evaluation"]["every_steps"] = 0
                found.append(TRIAL * EACH / pretrain(trial).outcome.seconds)
    best = {name: max(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name:24}{best[name]:8,.0f} tokens/s of {[round(rate) for rate in found]}")
    kept.write_text(json.dumps(best))
    return best


def report(out: Path) -> None:
    """A row for each run: what it took, and what it is worth on each task."""
    rows = out / "quality.jsonl"
    found = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
    print(f"{'way':34}{'steps':>8}{'seconds':>9}" + "".join(f"{task:>24}" for task in TASKS))
    table = []
    for place in sorted(out.glob("*/learning.json")):
        summary = json.loads(place.read_text())
        line = f"{place.parent.name:34}{summary['steps']:8,}{summary['seconds']:9,.0f}"
        for task in TASKS:
            values = [
                row["value"]
                for row in found
                if row["task"] == task and Path(row["model"]).parent == place.parent
            ]
            summary[task] = values
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            mean = f"{statistics.mean(values):.3f}" if values else "-"
            line += f"{mean + spread + f' ({len(values)})':>24}"
        table.append(summary)
        print(line)
    draw(out, table)
    print(json.dumps({"benchmark": "learning", "rows": table}))


def draw(out: Path, table: list[dict[str, Any]]) -> None:
    """Held-out loss of what each way asks, by tokens: entries of the vocabulary, and yes or no."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    naming, judging = figure.subplots(1, 2)
    for row in table:
        folder = out / f"{row['name']}, equal {row['budget']}"
        records = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
        # Before the first step all are alike, and far above what is worth looking at.
        measured = [record for record in records if "evaluation" in record and record["step"]]
        for part in measured[-1]["evaluation"] if measured else ():
            if part != "loss" and row["budget"] == "tokens":
                losses = [record["evaluation"][part]["loss"] for record in measured]
                steps = [record["step"] * EACH / 1e6 for record in measured]
                axes = judging if losses[0] < 1 else naming
                axes.plot(steps, losses, label=f"{row['name']}: {part}")
    for axes in (naming, judging):
        axes.set_xlabel("million tokens")
        axes.set_ylabel("held-out loss of what is asked")
        axes.legend(fontsize=7)
    figure.savefig(out / "curves.png", dpi=110)


if __name__ == "__main__":
    main()
