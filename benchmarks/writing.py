"""What small models that write learn from real text: translations, subject lines, plays, denoisers.

- translate: a T5 from scratch on Multi30k, English to German; BLEU with four beams on the test set.
- subject: a T5 from scratch on AESLC, an e-mail to its subject line; ROUGE on the test set.
- shakespeare: a GPT-2 from scratch; held-out loss a token and a character, and a sample.
- denoisers: the same T5 pre-trained by span corruption, as a prefix language model and by UL2's
  mixture on as many tokens of a corpus, and not at all; then taught two tasks with few rows.

What is done stands in the folder OUT and is not done again.

    python benchmarks/writing.py DATA OUT [--only translate subject] [--epochs 4] [--quick]
    python benchmarks/writing.py --report OUT
"""

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

DENOISERS = {"none": None, "span corruption": "t5", "prefix": "prefix-lm", "UL2": "ul2"}
SIZE = {"d_model": 256, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 4, "d_ff": 512}
ENTRIES = 8_000
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real data")
    parser.add_argument("out", type=Path, nargs="?", help="where everything is kept")
    parser.add_argument("--only", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--tokens", type=int, default=2_000_000, help="of pre-training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the denoisers' tasks")
    parser.add_argument("--quick", action="store_true", help="to see that it works")
    parser.add_argument("--report", type=Path, help="show what a folder holds")
    options = parser.parse_args()
    if options.report:
        report(options.report)
        return
    if None in (options.data, options.out):
        print("writing: name the folder of real data and a folder to keep; it takes an hour.")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        WORKS[name](options)
    report(options.out)


def lines(path: Path) -> Iterator[str]:
    """The lines of a packed file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def note(options: argparse.Namespace, name: str, row: Row) -> None:
    """Keeps what a run came to."""
    with (options.out / "writing.jsonl").open("a") as file:
        file.write(json.dumps({"name": name, **row}, ensure_ascii=False) + "\n")
    print(name, row, flush=True)


def is_done(options: argparse.Namespace, name: str) -> bool:
    kept = options.out / "writing.jsonl"
    return kept.exists() and any(json.loads(line)["name"] == name for line in kept.open())


def report(out: Path) -> None:
    """A line for each run."""
    rows = [json.loads(line) for line in (out / "writing.jsonl").open()]
    for row in rows:
        values = {key: value for key, value in row.items() if key not in ("name", "sample")}
        print(f"{row['name']:34}", json.dumps(values))
        if "sample" in row:
            print("\n".join(f"    {line}" for line in str(row["sample"]).splitlines()))
    print(json.dumps({"benchmark": "writing", "rows": rows}, ensure_ascii=False))


# ---------------------------------------------------------------- tasks from scratch


def translate(options: argparse.Namespace) -> None:
    """English to German captions."""
    folder = options.data / "translate" / "multi30k"
    parts = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    rows = {
        part: [
            {"source": english, "target": german}
            for english, german in zip(
                lines(folder / f"{name}.en.gz"), lines(folder / f"{name}.de.gz"), strict=True
            )
            if english.strip() and german.strip()
        ]
        for part, name in parts.items()
    }
    task = {"prefix": "translate English to German: ", "metric": "bleu", "lengths": {"cut": True}}
    taught(options, "translate", rows, task, beams=4)


def subject(options: argparse.Namespace) -> None:
    """E-mails to subject lines."""
    folder = options.data / "summarize" / "aeslc"
    rows = {part: mails(folder / f"{part}.jsonl.gz") for part in ("train", "dev", "test")}
    lengths = {"source": 128, "target": 32, "cut": True}
    task = {"prefix": "summarize: ", "metric": "rouge_l", "lengths": lengths}
    taught(options, "subject", rows, task, beams=4)


def mails(path: Path) -> list[Row]:
    found = []
    for line in lines(path):
        row = json.loads(line)
        target = row.get("subject") or row.get("target") or row.get("subject_line") or ""
        if row["email"].strip() and str(target).strip():
            found.append({"source": row["email"], "target": str(target)})
    return found


def taught(
    options: argparse.Namespace, name: str, rows: dict[str, list[Row]], task: Row, *, beams: int
) -> None:
    """A T5 with fresh weights that learns one task, measured on the test set."""
    if is_done(options, name):
        return
    import clozeworks as cw

    folder = options.out / name
    folder.mkdir(exist_ok=True)
    limit = 64 if options.quick else None
    files = {}
    for part, own in rows.items():
        some = own[: limit or (300 if part == "dev" else None)]
        files[part] = write_rows(folder / f"{part}.jsonl", some)
    model = folder / "fresh"
    if not model.exists():
        texts = [text for row in rows["train"] for text in (row["source"], row["target"])]
        fresh(options, texts, model)
    begin = time.monotonic()
    found = finetune(options, folder, model, files, task, rate=1e-3, epochs=options.epochs)
    seconds = time.monotonic() - begin
    loaded = cw.load(found)
    writing = {**task, "kind": "text_to_text", "writing": {"beams": beams}}
    measured = evaluated(loaded, files["test"], writing)
    count = loaded.blueprint.count()
    note(options, name, {"parameters": count, "seconds": round(seconds), **measured})


def fresh(options: argparse.Namespace, texts: list[str], folder: Path) -> None:
    """A T5 with fresh weights, and a vocabulary of its own."""
    import clozeworks as cw
    from clozeworks.text.style import T5_STYLE
    from clozeworks.text.train import train_from_iterator

    entries = 600 if options.quick else ENTRIES
    tokenizer = train_from_iterator(texts, kind="unigram", size=entries, style=T5_STYLE)
    heads = ("vocabulary", "decoder")
    cw.new("t5-v1_1-small", tokenizer, heads=heads, dropout_rate=0.1, **SIZE).save(folder)


def write_rows(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def finetune(
    options: argparse.Namespace,
    folder: Path,
    model: Path,
    files: dict[str, Path],
    task: Row,
    *,
    rate: float,
    epochs: float,
    seed: int = 0,
) -> Path:
    """The folder of the model that learned a task."""
    import clozeworks as cw

    done = cw.finetune(
        {
            "run": str(folder / f"run {seed}"),
            "model": str(model),
            "task": {"kind": "text_to_text", **task},
            "data": {"train": [str(files["train"])], "dev": [str(files["dev"])]},
            "training": {"epochs": 1.0 if options.quick else epochs, "items": 32, "rate": rate},
            "choosing": {"evaluations": 1},
            "seeds": [seed],
        }
    )
    assert done.model is not None, "stopped; the same command goes on"
    return Path(done.model)


def evaluated(loaded: Any, file: Path, task: Row) -> Row:
    """The values on a file of texts, or of labels that a format puts as text; with an interval."""
    from clozeworks import config
    from clozeworks.data.labelled.reading import read_labelled
    from clozeworks.tasks.task import Task

    asked: Any = config.read(Task, task)
    items = read_labelled(file, "classify" if "format" in task else "text-to-text").items
    measured = asked.measure(items, loaded.ask(items, asked), intervals=True)
    values = {name: round(value, 4) for name, value in measured.values.items()}
    low, high = measured.intervals[measured.primary]
    return {"metric": measured.primary, **values, "interval": [round(low, 4), round(high, 4)]}


# ---------------------------------------------------------------- language models


def shakespeare(options: argparse.Namespace) -> None:
    """A GPT-2 on plays: held-out loss, and what it writes."""
    name = "shakespeare"
    if is_done(options, name):
        return
    import clozeworks as cw
    from clozeworks.data.build import BuildSettings, build_corpus
    from clozeworks.text.style import GPT2_STYLE
    from clozeworks.text.train import train_from_iterator

    folder = options.out / name
    folder.mkdir(exist_ok=True)
    text = "\n".join(lines(options.data / "text" / "en" / "tinyshakespeare.txt.gz"))
    whole = folder / "plays.jsonl"
    # Stretches of some speeches each are documents; a tenth of them is held out.
    speeches = text.split("\n\n")
    stretches = ["\n\n".join(speeches[i : i + 12]) for i in range(0, len(speeches), 12)]
    write_rows(whole, [{"text": stretch} for stretch in stretches])
    corpus = folder / "corpus"
    tokenizer = train_from_iterator(stretches, kind="bpe", size=1_000, style=GPT2_STYLE)
    if not corpus.exists():
        settings = BuildSettings(validation=0.1, sentences="whole")
        build_corpus([whole], corpus, tokenizer, settings, workers=1)
    steps = 20 if options.quick else 1_500
    begin = time.monotonic()
    done = cw.pretrain(
        {
            "run": str(folder / "run"),
            "objective": {
                "kind": "causal_lm",
                "arrangement": {"kind": "document_pieces", "length": 256},
            },
            "model": {
                "start": "gpt2",
                "config": {"n_embd": 192, "n_layer": 4, "n_head": 6, "n_positions": 256},
            },
            "data": {"corpus": str(corpus)},
            "training": {
                "steps": steps,
                "tokens": 4_096,
                "optimizer": {"kind": "adam_w", "rate": 1e-3, "betas": [0.9, 0.95], "decay": 0.1},
                "schedule": {"kind": "cosine", "warmup": max(1, steps // 20), "end": 0.1},
            },
            "watching": {"every": 50, "evaluate": max(1, steps // 10), "tokens": 65_536},
            "snapshots": {"minutes": 10},
        }
    )
    seconds = time.monotonic() - begin
    model = cw.load(folder / "run" / "model")
    costs = [record for record in metrics(folder / "run") if "evaluation" in record]
    losses = [record["evaluation"]["causal_lm"]["loss"] for record in costs]
    best = min(losses)
    letters = len(text) / sum(len(one.ids) for one in tokenizer.encode(stretches))
    sample = model.generate("ROMEO:\n", tokens=60, temperature=0.8, top_p=0.95)
    row = {
        "parameters": model.blueprint.count(),
        "seconds": round(seconds),
        "loss": round(losses[-1], 4),
        "best": round(best, 4),
        "perplexity": round(math.exp(best), 2),
        "bits_per_character": round(best / math.log(2) / letters, 4),
        "finished": bool(done.outcome.finished),
        "sample": sample.prompt + sample.text,  # type: ignore[union-attr]
    }
    note(options, name, row)


def metrics(run: Path) -> list[Row]:
    return [json.loads(line) for line in (run / "metrics.jsonl").open()]


def denoisers(options: argparse.Namespace) -> None:
    """Ways to learn from raw text, at equal tokens, judged by what they are worth for tasks."""
    import clozeworks as cw
    from clozeworks import config
    from clozeworks.data.build import BuildSettings, build_corpus
    from clozeworks.objectives.published import published
    from clozeworks.text.special import T5_TOKENS
    from clozeworks.text.style import AnsweringUnigramStyle
    from clozeworks.text.train import train_from_iterator

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
    tasks = {"sst2": sst2(options, folder), "subject": few_mails(options, folder)}
    for name, objective in DENOISERS.items():
        model = folder / name / "run" / "model"
        if objective is None:
            model = folder / "fresh"
            if not model.exists():
                cw.new(
                    "t5-v1_1-small", folder / "tokenizer", heads=("vocabulary", "decoder"),
                    dropout_rate=0.0, **SIZE,
                ).save(model)  # fmt: skip
        elif not model.exists():
            cw.pretrain(
                {
                    "run": str(folder / name / "run"),
                    "objective": config.plain(published(objective, 142)),
                    "model": {"start": "t5-v1_1-small", "config": {"dropout_rate": 0.0, **SIZE}},
                    "data": {"corpus": str(corpus)},
                    "training": {
                        "steps": steps,
                        "tokens": each,
                        "optimizer": {"kind": "adam_w", "rate": 2e-3, "betas": [0.9, 0.98]},
                        "schedule": {"kind": "linear", "warmup": max(1, steps // 20)},
                    },
                    "watching": {"every": 50, "evaluate": max(1, steps // 5), "tokens": 16_384},
                    "snapshots": {"minutes": 10},
                }
            )
        for task, (files, settings) in tasks.items():
            for seed in options.seeds:
                key = f"denoisers, {name}, {task}, {seed}"
                if is_done(options, key):
                    continue
                place = folder / name / task
                place.mkdir(parents=True, exist_ok=True)
                found = finetune(
                    options, place, model, files, settings, rate=5e-4, epochs=3.0, seed=seed
                )
                asked = {"kind": "text_to_text", **settings}
                note(options, key, evaluated(cw.load(found), files["test"], asked))


def sst2(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Path], Row]:
    """A few thousand sentences with their sentiment."""
    source = options.data / "classify" / "sst2"
    head, *rows = lines(source / "train.tsv.gz")
    limit = 64 if options.quick else 4_000
    train = folder / "sst2.train.tsv"
    train.write_text("\n".join([head, *rows[:limit]]) + "\n")
    dev = folder / "sst2.dev.tsv"
    text = (source / "dev.tsv").read_text().splitlines()
    dev.write_text("\n".join(text[: limit + 1 if options.quick else None]) + "\n")
    return {"train": train, "dev": dev, "test": dev}, {"format": "sst2"}


def few_mails(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Path], Row]:
    """A few thousand e-mails and their subjects."""
    source = options.data / "summarize" / "aeslc"
    limits = {"train": 4_000, "dev": 200, "test": 1_000}
    files = {
        part: write_rows(
            folder / f"mails.{part}.jsonl",
            mails(source / f"{part}.jsonl.gz")[: 32 if options.quick else limit],
        )
        for part, limit in limits.items()
    }
    lengths = {"source": 128, "target": 32, "cut": True}
    return files, {"prefix": "summarize: ", "metric": "rouge_l", "lengths": lengths}


WORKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "translate": translate,
    "subject": subject,
    "shakespeare": shakespeare,
    "denoisers": denoisers,
}

if __name__ == "__main__":
    main()
