"""Exact search equals sorting everything, ties included."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.errors import InputError
from clozeworks.search import top_k as search
from clozeworks.search.top_k import ScoredBlock, VectorBlock, longest, top_k


def brute(queries, vectors, k, kept, keys):
    found = []
    for query in queries:
        scores = vectors @ query
        order = sorted(np.flatnonzero(kept), key=lambda n: (-scores[n], keys[n]))[:k]
        found.append([int(number) for number in order])
    return found


def searched(queries, vectors, k, sizes, kept, keys):
    def blocks():
        begin = 0
        for size in sizes:
            rows = slice(begin, begin + size)
            yield VectorBlock(begin, vectors[rows], longest(vectors[rows]), kept[rows])
            begin += size

    found = top_k(queries, blocks(), k, lambda positions: [keys[n] for n in positions])
    return [positions.tolist() for positions, _ in found], found


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=4),
    k=st.integers(1, 12),
    values=st.sampled_from([2, 3, 1000]),  # few values: nearly everything ties
)
def test_it_equals_sorting_with_ties_by_key(seed, sizes, k, values):
    rng = np.random.default_rng(seed)
    count = sum(sizes)
    vectors = rng.integers(-values, values, (count, 2)).astype(np.float32)
    queries = rng.integers(-2, 3, (3, 2)).astype(np.float32)
    kept, keys = rng.random(count) < 0.8, rng.permutation(count).tolist()
    found, _ = searched(queries, vectors, k, sizes, kept, keys)
    assert found == brute(queries, vectors, k, kept, keys)


def test_more_queries_than_are_multiplied_at_once():
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(300, 4)), rng.normal(size=(300, 4))
    vectors, queries = vectors.astype(np.float32), queries.astype(np.float32)
    kept = np.ones(300, np.bool_)
    found, results = searched(queries, vectors, 5, [100, 200], kept, range(300))
    assert found == brute(queries, vectors, 5, kept, range(300))
    expected = np.sort(queries @ vectors.T, axis=1)[:, ::-1][:, :5]
    np.testing.assert_allclose([scores for _, scores in results], expected, rtol=1e-5)


@pytest.fixture(params=[torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def rough(request, monkeypatch):
    """Both number types, whatever this processor has."""
    monkeypatch.setattr(search, "rough_dtype", lambda: request.param)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def exact(queries, vectors, k):
    scores = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    return np.argsort(-scores, axis=1)[:, :k].tolist()


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize("size", [5, 639, 32 * 50 + 17])  # fewer than k; without and with groups
def test_rough_products_lose_nothing(size):
    vectors, queries = normal(2 * size, 24), normal(20, 24, seed=1)
    vectors[-1] = 9 * queries[3]  # in the part that fills no group
    found, _ = searched(queries, vectors, 7, [size, size], np.ones(2 * size, np.bool_), range(9999))
    assert found == exact(queries, vectors, 7)


@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize("part", [0.3, 0.03])
def test_scores_that_are_small_next_to_lengths(part):
    rotation = np.linalg.qr(normal(64, 64))[0]
    queries, vectors = np.eye(20, 64, dtype=np.float32), normal(3200, 64, seed=1)
    vectors[:, :20] *= part
    queries, vectors = queries @ rotation, vectors @ rotation
    found, _ = searched(queries, vectors, 7, [1600, 1600], np.ones(3200, np.bool_), range(3200))
    assert found == exact(queries, vectors, 7)


@pytest.mark.usefixtures("rough")
def test_vectors_too_near_each_other_for_rough_products():
    vectors = 1 + 1e-3 * normal(4000, 16)
    vectors[77] *= 2  # one is far above the others
    queries = np.concatenate([vectors[:3], np.zeros((1, 16), np.float32)])
    found, _ = searched(queries, vectors, 3, [2000, 2000], np.ones(4000, np.bool_), range(4000))
    assert found[:3] == exact(queries[:3], vectors, 3)
    assert found[3] == [0, 1, 2]  # everything ties


@pytest.mark.usefixtures("rough")
def test_neither_threads_nor_blocks_nor_other_queries_change_a_bit():
    vectors, queries = normal(3000, 40), normal(300, 40, seed=1)
    kept = np.random.default_rng(2).random(3000) < 0.5
    threads, results = torch.get_num_threads(), []
    try:
        for count, sizes in ((1, [3000]), (2, [3000]), (2, [1500, 7, 1493])):
            torch.set_num_threads(count)
            results.append(searched(queries, vectors, 4, sizes, kept, range(3000))[1])
        results.append(
            [searched(each[None], vectors, 4, sizes, kept, range(3000))[1][0] for each in queries]
        )
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        for (places, scores), (others, equal) in zip(results[0], other, strict=True):
            assert kept[places].all()
            assert np.array_equal(places, others) and np.array_equal(scores, equal)


def test_candidates_that_are_too_many_to_wait(monkeypatch):
    monkeypatch.setattr(search, "_WAITING", 3)
    vectors = np.ones((600, 2), np.float32)
    keys = list(range(600, 0, -1))
    found, _ = searched(vectors[:2], vectors, 4, [200] * 3, np.ones(600, np.bool_), keys)
    assert found == [[599, 598, 597, 596]] * 2


def test_nothing_to_find():
    assert top_k(normal(0, 4), [VectorBlock(0, normal(3, 4), 9.0)], 2, list) == []
    for blocks in ([], [VectorBlock(0, normal(3, 4), 9.0, np.zeros(3, np.bool_))]):
        ((positions, scores),) = top_k(normal(1, 4), blocks, 2, list)
        assert len(positions) == len(scores) == 0


def test_scores_without_vectors_are_taken_as_they_are():
    scores = torch.tensor([[0.1, 0.3, 0.3, 0.2]])
    block = ScoredBlock(10, 4, lambda queries: scores, np.array([True, True, True, False]))
    ((positions, found),) = top_k(normal(1, 4), [block], 3, lambda places: [-n for n in places])
    assert positions.tolist() == [12, 11, 10]
    assert found.tolist() == scores[0, [2, 1, 0]].tolist()


def test_a_number_that_is_not_finite_is_said():
    vectors = np.ones((4, 2), np.float32)
    vectors[2, 0] = np.nan
    with pytest.raises(InputError, match="a score is not a finite number; the vectors are damaged"):
        searched(vectors[:1], vectors, 2, [4], np.ones(4, np.bool_), range(4))


@pytest.mark.parametrize("k", [10**9, 10**30])
def test_more_results_than_vectors_take_no_room(k):
    vectors = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    block = VectorBlock(0, vectors, longest(vectors))
    ((positions, scores),) = top_k(vectors[:1], [block], k, list)
    assert len(positions) == 50 and scores[0] == scores.max()
