"""Speed of classifying and tagging a file, side by side with the pipelines of transformers.

A BERT of 6 layers and width 384 with fresh weights; sentences with the lengths of SST-2 (dev: 25
tokens on average) and of CoNLL-2003 (20), from the real files if they are named, else made up.
Both libraries read the same folder and the same list of texts; the pipelines get batches of 32,
sorted by length for them in a second line, as nobody does by default. Repetitions alternate.

    python benchmarks/predict.py [--sst FILE.tsv] [--conll FILE.bio.gz] [--quick] [--repeats 5]
"""

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from measuring import made_up_words, matmul_peak

LABELS = ("negative", "positive")
TAGS = ("O", *(f"{role}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for role in "BI"))
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sst", type=Path, help="SST-2: a header, then sentence and label")
    parser.add_argument("--conll", type=Path, help="CoNLL-2003: a word and its tag on each line")
    parser.add_argument("--tokenizer", type=Path, help="for real files; made up if not given")
    parser.add_argument("--quick", action="store_true", help="128 texts, 2 repetitions")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    count, repeats = (128, 2) if options.quick else (872, options.repeats)
    import torch

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as place:
        words = made_up_words(Path(place) / "words")
        tokenizer = options.tokenizer or Path(place) / "words"
        texts = {
            "classify": sentences(options.sst, count) or made_up(words, count, 22.0, 0.55),
            "tag": sentences(options.conll, count) or made_up(words, count, 14.0, 0.75),
        }
        for name, task in (("classify", classification()), ("tag", tagging())):
            compare(name, task, tokenizer, texts[name], Path(place) / name, repeats)


def classification() -> Any:
    from clozeworks.tasks.classify import Classify

    return Classify(labels=LABELS)


def tagging(labels: Sequence[str] = TAGS) -> Any:
    from clozeworks.tasks.tag import Tag

    return Tag(labels=tuple(labels))


def compare(
    name: str, task: Any, tokenizer: Path, texts: list[str], folder: Path, repeats: int
) -> None:
    make_model(task, tokenizer, folder)
    ask = {"ours": our_answers(name, folder), **peers(name, folder)}
    found = {who: answer(texts) for who, answer in ask.items()}  # also warms everything up
    same = equal_labels(found) if name == "classify" else equal_tags(tokenizer, texts, folder)
    times: dict[str, list[float]] = {who: [] for who in ask}
    peaks = []
    for turn in range(repeats):
        for who in ask if turn % 2 else reversed(ask):
            peaks.append(matmul_peak())
            begin = time.perf_counter()
            ask[who](texts)
            times[who].append(time.perf_counter() - begin)
    speed = {who: len(texts) / statistics.median(values) for who, values in times.items()}
    pairs = [theirs / mine for mine, theirs in zip(times["ours"], times["peer"], strict=True)]
    ratio = speed["ours"] / speed["peer"]
    print(f"{name}: {len(texts):,} texts, {repeats} repetitions; {same}")
    print(f"matmul peak: {statistics.median(peaks) / 1e9:.0f} Gflop/s")
    for who, value in speed.items():
        print(f"  {who:22}{value:10.1f} texts a second")
    print(f"  ratio {ratio:.2f}, of single repetitions {min(pairs):.2f} to {max(pairs):.2f}")
    result = {
        "benchmark": f"predict {name}",
        "ratio": round(ratio, 3),
        "ours": round(speed["ours"], 1),
        "peer": round(speed["peer"], 1),
        "unit": "texts/s",
    }
    print(json.dumps(result))


def make_model(task: Any, tokenizer: Path, folder: Path) -> None:
    """A folder both libraries read; O is likely, as it is in a trained tagger."""
    import torch

    import clozeworks as cw

    model = cw.new(
        "bert-base",
        tokenizer,
        heads=("pooler",),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    ).for_task(task)
    with torch.no_grad():
        for head in model.model.heads.values():
            head.project.weight.mul_(4)
            head.project.bias[0] += 2.5
    model.save(folder)


def our_answers(name: str, folder: Path) -> Callable[[list[str]], list[Any]]:
    import clozeworks as cw

    model = cw.load(folder)
    return model.classify if name == "classify" else model.tag


def peers(name: str, folder: Path) -> dict[str, Callable[[list[str]], list[Any]]]:
    from transformers import pipeline

    kind = "text-classification" if name == "classify" else "token-classification"
    more = {} if name == "classify" else {"aggregation_strategy": "first"}
    pipe = pipeline(kind, str(folder), device="cpu", batch_size=BATCH, **more)
    return {
        "peer": lambda texts: list(pipe(texts)),
        "peer, sorted by length": lambda texts: list(pipe(sorted(texts, key=len))),
    }


def equal_labels(found: dict[str, list[Any]]) -> str:
    """How many labels are equal, and how far scores are apart."""
    pairs = list(zip(found["ours"], found["peer"], strict=True))
    same = sum(mine.label == theirs["label"] for mine, theirs in pairs)
    far = max(abs(mine.score - theirs["score"]) for mine, theirs in pairs)
    return f"{same:,} of {len(pairs):,} labels equal, scores within {far:.1e}"


def equal_tags(tokenizer: Path, texts: list[str], folder: Path) -> str:
    """How many words get the same tag where tags have no rules, which only ours keeps."""
    place = folder.with_name("plain")
    make_model(tagging([f"T{number}" for number in range(len(TAGS))]), tokenizer, place)
    ours, peer = our_answers("tag", place)(texts), peers("tag", place)["peer"](texts)
    words = same = 0
    for mine, theirs in zip(ours, peer, strict=True):
        for (begin, _), tag in zip(mine.spans, mine.tags, strict=True):
            covering = [g["entity_group"] for g in theirs if g["start"] <= begin < g["end"]]
            words += 1
            same += covering == [tag]
    return f"{same:,} of {words:,} words have the same tag where tags have no rules"


def sentences(path: Path | None, count: int) -> list[str]:
    """The first texts of a real file."""
    if path is None:
        return []
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        if ".tsv" in path.suffixes:
            rows = [line.split("\t")[0].strip() for line in file][1:]
        else:
            blocks = file.read().split("\n\n")
            rows = [" ".join(line.split()[0] for line in block.splitlines()) for block in blocks]
    return [row for row in rows if row][:count]


def made_up(words: list[str], count: int, mean: float, spread: float) -> list[str]:
    """Texts of whole words whose number follows a lognormal law."""
    random = np.random.default_rng(1)
    lengths = random.lognormal(np.log(mean) - spread**2 / 2, spread, count)
    sizes = np.clip(lengths.round(), 1, 120).astype(int)
    return [" ".join(random.choice(words, size)) for size in sizes]


if __name__ == "__main__":
    main()
