"""Ways to learn from raw text, compared: span corruption, prefix language model, UL2's mixture.

The same small T5 is pre-trained by each on as many tokens of a corpus, and not at all; then it is
taught two tasks with few rows: SST-2 as words, and captions from English to German.
What is done stands in the folder OUT and is not done again.

    python benchmarks/denoisers.py DATA OUT [--tokens 2000000] [--seeds 0 1] [--quick]
    python benchmarks/denoisers.py --report OUT
"""

import argparse
import json
from itertools import islice
from pathlib import Path

from writing import (
    CAPTIONS,
    ENTRIES,
    SIZE,
    Row,
    evaluated,
    finetune,
    is_done,
    lines,
    note,
    pairs,
    report,
    write_rows,
)

DENOISERS = {"none": None, "span corruption": "t5", "prefix": "prefix-lm", "UL2": "ul2"}
SMALL = {**SIZE, "d_model": 128, "d_kv": 32, "d_ff": 256}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real data")
    parser.add_argument("out", type=Path, nargs="?", help="where everything is kept")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="of pre-training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of the tasks")
    parser.add_argument("--quick", action="store_true", help="to see that it works")
    parser.add_argument("--report", type=Path, help="show what a folder holds")
    options = parser.parse_args()
    if options.report:
        report(options.report, "denoisers")
        return
    if None in (options.data, options.out):
        print(
            "denoisers: name the folder of real data and a folder to keep; it takes half an hour."
        )
        return
    options.out.mkdir(parents=True, exist_ok=True)
    denoisers(options)
    report(options.out, "denoisers")


def denoisers(options: argparse.Namespace) -> None:
    """Ways to learn from raw text, at equal tokens, judged by what they are worth for tasks."""
    import clozeworks as cw
    from clozeworks import config
    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.objectives.published import published
    from clozeworks.text.tokenizer.special import T5_TOKENS
    from clozeworks.text.tokenizer.styles import AnsweringUnigramStyle
    from clozeworks.text.training.train import train_from_iterator

    folder = options.out / "denoisers"
    folder.mkdir(exist_ok=True)
    whole, corpus = folder / "text.jsonl", folder / "corpus"
    count = 100 if options.quick else 6_000
    if not corpus.exists():
        documents = [
            json.loads(line)["text"]
            for line in islice(lines(options.data / "text" / "en" / "wiki_en.jsonl.gz"), count)
        ]
        write_rows(whole, [{"text": text} for text in documents])
        special = T5_TOKENS.__class__(
            pad=T5_TOKENS.pad,
            unknown=T5_TOKENS.unknown,
            last=T5_TOKENS.last,
            extra=(*T5_TOKENS.extra, "[NLU]", "[NLG]", "[S2S]"),
        )
        tokenizer = train_from_iterator(
            documents[:2_000], kind="unigram", size=1_000 if options.quick else ENTRIES,
            style=AnsweringUnigramStyle(special=special),
        )  # fmt: skip
        build_corpus([whole], corpus, tokenizer, BuildSettings(), workers=2)
        tokenizer.save(folder / "tokenizer")
    each = 4_544
    steps = (40_000 if options.quick else options.tokens) // each
    tasks = {"sst2": sst2(options, folder), "captions": few_pairs(options, folder)}
    for name, objective in DENOISERS.items():
        model = folder / name / "run" / "model"
        if objective is None:
            model = folder / "fresh"
            if not model.exists():
                cw.new(
                    "t5-v1_1-small", folder / "tokenizer", heads=("vocabulary", "decoder"),
                    dropout_rate=0.0, **SMALL,
                ).save(model)  # fmt: skip
        elif not model.exists():
            cw.pretrain(
                {
                    "run": str(folder / name / "run"),
                    "objective": config.plain(published(objective, 142)),
                    "model": {"start": "t5-v1_1-small", "config": {"dropout_rate": 0.0, **SMALL}},
                    "data": {"corpus": str(corpus)},
                    "training": {
                        "steps": steps,
                        "batch_tokens": each,
                        "learning_rate": 0.03,
                        "optimizer": {"kind": "adafactor"},
                        "schedule": {"kind": "linear", "warmup_steps": max(1, steps // 20)},
                    },
                    "logging": {"every_steps": 50},
                    "evaluation": {"every_steps": max(1, steps // 5), "tokens": 16_384},
                    "checkpointing": {"every_minutes": 10},
                },
                quiet=True,
            )
        for task, (files, settings) in tasks.items():
            for seed in options.seeds:
                key = f"denoisers, {name}, {task}, {seed}"
                if is_done(options, key):
                    continue
                place = folder / name / task
                place.mkdir(parents=True, exist_ok=True)
                found = finetune(
                    options, place, model, files, settings, rate=0.01, epochs=3.0, seed=seed
                )
                asked = {"kind": "text_to_text", **settings}
                note(options, key, evaluated(cw.load(found), files["test"], asked))


def sst2(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Path], Row]:
    """A few thousand sentences with their sentiment."""
    source = options.data / "classify" / "sst2"
    head, *rows = lines(source / "train.tsv.gz")
    limit = 64 if options.quick else 3_000
    train = folder / "sst2.train.tsv"
    train.write_text("\n".join([head, *rows[:limit]]) + "\n")
    dev = folder / "sst2.dev.tsv"
    text = (source / "dev.tsv").read_text().splitlines()
    dev.write_text("\n".join(text[: limit + 1 if options.quick else None]) + "\n")
    return {"train": train, "dev": dev, "test": dev}, {"format": "sst2"}


def few_pairs(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Path], Row]:
    """A few thousand captions in two languages."""
    rows = pairs(options.data / "translate" / "multi30k")
    limits = {"train": 6_000, "dev": 100, "test": 1_000}
    files = {
        part: write_rows(
            folder / f"pairs.{part}.jsonl", rows[part][: 32 if options.quick else limit]
        )
        for part, limit in limits.items()
    }
    return files, CAPTIONS


if __name__ == "__main__":
    main()
