"""What sentence models learn: models of one's own and a published one, taught in several ways.

    python benchmarks/sentence_learning.py RESULTS.jsonl --english FOLDER --chinese FOLDER
        --sentence-model FOLDER [--data DATA] [--seeds 0 1 2] [--only NAME …] [--runs FOLDER]
    python benchmarks/sentence_learning.py RESULTS.jsonl        (the tables of what there is)

`--english` and `--chinese` are encoders that were never taught to compare (`clozeworks pretrain`),
`--sentence-model` is one that was. All are measured on the test part of STS-B, or of the Chinese
STS-B, by Spearman's correlation; the dev part chooses the best step. What stands in the file of
results is not done again.

| way | rows |
|---|---|
| simcse, tsdae | 10,000 sentences of Wikipedia, alone |
| triplets | SNLI, 2,954 triplets |
| scores | STS-B, 5,749 pairs; Chinese 5,231 |
"""

import argparse
import gzip
import json
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import clozeworks as cw

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SENTENCES = 10_000
LEARNING_RATES = {"simcse": 3e-5, "tsdae": 1e-4, "triplets": 2e-5, "scores": 5e-5}
EPOCHS = {"scores": 2.0}


@dataclass(frozen=True)
class Way:
    """Where a model comes from, what it is taught in turn, and how its tokens are pooled."""

    model: str
    stages: tuple[str, ...] = ()
    pooling: str = "mean"
    whitened: bool = False

    @property
    def language(self) -> str:
        """Of its texts."""
        return "zh" if self.model == "chinese" else "en"


