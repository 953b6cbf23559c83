"""Duplicates and topics of planted vectors."""

from collections import Counter

import numpy as np
import pytest

from clozeworks.errors import InputError, SettingError
from clozeworks.search.documents import IndexedDocument, PassageSpan
from clozeworks.search.duplicates import duplicate_groups, natural
from clozeworks.search.store import DocumentStore
from clozeworks.search.topics import topics_of, typical_words
from clozeworks.search.writer import AddedCounts, writing

from .conftest import WIDTH

ROOT = 2**0.5 / 2


def built(folder, state, vectors, texts=None):
    """An index of documents with given vectors, in shards of three."""
    documents = [
        IndexedDocument(f"d{n}", f"text {n}" if texts is None else texts[n])
        for n in range(len(vectors))
    ]
    rows = {document.text: vector for document, vector in zip(documents, vectors, strict=True)}

    def embed(some):
        passages = [[PassageSpan(0, len(each.text))] for each in some]
        return passages, np.array([rows[each.text] for each in some], np.float32)

    with writing(folder, state) as index:
        for begin in range(0, len(documents), 3):
            index.add(documents[begin : begin + 3], embed, AddedCounts())
            index.flush()
    return DocumentStore(folder)


def unit(*places):
    vector = np.zeros(WIDTH)
    for place, value in places:
        vector[place] = value
    return vector / np.linalg.norm(vector)


def test_groups_are_those_of_all_pairs(fresh_state):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(9, WIDTH))
    vectors = centres[rng.integers(9, size=40)] + 0.15 * rng.normal(size=(40, WIDTH))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store = built(*fresh_state(), vectors)
    found = {frozenset(each.id for each in group) for group in duplicate_groups(store, 0.93)}
    near = vectors @ vectors.T >= 0.93
    reached = np.linalg.matrix_power(near.astype(float), 40) > 0
    expected = {frozenset(f"d{n}" for n in np.flatnonzero(row)) for row in reached}
    assert found == {group for group in expected if len(group) > 1}
    assert found


def test_what_a_group_says(fresh_state):
    vectors = [unit((0, 1)), unit((1, 1)), unit((0, 1), (2, 0.1)), unit((1, 1)), unit((3, 1))]
    texts = ["one", "same", "other", "same", "alone"]
    store = built(*fresh_state(), vectors, texts)
    first, second = duplicate_groups(store, 0.9)
    assert [(each.id, each.exact) for each in first] == [("d0", True), ("d2", False)]
    assert first[1].similarity == pytest.approx(1 / 1.01**0.5)
    assert [(each.id, each.exact) for each in second] == [("d1", True), ("d3", True)]
    assert duplicate_groups(store, 0.999) == [second]


def test_chains_are_one_group(fresh_state):
    angles = np.arange(5) * 0.3
    vectors = [unit((0, np.cos(angle)), (1, np.sin(angle))) for angle in angles]
    (group,) = duplicate_groups(built(*fresh_state(), vectors), 0.95)
    assert [each.id for each in group] == [f"d{n}" for n in range(5)]
    assert group[4].similarity == pytest.approx(np.cos(1.2))


def test_ids_are_sorted_as_people_do():
    assert sorted(["a10", "a9", "b1", "a09", "a"], key=natural) == ["a", "a09", "a9", "a10", "b1"]


def test_planted_topics_are_found(fresh_state):
    rng = np.random.default_rng(0)
    words = ["cat dog pet", "stock market bank", "goal match team", "北京 上海 城市"]
    vectors, texts = [], []
    for number in range(60):
        vector = np.zeros(WIDTH)
        vector[number % 4] = 1
        vectors.append(vector + 0.1 * rng.normal(size=WIDTH))
        texts.append(f"the {words[number % 4]} of the text {number}")
    store = built(*fresh_state(), vectors, texts)
    topics = topics_of(store)
    assert [topic.size for topic in topics] == [15] * 4
    assert [set(topic.words) for topic in topics] == [set(each.split()) for each in words]
    assert topics[1].ids == [f"d{n}" for n in range(1, 60, 4)]
    assert len(topics[0].examples) == 3 and set(dict(topics[0].examples)) <= set(topics[0].ids)
    assert topics_of(store, seed=0) == topics
    assert len(topics_of(store, 2)) == 2
    with pytest.raises(SettingError, match="count is 61; there are 60 documents; choose from 1"):
        topics_of(store, 61)


def test_topics_need_documents(fresh_state):
    store = built(*fresh_state(), [unit((0, 1))])
    with pytest.raises(InputError, match="holds 1 documents; topics need at least 3; add some"):
        topics_of(store)


def test_words_that_are_everywhere_are_not_typical():
    counts = [Counter(the=50, cat=4, of=9), Counter(the=50, bank=5, of=8), Counter(the=55, sea=2)]
    assert typical_words(counts, 2) == [["cat"], ["bank"], ["sea"]]
    by_hand = Counter(a=3, b=1, c=1)
    others = [Counter(d=10), Counter(e=10), Counter(f=10)]
    assert typical_words([by_hand, *others], 2)[0] == ["a", "b"]  # of equal weight: by name
