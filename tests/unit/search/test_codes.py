"""Codes find nearly what vectors find, on vectors with outlier dimensions."""

import numpy as np
import pytest
import torch

from clozeworks.errors import UnknownName
from clozeworks.search.codes import Binary, Int8, coding_class

WIDTH = 192


@pytest.fixture(scope="module")
def vectors():
    """Unit vectors; some dimensions are much larger than others, and far from zero."""
    rng = np.random.default_rng(0)
    scale = np.where(np.arange(WIDTH) % 20 == 0, 4.0, 1.0)
    centre = 2.5 * scale
    topics = rng.normal(size=(300, WIDTH))
    found = topics[rng.integers(300, size=3000)] + 0.5 * rng.normal(size=(3000, WIDTH))
    found = found * scale + centre
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def top(scores, k):
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def recall(scores, vectors, k=10):
    exact = top(vectors[:100] @ vectors.T, k)
    found = top(scores, k)
    return np.mean([len({*a} & {*b}) / k for a, b in zip(exact, found, strict=True)])


def rescored(scores, vectors, many, k=10):
    candidates = top(scores, many)
    exact = np.full(scores.shape, -np.inf)
    products = vectors[:100] @ vectors.T
    np.put_along_axis(exact, candidates, np.take_along_axis(products, candidates, 1), 1)
    return recall(exact, vectors, k)


def test_the_steps_must_be_folded_into_the_query(vectors):
    coding = Int8.fit(vectors)
    codes = coding.encode(vectors)
    folded = coding.scores(torch.from_numpy(vectors[:100]), codes).numpy()
    assert recall(folded, vectors) > 0.95
    plain = codes[:100].astype(np.float64) @ codes.T.astype(np.float64)
    assert recall(plain, vectors) < 0.5  # the usual mistake
    assert rescored(folded, vectors, 10 * Int8.oversampling) == 1.0


def test_decoded_vectors_are_half_a_step_away_at_most(vectors):
    coding = Int8.fit(vectors)
    wrong = np.abs(coding.decode(coding.encode(vectors)) - vectors)
    assert (wrong <= 0.501 * coding.step + 1e-5).all()
    folded = coding.scores(torch.from_numpy(vectors[:3]), coding.encode(vectors)).numpy()
    expected = vectors[:3] @ coding.decode(coding.encode(vectors)).T
    np.testing.assert_allclose(folded, expected, atol=1e-5)


def test_bits_round_trip_and_are_counted(vectors):
    coding = Binary.fit(vectors)
    codes = coding.encode(vectors[:50])
    bits = vectors[:50] > vectors.mean(axis=0)
    assert (coding.bits(codes) == bits).all()
    different = (bits[:5, None] != bits[None]).sum(axis=2)
    assert (coding.scores(torch.from_numpy(vectors[:5]), codes).numpy() == -different).all()
    narrow = Binary.fit(vectors[:, :13])
    assert narrow.encode(vectors[:2, :13]).shape == (2, 2)
    assert (narrow.bits(narrow.encode(vectors[:9, :13])) == bits[:9, :13]).all()


def test_bits_alone_are_poor_and_good_with_rescoring(vectors):
    coding = Binary.fit(vectors)
    by_bits = coding.scores(torch.from_numpy(vectors[:100]), coding.encode(vectors)).numpy()
    assert recall(by_bits, vectors) < rescored(by_bits, vectors, 10 * Binary.oversampling)
    assert rescored(by_bits, vectors, 10 * Binary.oversampling) > 0.93
    uncentred = np.packbits(vectors > 0, axis=1)
    other = Binary(np.zeros(WIDTH, np.float32))
    poor = other.scores(torch.from_numpy(vectors[:100]), uncentred).numpy()
    assert recall(poor, vectors) < 0.5 < recall(by_bits, vectors)


def test_there_are_two_kinds():
    with pytest.raises(UnknownName, match="codes is 'int4'; known: binary, int8"):
        coding_class("int4")
