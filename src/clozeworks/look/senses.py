"""Senses of a word: which is the nearest to a vector, and how often that is right.

Paper: Loureiro et al. 2021 (CoarseWSD-20).
The idea: a sense is the mean of the vectors of its examples; the nearest by cosine is the answer.
Beside it stands the most frequent sense, and the mean over senses: a rare sense counts there as
much as a frequent one.

Shapes: n vectors, W width, S senses.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.inference.space.measures import unit_vectors
from clozeworks.look.pieces import rounded


@dataclass(frozen=True)
class KnownSenses:
    """How well senses are told apart by the nearest centroid."""

    right: float
    """The fraction that is right,"""
    macro: float
    """and the mean of that over senses."""
    most_frequent: float
    """The fraction that has the most frequent sense: what guessing is worth."""
    per_sense: tuple[tuple[str, float, int], ...]
    """Each sense, the fraction of its occurrences that is right, and how many there are."""

    def notes(self) -> list[str]:
        """What they say, in a sentence."""
        return [
            f"The nearest centroid is right for {self.right:.1%}, the mean over senses is "
            f"{self.macro:.1%}; the most frequent sense alone would be {self.most_frequent:.1%}."
        ]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "right": rounded(self.right),
            "macro": rounded(self.macro),
            "most_frequent": rounded(self.most_frequent),
            "per_sense": [[name, rounded(value), count] for name, value, count in self.per_sense],
        }


def centroids(
    vectors: Float32Array | Float64Array, labels: Sequence[str]
) -> tuple[list[str], Float64Array]:
    """The senses in the order of their names, and the mean vector of each, (S, W)."""
    senses = sorted(set(labels))
    exact, own = vectors.astype(np.float64), np.array(labels)
    return senses, np.array([exact[own == sense].mean(axis=0) for sense in senses])


def nearest_senses(
    vectors: Float32Array | Float64Array, senses: Sequence[str], means: Float64Array
) -> list[str]:
    """The sense whose mean is nearest to each vector, by cosine."""
    cosines = unit_vectors(vectors.astype(np.float64)) @ unit_vectors(means).T
    return [senses[each] for each in cosines.argmax(axis=1)]


def measured_senses(
    right: Sequence[str], predicted: Sequence[str], most_frequent: str
) -> KnownSenses:
    """How often predictions are right; the most frequent sense is that of other data."""
    counts = Counter(right)
    hits = Counter(one for one, other in zip(right, predicted, strict=True) if one == other)
    per_sense = tuple((each, hits[each] / counts[each], counts[each]) for each in sorted(counts))
    return KnownSenses(
        right=sum(hits.values()) / len(right),
        macro=sum(value for _, value, _ in per_sense) / len(per_sense),
        most_frequent=counts[most_frequent] / len(right),
        per_sense=per_sense,
    )


def known_senses(vectors: Float64Array, labels: Sequence[str | None]) -> KnownSenses | None:
    """Each occurrence by the centroids of all others; None without two senses of two each."""
    known = [n for n, label in enumerate(labels) if label is not None]
    own = [str(labels[n]) for n in known]
    counts = Counter(own)
    if len(counts) < 2 or min(counts.values()) < 2:
        return None
    chosen = vectors[known]
    senses, means = centroids(chosen, own)
    predicted = []
    for vector, label in zip(chosen, own, strict=True):
        at, size = senses.index(label), counts[label]
        without = means.copy()  # it is not told its own sense by itself
        without[at] = (means[at] * size - vector) / (size - 1)
        predicted += nearest_senses(vector[None], senses, without)
    return measured_senses(own, predicted, counts.most_common(1)[0][0])
