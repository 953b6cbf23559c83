"""Speed of building a corpus, side by side with the raw tokenizers library and with datasets.map.

Ours reads packed JSON lines, drops duplicates, finds sentences, makes tokens, marks words and
writes hashed shards. The raw library gets the documents as a list in memory and only makes tokens
(`encode_batch_fast`, all cores). `datasets` maps the same tokenizer over a table it has loaded
already. Each measurement is a process of its own; repetitions alternate. Peak memory is that of the
main process and of its largest worker, at one and at four times the input.

    python benchmarks/corpus.py [TEXT.jsonl.gz TOKENIZER] [--quick] [--documents N] [--repeats 3]

Without a text a made-up one is used; real text is the honest test.
"""

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, nargs="?", help="JSON lines with a field text, gzipped")
    parser.add_argument("tokenizer", type=Path, nargs="?", help="a tokenizer folder")
    parser.add_argument("--quick", action="store_true", help="1,000 documents, one repetition")
    parser.add_argument("--documents", type=int, default=38400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASURES[options.measure](options)))
        return
    count, repeats = (1000, 1) if options.quick else (options.documents, options.repeats)
    with tempfile.TemporaryDirectory() as place:
        if options.tokenizer is None:
            options.text, options.tokenizer = made_up(Path(place))
        small, large = Path(place) / "small.jsonl.gz", Path(place) / "large.jsonl.gz"
        characters = copy_documents(options.text, small, count)
        larger = copy_documents(options.text, large, 4 * count)
        seconds: dict[str, list[float]] = {name: [] for name in MEASURES}
        memory = {}
        for _ in range(repeats):
            for name in MEASURES:
                found = measure(name, small, options)
                seconds[name].append(found["seconds"])
                memory[name] = found["memory"]
        rate = {name: characters / statistics.median(seconds[name]) for name in MEASURES}
        at_four = measure("ours", large, options)
    print(f"{count:,} documents, {characters:,} characters, {options.workers} cores")
    for name, value in rate.items():
        share = rate["ours"] / value
        print(f"{name:10}{value / 1e6:8.2f} million characters a second; ours is {share:.2f} times")
    print(
        f"peak memory, ours: {memory['ours']:.0f} MB at {characters / 1e6:.0f} million characters,"
    )
    print(f"{at_four['memory']:.0f} MB at {larger / 1e6:.0f} million, {at_four['seconds']:.1f} s")
    result = {
        "benchmark": "corpus",
        "ratio": round(rate["ours"] / rate["raw"], 3),
        "ratio_datasets": round(rate["ours"] / rate["datasets"], 3),
        "ours": round(rate["ours"]),
        "peer": round(rate["raw"]),
        "unit": "characters/s",
        "memory_ratio": round(at_four["memory"] / memory["ours"], 3),
    }
    print(json.dumps(result))


def made_up(place: Path) -> tuple[Path, Path]:
    """Documents over 30,000 made-up words, and a tokenizer for them."""
    from clozeworks.text.training.train import train_from_iterator

    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(30_000)]
    shares = 1 / np.arange(1, 30_001)
    drawn = random.choice(words, 800_000, p=shares / shares.sum()).tolist()
    sentences = [" ".join(drawn[start : start + 20]) + "." for start in range(0, len(drawn), 20)]
    documents = [" ".join(sentences[start : start + 20]) for start in range(0, len(sentences), 20)]
    source = place / "made-up.jsonl.gz"
    with gzip.open(source, "wt", compresslevel=1) as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in documents)
    folder = place / "tokenizer"
    folder.mkdir()
    train_from_iterator(documents[:300], kind="wordpiece", size=8000).save(folder)
    return source, folder


def copy_documents(source: Path, target: Path, count: int) -> int:
    """Copies the first documents, again from the beginning with a mark if there are too few."""
    characters = copied = turn = 0
    with gzip.open(target, "wt", compresslevel=1) as out:
        while copied < count:
            with gzip.open(source, "rt") as lines:
                for line in lines:
                    text = json.loads(line)["text"] + (f" ({turn})" if turn else "")
                    out.write(json.dumps({"text": text}) + "\n")
                    characters += len(text)
                    copied += 1
                    if copied == count:
                        break
            turn += 1
    return characters


def measure(name: str, text: Path, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, str(text), str(options.tokenizer), "--measure", name]
    command += ["--workers", str(options.workers)]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(options.workers), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line)["text"] for line in lines]


def ours(options: argparse.Namespace) -> dict[str, float]:
    from clozeworks.data.corpus.build import build_corpus
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(options.tokenizer)
    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        build_corpus([options.text], Path(place) / "corpus", tokenizer, workers=options.workers)
        return {"seconds": time.perf_counter() - begin, "memory": most_memory()}


def raw(options: argparse.Namespace) -> dict[str, float]:
    from tokenizers import Tokenizer

    with tempfile.TemporaryDirectory() as place:
        backend = Tokenizer.from_file(str(whole(options.tokenizer, Path(place))))
    texts = read(options.text)
    begin = time.perf_counter()
    for start in range(0, len(texts), 500):
        backend.encode_batch_fast(texts[start : start + 500], add_special_tokens=False)
    return {"seconds": time.perf_counter() - begin, "memory": most_memory()}


def peer(options: argparse.Namespace) -> dict[str, float]:
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as place:
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(whole(options.tokenizer, Path(place)))
        )
        table = datasets.load_dataset(
            "json", data_files=str(options.text), split="train", cache_dir=place
        )

        def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
            return {"input_ids": tokenizer(rows["text"], add_special_tokens=False)["input_ids"]}

        begin = time.perf_counter()
        table.map(encode, batched=True, num_proc=options.workers, remove_columns=["text"])
        return {"seconds": time.perf_counter() - begin, "memory": most_memory()}


def whole(folder: Path, place: Path) -> Path:
    """The tokenizer as one file, which the peers read."""
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    Tokenizer.load(folder).save(place)
    return place / "tokenizer.json"


def most_memory() -> float:
    """The most memory the main process and its largest child have held, in MB."""
    status = Path("/proc/self/status").read_text()
    own = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


MEASURES = {"ours": ours, "raw": raw, "datasets": peer}

if __name__ == "__main__":
    main()
