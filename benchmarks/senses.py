"""Senses of words by the nearest centroid: CoarseWSD-20, with a checkpoint's own vectors.

    python benchmarks/senses.py MODEL [--data ../shared/data/sense/coarsewsd20]

Paper: Loureiro et al. 2021. Twenty English nouns; the sense of each place in the test set is that
of the nearest mean vector of the training set, by the sum of the last four layers. Printed are the
fraction that is right over all places (micro) and over words (macro), the mean over senses, and
what the most frequent sense of the training set would get. These are accuracies, not timings.
"""

import argparse
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import clozeworks as cw
from clozeworks.look.contexts import LAST_FOUR, WordSpan, span_vectors
from clozeworks.look.senses import KnownSenses, centroids, measured_senses, nearest_senses

DATA = Path(__file__).resolve().parents[2] / "shared/data/sense/coarsewsd20"
ROWS = 2_000


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each word."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            rows[row["word"]].append(row)
    return rows


def vectors_of(model: cw.LanguageModel, rows: Sequence[dict[str, Any]], layer: str) -> Any:
    """The vector of the word of each row."""
    texts = [" ".join(row["words"]) for row in rows]
    spans = []
    for number, row in enumerate(rows):
        begin = len(" ".join([*row["words"][: row["at"]], ""]))
        spans.append(WordSpan(number, begin, begin + len(row["words"][row["at"]])))
    parts = []
    for first in range(0, len(rows), ROWS):
        some = [WordSpan(s.text - first, s.begin, s.end) for s in spans[first : first + ROWS]]
        found, there = span_vectors(
            model.model, model.tokenizer, texts[first : first + ROWS], some, [layer],
            max_length=model.max_length,
        )  # fmt: skip
        assert len(there) == len(some), "a word without a piece"
        parts.append(found[layer])
    return np.concatenate(parts)


def measured(
    model: cw.LanguageModel, train: Sequence[Any], test: Sequence[Any], layer: str
) -> KnownSenses:
    """How well the senses of one word are told apart."""
    labels = [row["sense"] for row in train]
    senses, means = centroids(vectors_of(model, train, layer), labels)
    predicted = nearest_senses(vectors_of(model, test, layer), senses, means)
    most_frequent = Counter(labels).most_common(1)[0][0]
    return measured_senses([row["sense"] for row in test], predicted, most_frequent)


def main() -> None:
    """Measures a model on all words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--layer", default=LAST_FOUR)
    parser.add_argument("--words", nargs="*")
    arguments = parser.parse_args()
    model = cw.load(arguments.model)
    train, test = (read(arguments.data / f"{part}.jsonl.gz") for part in ("train", "test"))
    found = {}
    for word in arguments.words or sorted(test):
        result = found[word] = measured(model, train[word], test[word], arguments.layer)
        senses = ", ".join(f"{name} {value:.1%} of {n}" for name, value, n in result.per_sense)
        print(
            f"{word:<11}{result.right:7.1%}  macro {result.macro:6.1%}  "
            f"most frequent {result.most_frequent:6.1%}  {senses}",
            flush=True,
        )
    counts = {word: sum(n for _, _, n in each.per_sense) for word, each in found.items()}
    total = sum(counts.values())
    record = {
        "benchmark": "senses",
        "layer": arguments.layer,
        "micro": sum(found[word].right * counts[word] for word in found) / total,
        "macro_words": float(np.mean([each.right for each in found.values()])),
        "macro_senses": float(np.mean([each.macro for each in found.values()])),
        "most_frequent": sum(found[word].most_frequent * counts[word] for word in found) / total,
        "places": total,
    }
    print(
        json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in record.items()})
    )


if __name__ == "__main__":
    main()
