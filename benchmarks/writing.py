"""What small models that write learn from real text: translations, subject lines, plays.

- translate: a T5 from scratch on Multi30k, English to German; BLEU with four beams on the test set.
- subject: a T5 from scratch on AESLC, an e-mail to its subject line; ROUGE on the test set.
- shakespeare: a GPT-2 from scratch; held-out loss a token and a character, and a sample.

What is done stands in the folder OUT and is not done again.

    python benchmarks/writing.py DATA OUT [--only translate subject] [--quick]
    python benchmarks/writing.py --report OUT
"""

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SIZE = {"d_model": 256, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 4, "d_ff": 512}
ENTRIES = 4_000
EPOCHS = {"translate": 5.0, "subject": 8.0}
# How many words of a text are a guess that needs no learning; None for all.
REPEATED = {"translate": None, "subject": 8}
CAPTIONS: dict[str, Any] = {
    "prefix": "translate English to German: ", "metric": "bleu", "lengths": {"cut": True},
}  # fmt: skip
# How many texts of the test set are shown with what was written for them.
SHOWN = 5
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real data")
    parser.add_argument("out", type=Path, nargs="?", help="where everything is kept")
    parser.add_argument("--only", nargs="+", default=list(WORKS), choices=list(WORKS))
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


def report(out: Path, benchmark: str = "writing") -> None:
    """A line for each run."""
    rows = [json.loads(line) for line in (out / "writing.jsonl").open()]
    for row in rows:
        values = {key: value for key, value in row.items() if key not in ("name", "sample")}
        print(f"{row['name']:34}", json.dumps(values))
        if "sample" in row:
            print("\n".join(f"    {line}" for line in str(row["sample"]).splitlines()))
    print(json.dumps({"benchmark": benchmark, "rows": rows}, ensure_ascii=False))


# ---------------------------------------------------------------- tasks from scratch


def pairs(folder: Path) -> dict[str, list[Row]]:
    """English and German captions."""
    parts = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    return {
        part: [
            {"source": english, "target": german}
            for english, german in zip(
                lines(folder / f"{name}.en.gz"), lines(folder / f"{name}.de.gz"), strict=True
            )
            if english.strip() and german.strip()
        ]
        for part, name in parts.items()
    }


def translate(options: argparse.Namespace) -> None:
    """English to German captions."""
    rows = pairs(options.data / "translate" / "multi30k")
    taught(options, "translate", rows, CAPTIONS, beams=4)


def subject(options: argparse.Namespace) -> None:
    """E-mails to subject lines."""
    folder = options.data / "summarize" / "aeslc"
    rows = {part: mails(folder / f"{part}.jsonl.gz") for part in ("train", "dev", "test")}
    lengths = {"source": 96, "target": 32, "cut": True}
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
    # A share of the weights: T5's vectors begin large, and steps of one size leave them behind.
    found = finetune(options, folder, model, files, task, rate=0.03, epochs=EPOCHS[name])
    seconds = time.monotonic() - begin
    loaded = cw.load(found)
    writing = {**task, "kind": "text_to_text", "writing": {"beams": beams}}
    measured = evaluated(loaded, files["test"], writing)
    plain = repeated(files["test"], writing, REPEATED[name])
    texts = [row["source"] for row in rows["test"][:SHOWN]]
    wrote = [answer.text for answer in loaded.text_to_text(texts)]
    shown = [
        f"{row['target']}\n  {text}" for row, text in zip(rows["test"][:SHOWN], wrote, strict=True)
    ]
    row = {"parameters": loaded.blueprint.count(), "seconds": round(seconds), **measured}
    note(options, name, {**row, "repeating": plain, "sample": "\n".join(shown)})


def repeated(file: Path, task: Row, words: int | None) -> Row:
    """The values of who repeats the first words of each text, or all of it."""
    from clozeworks import config
    from clozeworks.tasks.task import Task, read_labelled
    from clozeworks.tasks.text_to_text.task import Composed

    asked: Any = config.read(Task, task)
    items: Any = read_labelled(file, "text-to-text").items
    answers = [Composed(" ".join(item.source.split()[:words]), 1.0) for item in items]
    return {name: round(value, 4) for name, value in asked.measure(items, answers).values.items()}


def fresh(options: argparse.Namespace, texts: list[str], folder: Path) -> None:
    """A T5 with fresh weights, and a vocabulary of its own."""
    import clozeworks as cw
    from clozeworks.text.tokenizer.styles import T5_STYLE
    from clozeworks.text.training.train import train_from_iterator

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
            "training": {
                "epochs": 1.0 if options.quick else epochs,
                "batch_size": 32,
                "learning_rate": rate,
                "optimizer": {"kind": "adafactor"},
            },
            "evaluation": {"per_epoch": 1},
            "seeds": [seed],
        },
        quiet=True,
    )
    assert done.model is not None, "stopped; the same command goes on"
    return Path(done.model)


def evaluated(loaded: Any, file: Path, task: Row) -> Row:
    """The values on a file of texts, or of labels that a format puts as text; with an interval."""
    from clozeworks import config
    from clozeworks.tasks.task import Task, read_labelled

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
    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.text.tokenizer.styles import GPT2_STYLE
    from clozeworks.text.training.train import train_from_iterator

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
    steps = 20 if options.quick else 1_000
    begin = time.monotonic()
    done = cw.pretrain(
        {
            "run": str(folder / "run"),
            "objective": {
                "kind": "causal_lm",
                "examples": {"kind": "document_pieces", "length": 256},
            },
            "model": {
                "start": "gpt2",
                "config": {"n_embd": 192, "n_layer": 4, "n_head": 6, "n_positions": 256},
            },
            "data": {"corpus": str(corpus)},
            "training": {
                "steps": steps,
                "batch_tokens": 4_096,
                "learning_rate": 1e-3,
                "optimizer": {"kind": "adam_w", "betas": [0.9, 0.95], "weight_decay": 0.1},
                "schedule": {"kind": "cosine", "warmup_steps": max(1, steps // 20), "end": 0.1},
            },
            "logging": {"every_steps": 50},
            "evaluation": {"every_steps": max(1, steps // 10), "tokens": 65_536},
            "checkpointing": {"every_minutes": 10},
        },
        quiet=True,
    )
    seconds = time.monotonic() - begin
    model = cw.load(folder / "run" / "model")
    costs = [record for record in metrics(folder / "run") if "evaluation" in record]
    losses = [record["evaluation"]["causal_lm"]["loss"] for record in costs]
    best = min(losses)
    letters = len(text) / sum(len(one.ids) for one in tokenizer.encode(stretches))
    sample = model.generate("ROMEO:\n", max_new_tokens=60, temperature=0.8, top_p=0.95)
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


WORKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "translate": translate,
    "subject": subject,
    "shakespeare": shakespeare,
}

if __name__ == "__main__":
    main()
