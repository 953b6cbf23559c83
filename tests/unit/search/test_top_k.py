"""Exact search equals sorting everything, ties included."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.errors import InputError
from clozeworks.search.top_k import VectorBlock, dot_products, largest, top_k


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
            yield VectorBlock(begin, dot_products(vectors[rows]), kept[rows])
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


def test_groups_find_what_a_plain_search_finds():
    scores = torch.randn(3, 32 * 50 + 17, generator=torch.Generator().manual_seed(0))
    scores[1, -1] = 99.0  # in the part that fills no group
    values, indices = largest(scores, 7)
    expected = torch.topk(scores, 7)
    assert torch.equal(values, expected.values) and torch.equal(indices, expected.indices)


def test_a_number_that_is_not_finite_is_said():
    vectors = np.ones((4, 2), np.float32)
    vectors[2, 0] = np.nan
    with pytest.raises(InputError, match="a score is not a finite number; the vectors are damaged"):
        searched(vectors[:1], vectors, 2, [4], np.ones(4, np.bool_), range(4))
