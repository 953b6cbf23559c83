"""BM25 by hand, terms of both languages, and rankings that become one."""

import math

import numpy as np
import pytest

from clozeworks.search.bm25 import Postings, bm25
from clozeworks.search.fusion import fuse
from clozeworks.search.terms import terms_of

TEXTS = ["the cat sat", "the dog", "a cat and a cat", "birds fly", "The CAT naps on the mat"]


def scores_of(query, texts, alive=None, cut=2):
    """The scores of all documents, cut into two shards."""
    parts = [texts[:cut], texts[cut:]]
    mask = np.ones(len(texts), np.bool_) if alive is None else np.array(alive)
    positions, scores = bm25(query, [*map(Postings.of, parts)], [mask[:cut], mask[cut:]])
    return dict(zip(positions.tolist(), scores.tolist(), strict=True))


def by_hand(tf, df, length, count, mean):
    idf = math.log(1 + (count - df + 0.5) / (df + 0.5))
    return idf * tf / (tf + 0.9 * (1 - 0.4 + 0.4 * length / mean))


def test_five_documents_by_hand():
    mean = (3 + 2 + 5 + 2 + 6) / 5
    found = scores_of("cat", TEXTS)
    assert found == pytest.approx(
        {
            0: by_hand(1, 3, 3, 5, mean),
            2: by_hand(2, 3, 5, 5, mean),
            4: by_hand(1, 3, 6, 5, mean),
        }
    )
    both = scores_of("the cat", TEXTS)
    assert both[4] == pytest.approx(by_hand(1, 3, 6, 5, mean) + by_hand(2, 3, 6, 5, mean))
    assert scores_of("cat cat", TEXTS)[0] == pytest.approx(2 * found[0])
    assert scores_of("elephant", TEXTS) == {}


def test_what_is_removed_does_not_count():
    alive = [True, True, False, True, True]
    left = [text for text, counts in zip(TEXTS, alive, strict=True) if counts]
    found, expected = scores_of("the cat", TEXTS, alive), scores_of("the cat", left)
    assert list(found.values()) == pytest.approx(list(expected.values()))
    assert 2 not in found


def test_shards_do_not_matter():
    assert scores_of("the cat", TEXTS, cut=1) == pytest.approx(scores_of("the cat", TEXTS, cut=5))


def test_terms_of_english_and_chinese():
    assert terms_of("State-of-the-art: Don't_stop 3.5 ÉTÉ") == [
        *("state", "of", "the", "art", "don", "t", "stop", "3", "5", "été"),
    ]
    assert terms_of("我爱北京 x2") == ["我", "爱", "北", "京", "我爱", "爱北", "北京", "x2"]
    assert terms_of("한국어 사용") == ["한국어", "사용"]
    assert terms_of("…!") == []


def test_fusion_by_hand():
    found = fuse([["a", "b", "c"], ["c", "d"]])
    assert found == pytest.approx({"a": 1 / 61, "b": 1 / 62, "c": 1 / 63 + 1 / 61, "d": 1 / 62})


def test_empty_texts_have_no_postings():
    postings = Postings.of(["", "!"])
    assert len(postings.terms) == 0 and postings.fault() is None
    assert Postings.of([]).fault() is None
