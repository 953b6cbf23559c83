"""Steps without equal texts: none twice, each row once or counted, the same every time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.data.examples.distinct import distinct_order

ROWS = st.lists(st.sets(st.integers(0, 15), min_size=1, max_size=3), min_size=1, max_size=60)


@given(ROWS, st.integers(1, 12), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_no_text_stands_twice_in_a_step_and_no_row_is_lost(rows, size, seed):
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    found = distinct_order(rows, shuffled, size)
    order = found.order.tolist()
    assert len(order) % size == 0
    assert len(set(order)) == len(order)
    assert len(order) + found.left_out == len(rows)
    for begin in range(0, len(order), size):
        texts = [text for row in order[begin : begin + size] for text in rows[row]]
        assert len(texts) == len(set(texts))
    again = distinct_order(rows, shuffled, size)
    assert again.order.tolist() == order


def test_rows_without_equal_texts_stay_in_their_order():
    shuffled = np.random.default_rng(1).permutation(20)
    found = distinct_order([{n} for n in range(20)], shuffled, 6)
    assert found.order.tolist() == shuffled[:18].tolist()
    assert (found.moved, found.left_out, found.rest) == (0, 2, 2)


def test_a_row_waits_for_the_next_step_it_fits_into():
    rows = [{"a", "b"}, {"a", "c"}, {"d"}, {"e"}, {"f"}, {"g"}]
    found = distinct_order(rows, np.arange(6), 2)
    assert found.order.tolist() == [0, 2, 1, 3, 4, 5]
    assert (found.moved, found.left_out) == (1, 0)


@pytest.mark.parametrize(("size", "left", "rest"), [(2, 4, 1), (1, 0, 0)])
def test_rows_that_all_share_a_text_cannot_stand_side_by_side(size, left, rest):
    found = distinct_order([{"a", n} for n in range(4)], np.arange(4), size)
    assert (len(found.order), found.left_out, found.rest) == (4 - left, left, rest)
