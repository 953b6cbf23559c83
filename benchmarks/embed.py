"""Embedding speed side by side with sentence-transformers, in one process.

1,024 texts whose lengths follow a lognormal law (mean about 31 tokens, up to 256), a BERT of 6
layers and width 384 (the shape of all-MiniLM-L6-v2), mean pooling, scaled to length 1. Both
libraries read the same folder and get the same list of texts; repetitions alternate; the machine's
matrix-product peak is measured between them. Peak memory is measured in a fresh process each.

    python benchmarks/embed.py [--quick] [--model FOLDER] [--repeats 7] [--threads 2]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from measuring import made_up_words, matmul_peak, most_memory

LAYERS, WIDTH, INNER = 6, 384, 1536


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="128 texts, 3 repetitions")
    parser.add_argument("--model", type=Path, help="a model folder; a fresh one if not given")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", choices=["ours", "peer"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    count, repeats = (128, 3) if options.quick else (1024, options.repeats)
    if options.memory_of:
        print(json.dumps(memory_of(options.memory_of, options.model, count, options.threads)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = options.model or make_model(Path(place) / "model")
        compare(folder, count, repeats, options)


def compare(folder: Path, count: int, repeats: int, options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(options.threads)
    ours, peer = our_encoder(folder), peer_encoder(folder)
    texts = make_texts(folder, count)
    work, tokens = operations(folder, texts)
    difference = np.abs(ours(texts[:64]) - peer(texts[:64])).max()
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    peaks = []
    for turn in range(repeats):
        order = [("ours", ours), ("peer", peer)]
        for name, encode in order if turn % 2 else reversed(order):
            peaks.append(matmul_peak())
            begin = time.perf_counter()
            encode(texts)
            times[name].append(time.perf_counter() - begin)
    speed = {name: count / statistics.median(values) for name, values in times.items()}
    pairs = [theirs / mine for mine, theirs in zip(times["ours"], times["peer"], strict=True)]
    peak = statistics.median(peaks)
    share = work / statistics.median(times["ours"]) / peak
    peer_share = work / statistics.median(times["peer"]) / peak
    memory = {name: peak_memory(name, folder, options) for name in times}
    print(f"{count:,} texts, {tokens:,} tokens, {options.threads} threads, {repeats} repetitions")
    print(f"largest difference between the vectors: {difference:.1e}")
    print(f"matmul peak: {peak / 1e9:.0f} Gflop/s")
    print(f"{'':24}{'clozeworks':>12}{'sentence-transformers':>24}")
    print(f"{'texts a second':24}{speed['ours']:12.1f}{speed['peer']:24.1f}")
    tokens_a_second = [tokens / statistics.median(times[name]) for name in ("ours", "peer")]
    print(f"{'tokens a second':24}{tokens_a_second[0]:12,.0f}{tokens_a_second[1]:24,.0f}")
    print(f"{'share of matmul peak':24}{share:12.0%}{peer_share:24.0%}")
    print(f"{'peak memory, MB':24}{memory['ours']['peak']:12.0f}{memory['peer']['peak']:24.0f}")
    above = [memory[name]["peak"] - memory[name]["loaded"] for name in ("ours", "peer")]
    print(f"{'  above loaded model':24}{above[0]:12.0f}{above[1]:24.0f}")
    print(
        f"ratio of medians {speed['ours'] / speed['peer']:.2f}, of single repetitions "
        f"{min(pairs):.2f} to {max(pairs):.2f}"
    )
    result = {
        "benchmark": "embed",
        "ratio": round(speed["ours"] / speed["peer"], 3),
        "ours": round(speed["ours"], 1),
        "peer": round(speed["peer"], 1),
        "unit": "texts/s",
        "peak_share": round(share, 3),
        "memory_ratio": round(memory["ours"]["peak"] / memory["peer"]["peak"], 3),
    }
    print(json.dumps(result))


def our_encoder(folder: Path):
    import clozeworks as cw

    model = cw.load(folder)
    return lambda texts: model.embed(texts, truncate=True)


def peer_encoder(folder: Path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, show_progress_bar=False)


def make_model(folder: Path) -> Path:
    """A folder with fresh weights and a made-up WordPiece vocabulary of 30,522 entries."""
    import clozeworks as cw

    place = folder.parent / "tokenizer"
    made_up_words(place)
    model = cw.new(
        "bert-base",
        place,
        heads=("pooler",),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=12,
        intermediate_size=INNER,
    )
    model.pooling = cw.Pooling(modes=("mean",), normalize=True, max_length=256)
    return model.save(folder)


def make_texts(folder: Path, count: int) -> list[str]:
    """Texts of whole vocabulary words, so that a word is a token."""
    import clozeworks as cw

    pieces = cw.Tokenizer.load(folder).vocabulary()
    words = [word for word in pieces if word.isascii() and word.isalpha()]
    random = np.random.default_rng(1)
    spread = 0.8
    lengths = random.lognormal(np.log(31) - spread**2 / 2, spread, count)
    sizes = np.clip(lengths.round(), 3, 256).astype(int) - 2  # two special tokens
    return [" ".join(random.choice(words, size)) for size in sizes]


def operations(folder: Path, texts: list[str]) -> tuple[float, int]:
    """Floating-point operations of the matrix products the texts need, and their tokens."""
    import clozeworks as cw

    lengths = [len(item) for item in cw.Tokenizer.load(folder).encode(texts)]
    per_token = 2 * LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)
    attention = sum(2 * 2 * LAYERS * length * length * WIDTH for length in lengths)
    return float(per_token * sum(lengths) + attention), sum(lengths)


def peak_memory(name: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--memory-of", name, "--model", str(folder)]
    command += ["--threads", str(options.threads)] + (["--quick"] if options.quick else [])
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def memory_of(name: str, folder: Path, count: int, threads: int) -> dict[str, float]:
    import torch

    torch.set_num_threads(threads)
    encode = (our_encoder if name == "ours" else peer_encoder)(folder)
    texts = make_texts(folder, count)
    loaded = most_memory()
    encode(texts)
    return {"loaded": loaded, "peak": most_memory()}


if __name__ == "__main__":
    main()
