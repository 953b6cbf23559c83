"""Batches by number of tokens."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.examples.batch import by_budget
from clozeworks.errors import SettingError

lengths_of_texts = st.lists(st.integers(min_value=0, max_value=60), max_size=200)
budgets = st.integers(min_value=1, max_value=100)


def test_the_longest_come_first_and_fill_the_budget():
    assert by_budget([3, 9, 1, 4, 4], budget=8) == [[1], [3, 4], [0, 2]]


def test_texts_of_equal_length_keep_their_order():
    assert by_budget([2, 2, 2, 2, 2], budget=4) == [[0, 1], [2, 3], [4]]


def test_a_text_above_the_budget_is_alone():
    assert by_budget([100, 1], budget=8) == [[0], [1]]


def test_no_texts_make_no_batches():
    assert by_budget([], budget=8) == []


def test_empty_texts_after_a_long_one_start_a_new_batch():
    assert by_budget([100, 0], budget=8) == [[0], [1]]


@given(lengths_of_texts, budgets)
def test_every_index_occurs_once(lengths, budget):
    batches = by_budget(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(lengths_of_texts, budgets)
def test_the_budget_is_kept(lengths, budget):
    for batch in by_budget(lengths, budget):
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget


@given(lengths_of_texts, budgets)
def test_lengths_descend_and_ties_keep_their_order(lengths, budget):
    order = [index for batch in by_budget(lengths, budget) for index in batch]
    keys = [(-lengths[index], index) for index in order]
    assert keys == sorted(keys)


@given(lengths_of_texts, budgets)
def test_no_batch_ends_while_the_next_text_would_fit(lengths, budget):
    batches = by_budget(lengths, budget)
    for batch, following in pairwise(batches):
        assert sum(lengths[index] for index in [*batch, following[0]]) > budget


def test_workers_get_equal_shares():
    lengths = [10] * 31
    assert [len(batch) for batch in by_budget(lengths, 100)] == [10, 10, 10, 1]
    assert [len(batch) for batch in by_budget(lengths, 100, workers=4)] == [8, 8, 8, 7]
    assert [len(batch) for batch in by_budget(lengths, 100, workers=3)] == [6, 6, 6, 6, 6, 1]


@given(lengths_of_texts, budgets, st.integers(min_value=2, max_value=5))
def test_workers_change_neither_budget_nor_order(lengths, budget, workers):
    batches = by_budget(lengths, budget, workers)
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget
    order = [index for batch in batches for index in batch]
    keys = [(-lengths[index], index) for index in order]
    assert keys == sorted(keys) and len(order) == len(lengths)
    assert len(batches) <= -(-len(by_budget(lengths, budget)) // workers) * workers


def test_a_budget_below_one_is_an_error():
    with pytest.raises(SettingError) as caught:
        by_budget([1], budget=0)
    assert str(caught.value) == "The token budget of a batch is 0; it must be at least 1."
