"""Topics: clusters of documents with nearly the same meaning, and the words typical of each.

Clusters are those of k-means on unit vectors, where Euclidean distance sorts as the cosine does.
Their number, if it is not given, is the one with the best silhouette, from 2 to the root of half
the documents: beyond that silhouettes of texts rise until every topic is a pair.

Words are chosen by class-based TF-IDF (Grootendorst 2022): how often a word is in a topic, as a
fraction of its words, times ln(1 + A / f), with A words in a topic on average and f the times the
word is in all. Where the code differs: a word must be at least three times as frequent in the topic
as in the others. That leaves out the words that are everywhere, without a list of them.
"""

from collections import Counter
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from sklearn.cluster import KMeans  # type: ignore[import-untyped]
from sklearn.metrics import silhouette_score  # type: ignore[import-untyped]

from clozeworks.arrays import Float32Array, Int64Array
from clozeworks.errors import InputError, SettingError
from clozeworks.search.duplicates import document_vectors, natural
from clozeworks.search.store import DocumentStore
from clozeworks.search.terms import terms_of
from clozeworks.text.characters import is_chinese

# Numbers of topics that are tried, on at most so many documents.
CANDIDATES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)
SAMPLE = 2_000
_STARTS = 4
_LIFT = 3.0


@dataclass(frozen=True)
class TextTopic:
    """Documents that belong together."""

    size: int
    """How many there are."""
    words: list[str]
    """The most typical first."""
    examples: list[tuple[str, str]]
    """Ids and texts of the documents nearest to the middle."""
    ids: list[str]
    """All of them."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        examples = [{"id": name, "text": text} for name, text in self.examples]
        return {"size": self.size, "words": self.words, "examples": examples, "ids": self.ids}


def topics_of(
    store: DocumentStore,
    count: int | None = None,
    *,
    words: int = 8,
    examples: int = 3,
    seed: int = 0,
) -> list[TextTopic]:
    """The topics of an index, the largest first.

    Args:
        store: The documents.
        count: How many topics; chosen by the silhouette if None.
        words: How many words of each.
        examples: How many texts of each.
        seed: Decides where k-means begins.

    Raises:
        InputError: If there are too few documents.
        SettingError: If there would be more topics than documents.
    """
    parts = list(document_vectors(store))
    positions = np.concatenate([numbers for numbers, _ in parts]) if parts else np.zeros(0)
    if len(positions) < 3:
        raise InputError(
            f"{store.folder} holds {len(positions)} documents; topics need at least 3; add some."
        )
    if count is not None and not 1 <= count <= len(positions):
        rule = f"there are {len(positions):,} documents"
        raise SettingError("count", count, rule, "choose from 1 to as many as there are")
    # In the order of ids, so that the same documents give the same topics wherever they lie.
    names = [store.document_id(int(position)) for position in positions]
    order = sorted(range(len(names)), key=lambda number: natural(names[number]))
    vectors = np.concatenate([each for _, each in parts])[order]
    chosen = count or _best_count(vectors, seed)
    fitted = KMeans(chosen, n_init=_STARTS, random_state=seed).fit(vectors)
    labels: Int64Array = fitted.labels_
    documents = [store.document(int(positions[number])) for number in order]
    counts: list[Counter[str]] = [Counter() for _ in range(chosen)]
    for label, document in zip(labels.tolist(), documents, strict=True):
        counts[label].update(filter(_is_word, terms_of(document.text)))
    typical = typical_words(counts, words)
    topics = []
    for label in range(chosen):
        members = np.flatnonzero(labels == label)
        if not len(members):
            continue
        nearness = vectors[members] @ fitted.cluster_centers_[label]
        middle = members[np.argsort(-nearness, kind="stable")][:examples]
        topics.append(
            TextTopic(
                len(members),
                typical[label],
                [(documents[each].id, documents[each].text) for each in middle.tolist()],
                [documents[each].id for each in members.tolist()],
            )
        )
    return sorted(topics, key=lambda topic: (-topic.size, natural(topic.ids[0])))


def _best_count(vectors: Float32Array, seed: int) -> int:
    """The number of clusters with the best silhouette on a sample."""
    step = max(1, len(vectors) // SAMPLE)
    sample = vectors[::step][:SAMPLE]
    best, chosen = -2.0, 1
    for count in CANDIDATES:
        if count > max(2, (len(vectors) / 2) ** 0.5):
            break
        labels = KMeans(count, n_init=1, random_state=seed).fit_predict(sample)
        if len(np.unique(labels)) < 2:
            break
        if (value := float(silhouette_score(sample, labels))) > best:
            best, chosen = value, count
    return chosen


def typical_words(counts: list[Counter[str]], most: int) -> list[list[str]]:
    """The words typical of each of some texts, given how often each has every word."""
    overall: Counter[str] = Counter()
    for each in counts:
        overall.update(each)
    total = overall.total()
    mean = total / max(1, len(counts))
    typical = []
    for each in counts:
        size = max(1, each.total())
        weights = {
            word: times / size * log(1 + mean / overall[word])
            for word, times in each.items()
            if times / size >= _LIFT * (overall[word] - times) / max(1, total - size)
        }
        best = sorted(weights, key=lambda word: (-weights[word], word))
        typical.append(best[:most])
    return typical


def _is_word(term: str) -> bool:
    """Whether a term says something by itself: no number, no single letter or character."""
    return len(term) > 1 and not term.isdecimal() and (len(term) == 2 or not is_chinese(term))