WAYS = {
    "MiniLM": Way("sentence-model"),
    "MiniLM, triplets": Way("sentence-model", ("triplets",)),
    "MiniLM, triplets, scores": Way("sentence-model", ("triplets", "scores")),
    "MiniLM, whitened": Way("sentence-model", whitened=True),
    **{
        f"{language}{named}": Way(language, stages, pooling, whitened)
        for language in ("english", "chinese")
        for named, stages, pooling, whitened in (
            ("", (), "mean", False),
            (", first token", (), "first", False),
            (", max", (), "max", False),
            (", whitened", (), "mean", True),
            (", simcse", ("simcse",), "mean", False),
            (", tsdae", ("tsdae",), "first", False),
            (", scores", ("scores",), "mean", False),
            (", scores, first token", ("scores",), "first", False),
            (", scores, max", ("scores",), "max", False),
            (", simcse, scores", ("simcse", "scores"), "mean", False),
            (", scores, whitened", ("scores",), "mean", True),
        )
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?")
    for name in ("english", "chinese", "sentence-model"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--runs", type=Path, help="where runs are kept; not kept if not given")
    parser.add_argument("--quick", action="store_true", help="only prints what there is")
    options = parser.parse_args()
    if options.results is None:
        print("Name a file for the results, and models.")
        return
    models = {
        name: folder
        for name in ("english", "chinese", "sentence-model")
        if (folder := getattr(options, name.replace("-", "_"))) is not None
    }
    done = known(options.results)
    with tempfile.TemporaryDirectory() as place:
        runs = options.runs or Path(place)
        for name in options.only:
            way = WAYS[name]
            for seed in options.seeds if way.stages else options.seeds[:1]:
                if way.model in models and (name, seed) not in done:
                    value = measured(taught(way, models[way.model], seed, options.data, runs), way,
                                     options.data)  # fmt: skip
                    line = json.dumps({"way": name, "seed": seed, **value})
                    with options.results.open("a") as file:
                        file.write(line + "\n")
                    print(line, flush=True)
    print("\n".join(table(known(options.results))))


def known(results: Path) -> dict[tuple[str, int], dict[str, Any]]:
    lines = results.read_text().splitlines() if results.is_file() else []
    rows = [json.loads(line) for line in lines]
    return {(row["way"], row["seed"]): row for row in rows}


def taught(way: Way, model: Path, seed: int, data: Path, runs: Path) -> Any:
    """The model after all stages; equal beginnings are taught once."""
    begin = cw.load(model)
    dev = scored(data, way.language, "dev")
    where = f"{way.model}-{way.pooling}-{seed}"
    pooling = () if way.model == "sentence-model" else (way.pooling,)
    for stage in way.stages:
        where = f"{where}-{stage}"
        out = runs / where
        if (out / "model").is_dir():
            begin = cw.load(out / "model")
            continue
        loss = {"loss": {"kind": "tsdae"}} if stage == "tsdae" else {}
        task = {"kind": "embed", **loss, **({"pooling": list(pooling)} if pooling else {})}
        task["windows"] = {"keep": "first", "length": 128}
        begin = cw.finetune(
            begin, ROWS[stage](data, way.language), task=task, dev=dev, out=out, seed=seed,
            epochs=EPOCHS.get(stage, 1.0), lr=LEARNING_RATES[stage], quiet=True,
        ).load()  # fmt: skip
    return begin


def measured(model: Any, way: Way, data: Path) -> dict[str, Any]:
    if not way.stages and way.model != "sentence-model":
        checkpoint = model.checkpoint
        checkpoint.pooling = replace(checkpoint.pooling, modes=(way.pooling,), stated=True)
    if way.whitened:
        rows = scored(data, way.language, "train")
        texts = [row[name] for row in rows for name in ("sentence1", "sentence2")]
        model.whiten(list(dict.fromkeys(texts)))
    found = cw.evaluate(model, scored(data, way.language, "test"), task="embed", quiet=True)
    low, high = found.intervals[found.primary]
    return {"value": found.value, "low": low, "high": high, "metric": found.primary}


def opened(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def scored(data: Path, language: str, part: str) -> list[dict[str, Any]]:
    if language == "zh":
        rows = [line.split("\t") for line in opened(data / f"pair/stsb_zh/sts-b-{part}.txt.gz")]
    else:
        lines = [line.split("\t") for line in opened(data / f"pair/stsb/{part}.tsv.gz")][1:]
        rows = [[line[5], line[6], line[4]] for line in lines]
    return [{"sentence1": a, "sentence2": b, "score": float(score)} for a, b, score in rows]


def triplets(data: Path, language: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in opened(data / "pair/snli_triplets/triplets-dev.jsonl.gz")]


def sentences(data: Path, language: str) -> list[dict[str, Any]]:
    """Sentences of Wikipedia, the first ones of 20 to 200 characters (Chinese: 10 to 100)."""
    low, high, ends = (10, 100, r"(?<=[。！？])") if language == "zh" else (20, 200, r"(?<=[.!?]) ")
    found: dict[str, None] = {}
    for line in opened(data / f"text/{language}/wiki_{language}.jsonl.gz"):
        for sentence in re.split(ends, json.loads(line)["text"].replace("\n", " ")):
            if low <= len(sentence.strip()) <= high:
                found[sentence.strip()] = None
        if len(found) >= SENTENCES:
            break
    return [{"text": text} for text in list(found)[:SENTENCES]]


ROWS: dict[str, Callable[[Path, str], list[dict[str, Any]]]] = {
    "simcse": sentences,
    "tsdae": sentences,
    "triplets": triplets,
    "scores": lambda data, language: scored(data, language, "train"),
}


def table(rows: dict[tuple[str, int], dict[str, Any]]) -> Iterator[str]:
    """Means over seeds, with their deviation, and the interval of the first seed's test items."""
    yield "| model | Spearman, mean of seeds | interval of the items (first seed) |"
    yield "|---|---|---|"
    for name in WAYS:
        own = [row for (way, _), row in sorted(rows.items()) if way == name]
        if own:
            values = [row["value"] for row in own]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            first = own[0]
            yield (
                f"| {name} | {statistics.mean(values):.3f}{spread} | "
                f"{first['low']:.3f} to {first['high']:.3f} |"
            )


if __name__ == "__main__":
    main()
