"""Search side by side with `sentence_transformers.util.semantic_search`, in one process.

100,000 random unit vectors of width 384, the 10 nearest of 1, 16 and 256 queries. Ours are mapped
from an index on disk; the peer has all of them as a tensor in memory. By default it scales both
sides to length 1 at each call (`cos_sim`); told that they have it (`dot_score`), it does not: both
are shown, by the clock and in CPU time, which other programs disturb less. Repetitions alternate.
Then the memory that searching 10 times as many vectors takes, and the rate at which an index is
built, beside that of `embed` alone.

The last line is the number of queries with the lowest ratio of CPU times to `cos_sim`;
`memory_ratio` is the memory of a program that searches 10 times as many vectors, without what is
mapped, by that of one that searches them.

    python benchmarks/search.py [--quick] [--model FOLDER] [--repeats 7] [--threads 2]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from embed import make_model, make_texts

WIDTH, TOP = 384, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20,000 vectors, 3 repetitions")
    parser.add_argument("--model", type=Path, help="a model folder; a fresh one if not given")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    if options.memory_of:
        print(json.dumps(memory_of(options.memory_of)))
        return
    count, repeats = (20_000, 3) if options.quick else (100_000, options.repeats)
    with tempfile.TemporaryDirectory() as place:
        lowest = compare(Path(place), count, repeats)
        grown = memory(Path(place), count, options)
        building(Path(place), 256 if options.quick else 2048, repeats, options)
    numbers = {name: round(value, 3) for name, value in {**lowest, "memory_ratio": grown}.items()}
    print(json.dumps({"benchmark": "search", **numbers, "unit": "ms of CPU time"}))


def random_index(folder: Path, count: int) -> Path:
    """An index of random vectors; only the texts are short."""
    from clozeworks.search.documents import IndexedDocument, PassageSpan
    from clozeworks.search.state import IndexState, ModelNote, write_state
    from clozeworks.search.writer import AddedCounts, writing

    rng = np.random.default_rng(0)
    folder.mkdir()
    state = IndexState(ModelNote("", "", "", None, "", "", ()), WIDTH, "cosine", 256)
    write_state(folder, state)

    def embed(
        documents: list[IndexedDocument],
    ) -> tuple[list[list[PassageSpan]], np.ndarray]:
        vectors = rng.normal(size=(len(documents), WIDTH)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return [[PassageSpan(0, len(each.text))] for each in documents], vectors

    documents = (IndexedDocument(f"{n:07}", f"text {n}") for n in range(count))
    with writing(folder, state) as index:
        index.add(documents, embed, AddedCounts())
        index.finish()
    return folder


def compare(place: Path, count: int, repeats: int) -> dict[str, float]:
    """Prints the comparison; the times of the number of queries with the lowest ratio."""
    import torch
    from sentence_transformers.util import dot_score, semantic_search

    from clozeworks.search.store import DocumentStore

    store = DocumentStore(random_index(place / "index", count))
    vectors = torch.from_numpy(np.concatenate([each for _, each, _ in store.blocks()]))
    rng = np.random.default_rng(1)
    print(f"{count:,} vectors of width {WIDTH}, top {TOP}, {repeats} repetitions; milliseconds")
    print(
        f"{'queries':>8}{'time':>6}{'clozeworks':>12}{'cos_sim':>10}{'dot_score':>11}{'ratios':>16}"
    )
    worst: dict[str, float] = {}
    for asked in (1, 16, 256):
        queries = rng.normal(size=(asked, WIDTH)).astype(np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        tensor = torch.from_numpy(queries)
        sides = {
            "ours": lambda queries=queries: store.by_vectors(queries, TOP),
            "cos": lambda tensor=tensor: semantic_search(tensor, vectors, top_k=TOP),
            "dot": lambda tensor=tensor: semantic_search(
                tensor, vectors, top_k=TOP, score_function=dot_score
            ),
        }
        found = [[each.document for each in one] for one in sides["ours"]()]
        theirs = [[each["corpus_id"] for each in one] for one in sides["cos"]()]
        agree = np.mean([set(a) == set(b) for a, b in zip(found, theirs, strict=True)])
        for kind, times in measured(sides, repeats).items():
            ours, cos, dot = (statistics.median(times[name]) for name in ("ours", "cos", "dot"))
            print(
                f"{asked:8}{kind:>6}{ours:12.1f}{cos:10.1f}{dot:11.1f}{cos / ours:8.1f}"
                f"{dot / ours:8.1f}   (same results: {agree:.0%})"
            )
        if not worst or cos / ours < worst["ratio"]:
            worst = {"ratio": cos / ours, "ours": ours, "peer": cos}
    return worst


def measured(
    sides: dict[str, Callable[[], object]], repeats: int
) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each side, by the clock and of the processor; who begins alternates."""
    times: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in sides} for kind in ("clock", "cpu")
    }
    for turn in range(repeats):
        for name in list(sides) if turn % 2 else list(reversed(sides)):
            clock, cpu = time.perf_counter(), time.process_time()
            sides[name]()
            times["clock"][name].append(1000 * (time.perf_counter() - clock))
            times["cpu"][name].append(1000 * (time.process_time() - cpu))
    return times


def memory(place: Path, count: int, options: argparse.Namespace) -> float:
    """Prints the memory of two indexes; that of the large one by that of the small one."""
    own = []
    random_index(place / "large", 10 * count)
    for name, size in (("index", count), ("large", 10 * count)):
        command = [sys.executable, __file__, "--memory-of", str(place / name)]
        command += ["--threads", str(options.threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        own.append(found["before"] + found["own"])
        print(
            f"searching {size:,} vectors: {found['own']:.0f} MB of its own above the "
            f"{found['before']:.0f} MB of an open program; {found['mapped']:.0f} MB mapped"
        )
    return own[1] / own[0]


def memory_of(folder: Path) -> dict[str, float]:
    from clozeworks.search.store import DocumentStore

    def held(name: str) -> float:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) / 1024

    before, most = held("RssAnon"), 0.0
    store = DocumentStore(folder)
    queries = np.random.default_rng(1).normal(size=(16, WIDTH)).astype(np.float32)
    for _ in range(3):
        store.by_vectors(queries, TOP)
        most = max(most, held("RssAnon"))
    return {"before": before, "own": most - before, "mapped": held("RssFile")}


def building(place: Path, count: int, repeats: int, options: argparse.Namespace) -> None:
    import clozeworks as cw

    folder = options.model or make_model(place / "model")
    model = cw.load(folder)
    texts = make_texts(folder, count)
    times: dict[str, list[float]] = {"index": [], "embed": []}
    for turn in range(repeats):
        for name in ("index", "embed") if turn % 2 else ("embed", "index"):
            begin = time.perf_counter()
            if name == "embed":
                model.embed(texts, truncate=True)
            else:
                cw.Index.build(texts, model, place / "built", overwrite=True)
            times[name].append(time.perf_counter() - begin)
    rates = {name: count / statistics.median(values) for name, values in times.items()}
    print(
        f"building: {rates['index']:,.0f} texts a second, embed alone {rates['embed']:,.0f}; "
        f"ratio {rates['index'] / rates['embed']:.2f}"
    )


if __name__ == "__main__":
    main()
