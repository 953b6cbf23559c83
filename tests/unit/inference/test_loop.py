"""Batches by number of tokens, and the loop that runs them."""

import threading
import time
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clozeworks as cw
from clozeworks.errors import SettingError
from clozeworks.inference.loop import (
    BatchOptions,
    Cancelled,
    by_budget,
    in_batches,
    in_order,
)

lengths_of_texts = st.lists(st.integers(min_value=0, max_value=60), max_size=200)
budgets = st.integers(min_value=1, max_value=100)


def test_the_longest_come_first_and_fill_the_budget():
    assert by_budget([3, 9, 1, 4, 4], batch_tokens=8) == [[1], [3, 4], [0, 2]]


def test_texts_of_equal_length_keep_their_order():
    assert by_budget([2, 2, 2, 2, 2], batch_tokens=4) == [[0, 1], [2, 3], [4]]


def test_a_text_above_the_budget_is_alone():
    assert by_budget([100, 1], batch_tokens=8) == [[0], [1]]


def test_no_texts_make_no_batches():
    assert by_budget([], batch_tokens=8) == []


def test_empty_texts_after_a_long_one_start_a_new_batch():
    assert by_budget([100, 0], batch_tokens=8) == [[0], [1]]


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
    lengths = [20] * 31
    assert [len(batch) for batch in by_budget(lengths, 200)] == [10, 10, 10, 1]
    assert [len(batch) for batch in by_budget(lengths, 200, workers=4)] == [8, 8, 8, 7]
    assert [len(batch) for batch in by_budget(lengths, 200, workers=3)] == [6, 6, 6, 6, 6, 1]


def test_few_tokens_are_not_split():
    assert by_budget([10] * 8, 1024, workers=2) == [[*range(8)]]
    assert [len(batch) for batch in by_budget([10] * 20, 1024, workers=2)] == [10, 10]
    assert [len(batch) for batch in by_budget([10] * 20, 1024, workers=4)] == [10, 10]


@given(lengths_of_texts, budgets, st.integers(min_value=2, max_value=5))
def test_workers_change_neither_budget_nor_order(lengths, budget, workers):
    batches = by_budget(lengths, budget, workers)
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget
    order = [index for batch in batches for index in batch]
    keys = [(-lengths[index], index) for index in order]
    assert keys == sorted(keys) and len(order) == len(lengths)
    assert len(batches) < len(by_budget(lengths, budget)) + workers


def test_a_budget_below_one_is_an_error():
    with pytest.raises(SettingError) as caught:
        by_budget([1], batch_tokens=0)
    assert str(caught.value) == "batch_tokens is 0; it must be at least 1."


@pytest.fixture(params=[1, 2])
def network(request, tiny_models):
    """A model on one worker, then on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield cw.load(tiny_models["bert"]).model
    torch.set_num_threads(before)


COSTS = [3, 9, 1, 4, 4, 7, 2, 2]


def test_results_are_in_the_order_of_what_was_asked(network):
    seen = []

    def forward(batch):
        assert not network.training and torch.is_inference_mode_enabled()
        seen.append(batch)
        return [f"answer {number}" for number in batch]

    network.train()
    outputs = in_order(network, COSTS, forward, BatchOptions(batch_tokens=8))
    assert outputs == [f"answer {number}" for number in range(len(COSTS))]
    assert network.training, "the mode comes back"
    assert sorted(number for batch in seen for number in batch) == list(range(len(COSTS)))
    assert all(sum(COSTS[n] for n in batch) <= 8 or len(batch) == 1 for batch in seen)
    assert len(seen) > 1
    assert in_order(network, [], forward) == []


def test_batches_hold_only_what_is_alike(network):
    groups = ["a", "b", "a", "b", "a", "b", "a", "b"]
    options = BatchOptions(batch_tokens=100)
    batches = [batch for batch, _ in in_batches(network, COSTS, len, options, groups=groups)]
    assert all(len({groups[number] for number in batch}) == 1 for batch in batches)
    assert sorted(number for batch in batches for number in batch) == list(range(len(COSTS)))


def test_progress_counts_tokens_after_each_batch(network):
    told = []
    options = BatchOptions(batch_tokens=8, progress=lambda done, total: told.append((done, total)))
    in_order(network, COSTS, list, options)
    dones = [done for done, _ in told]
    assert dones == sorted(set(dones)) and told[-1] == (sum(COSTS), sum(COSTS))
    assert {total for _, total in told} == {sum(COSTS)}


def test_cancelling_ends_the_loop_between_batches(network):
    network.train()
    begun, cancelled = [], threading.Event()

    def forward(batch):
        begun.append(batch)
        time.sleep(0.001)
        if len(begun) == 3:
            cancelled.set()
        return batch

    options = BatchOptions(batch_tokens=1, cancelled=cancelled.is_set)
    with pytest.raises(Cancelled, match=r"^the work was cancelled before it was done; start it"):
        in_order(network, [1] * 1000, forward, options)
    assert 3 <= len(begun) <= 3 + torch.get_num_threads()
    assert network.training


@pytest.mark.parametrize("where", ["progress", "consumer", "forward"])
def test_an_interruption_ends_the_loop_and_its_threads(network, where):
    """Ctrl-C comes to the main thread: while it waits, counts, or takes a result."""
    network.train()
    begun, threads = [], threading.active_count()

    def stop(*_):
        raise KeyboardInterrupt

    def forward(batch):
        begun.append(batch)
        time.sleep(0.001)
        return stop() if where == "forward" else batch

    def consume():
        options = BatchOptions(batch_tokens=1, progress=stop if where == "progress" else None)
        for _ in in_batches(network, [1] * 1000, forward, options):
            if where == "consumer":
                stop()

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert len(begun) < 1000 and network.training
    assert threading.active_count() == threads


def test_methods_of_a_model_can_be_cancelled(tiny_models):
    model = cw.load(tiny_models["bert"])
    texts = ["The river is flowing.", "我爱北京", "a"] * 3
    with pytest.raises(Cancelled):
        model.embed(texts, cancelled=lambda: True)
    with pytest.raises(Cancelled):
        model.fill("The [MASK] is flowing.", cancelled=lambda: True)
