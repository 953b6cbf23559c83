"""Speed of arranging a corpus, side by side with the published pair loop in plain Python.

A synthetic split of 26 million tokens, 1.2 million sentences and 40,000 documents in memory. Pairs
of 128 tokens are made of it by the toolkit and, of its first documents, by the loop of BERT's data
script: one sentence at a time, one token at a time where texts are cut. Both run on one core;
repetitions alternate. Then every arrangement's index is built and batches of 32 examples are taken
in random order.

    python benchmarks/arrangements.py [--quick] [--documents 40000] [--repeats 5]
"""

import argparse
import json
import random
import statistics
import tempfile
import time
import timeit
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from clozeworks.data.corpus.corpus import Split
from clozeworks.data.corpus.shards import Shard, ShardEntry
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.blocks import Blocks
from clozeworks.data.examples.pairs import NextSentencePairs, SentenceOrderPairs
from clozeworks.data.examples.single_sequences import SingleSequences
from clozeworks.data.examples.views import Neighbours, Twice
from clozeworks.data.examples.whole_sentences import DocSentences, FullSentences
from clozeworks.text.tokenizer.tokenizer import Tokenizer

LENGTH, BATCH = 128, 32
SENTENCES_PER_DOCUMENT, TOKENS_PER_SENTENCE = 30, 21.7
PEER_DOCUMENTS = 1000
SPECS: list[ExamplesSpec] = [
    Blocks(length=LENGTH),
    FullSentences(length=LENGTH),
    DocSentences(length=LENGTH),
    SingleSequences(length=LENGTH),
    NextSentencePairs(length=LENGTH),
    SentenceOrderPairs(length=LENGTH),
    Twice(length=LENGTH),
    Neighbours(length=LENGTH),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of it, 2 repetitions")
    parser.add_argument("--documents", type=int, default=40_000)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    count, repeats = (4000, 2) if options.quick else (options.documents, options.repeats)
    split, tokenizer = make_split(count, options.shards), make_tokenizer()
    print(f"{split.tokens:,} tokens, {split.sentences:,} sentences, {split.documents:,} documents")
    documents = first_documents(split, min(PEER_DOCUMENTS, count))
    share = sum(len(sentence) for document in documents for sentence in document) / split.tokens
    spec = NextSentencePairs(length=LENGTH)
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(repeats):
        times["ours"].append(clock(lambda: spec.arrange(split, tokenizer, 0).size(0)))
        times["peer"].append(
            clock(lambda: sum(1 for _ in published(documents, LENGTH - 3))) / share
        )
    ours, peer = (statistics.median(times[name]) for name in ("ours", "peer"))
    print(f"pairs of one copy: {ours:.2f} s; the published loop {peer:.1f} s (from {share:.1%})")
    for each in SPECS:
        print(measured(each, split, tokenizer))
    result = {
        "benchmark": "arrangements",
        "ratio": round(peer / ours, 1),
        "ours": round(split.tokens / ours),
        "peer": round(split.tokens / peer),
        "unit": "tokens/s",
    }
    print(json.dumps(result))


def measured(spec: ExamplesSpec, split: Split, tokenizer: Tokenizer) -> str:
    seconds = clock(lambda: spec.arrange(split, tokenizer, 0).size(0))
    tracemalloc.start()
    arrangement = spec.arrange(split, tokenizer, 0)
    size = arrangement.size(0)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    batches = iter(np.random.default_rng(0).integers(0, size, (4000, BATCH)))
    arrangement.take(0, next(batches))
    take = (
        min(timeit.repeat(lambda: arrangement.take(0, next(batches)), number=500, repeat=5)) / 500
    )
    return (
        f"{type(spec).__name__:20}{size:11,} examples; index {seconds:5.2f} s, {held / size:5.1f} "
        f"bytes an example, peak {peak / 1e6:3.0f} MB; {BATCH} examples in {take * 1e3:.3f} ms"
    )


def clock(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def published(documents: list[list[list[int]]], room: int) -> Iterator[tuple[Any, Any, bool]]:
    """BERT's loop: sentences up to a target, split at random, the second half or another text."""
    rng = random.Random(0)
    for number, document in enumerate(documents):
        target = rng.randint(2, room) if rng.random() < 0.1 else room
        chunk: list[list[int]] = []
        length = i = 0
        while i < len(document):
            chunk.append(document[i])
            length += len(document[i])
            if i == len(document) - 1 or length >= target:
                end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
                first = [token for sentence in chunk[:end] for token in sentence]
                second: list[int] = []
                chosen = len(chunk) == 1 or rng.random() < 0.5
                if chosen:
                    for _ in range(10):
                        other = rng.randint(0, len(documents) - 1)
                        if other != number:
                            break
                    for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
                        second.extend(sentence)
                        if len(second) >= target - len(first):
                            break
                    i -= len(chunk) - end
                else:
                    second = [token for sentence in chunk[end:] for token in sentence]
                while len(first) + len(second) > room:
                    longer = first if len(first) > len(second) else second
                    if rng.random() < 0.5:
                        del longer[0]
                    else:
                        longer.pop()
                yield first, second, chosen
                chunk, length = [], 0
            i += 1


def make_split(documents: int, shards: int) -> Split:
    rng = np.random.default_rng(0)
    made = []
    for count in np.diff(np.linspace(0, documents, shards + 1).astype(int)):
        sentences = int(count) * SENTENCES_PER_DOCUMENT
        ends = np.cumsum(rng.geometric(1 / TOKENS_PER_SENTENCE, sentences))
        cuts = np.sort(rng.choice(np.arange(1, sentences), count - 1, replace=False))
        tokens = int(ends[-1])
        shard = Shard(Path(), ShardEntry("", "", 0, tokens, sentences, int(count)))
        shard.__dict__["arrays"] = {
            "tokens": rng.integers(5, 30_000, tokens).astype(np.uint16),
            "word_starts": rng.random(tokens) < 0.8,
            "sentences": np.concatenate([[0], ends]).astype(np.uint32),
            "documents": np.concatenate([[0], cuts, [sentences]]).astype(np.uint32),
        }
        made.append(shard)
    return Split("train", made, 30_000, "synthetic")


def first_documents(split: Split, count: int) -> list[list[list[int]]]:
    """Documents as lists of sentences of tokens, as the loop wants them."""
    bounds = split.sentence_offsets.tolist()
    offsets = split.document_offsets.tolist()
    tokens = split.read(0, bounds[offsets[count]])[0].tolist()
    return [
        [tokens[bounds[i] : bounds[i + 1]] for i in range(offsets[number], offsets[number + 1])]
        for number in range(count)
    ]


def make_tokenizer() -> Tokenizer:
    with tempfile.TemporaryDirectory() as place:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
        (Path(place) / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        return Tokenizer.load(place)


if __name__ == "__main__":
    main()
