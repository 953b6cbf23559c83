"""Two texts are shortened as the published loop does it, and no end is favoured."""

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from clozeworks.data.examples.cutting import heads, remaining
from clozeworks.rng import RandomStream


def one_at_a_time(first, second, room):
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


@pytest.mark.parametrize("room", [2, 3, 4, 9, 10, 61])
def test_the_lengths_that_remain_are_those_of_the_loop(room):
    first, second = (grid.ravel() for grid in np.mgrid[1:90, 1:90])
    expected = [one_at_a_time(a, b, room) for a, b in zip(first, second, strict=True)]
    assert np.stack(remaining(first, second, room), axis=1).tolist() == list(map(list, expected))


def test_texts_that_are_too_long_fill_the_room_and_end_equal():
    rng = np.random.default_rng(0)
    first, second = rng.integers(1, 500, (2, 20_000))
    a, b = remaining(first, second, 125)
    long = first + second > 125
    assert ((a + b)[long] == 125).all()
    both = (a < first) & (b < second)
    assert both.any() and (np.abs(a - b)[both] <= 1).all()
    assert (a[~long] == first[~long]).all() and (b[~long] == second[~long]).all()
    assert (a >= 1).all() and (b >= 1).all()


@pytest.mark.parametrize("tosses", [1, 5, 32, 40, 129])
def test_heads_are_binomial(tosses):
    count = 40_000
    found = heads(RandomStream(0, "test"), 0, np.arange(count), np.full(count, tosses))
    assert fits(found, tosses)
    # Tails only, and half of the tosses every time, are what a wrong cut gives.
    assert not fits(np.zeros(count, dtype=np.int64), tosses)
    assert tosses == 1 or not fits(np.full(count, tosses // 2), tosses)


def fits(found, tosses):
    """Whether counts of heads can come from fair tosses."""
    expected = binom.pmf(np.arange(tosses + 1), tosses, 0.5) * len(found)
    observed = np.bincount(found, minlength=tosses + 1)
    usual = expected >= 5  # rare counts go together
    pool = lambda x: [*x[usual], x[~usual].sum()] if (~usual).any() else x  # noqa: E731
    return chisquare(pool(observed), pool(expected), sum_check=False).pvalue > 1e-3


def test_heads_depend_on_the_place_alone():
    rng = RandomStream(3, "test")
    tosses = np.array([0, 1, 127, 128, 129, 5000, 100_000, 7])
    places = np.array([5, 9, 2, 8, 1, 7, 4, 2**40])
    together = heads(rng, 1, places, tosses)
    alone = [heads(rng, 1, places[[i]], tosses[[i]])[0] for i in range(len(tosses))]
    assert together.tolist() == alone
    assert together[0] == 0 and (together <= tosses).all()
    assert abs(together[6] - 50_000) < 3 * np.sqrt(25_000)


def test_tosses_drawn_a_few_at_a_time_are_the_same(monkeypatch):
    tosses = np.random.default_rng(0).integers(0, 2000, 300)
    whole = heads(RandomStream(0, "test"), 0, np.arange(300), tosses)
    monkeypatch.setattr("clozeworks.data.examples.cutting._TOGETHER", 50)
    assert np.array_equal(heads(RandomStream(0, "test"), 0, np.arange(300), tosses), whole)


def test_nothing_to_toss():
    assert (
        heads(RandomStream(0, "test"), 0, np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist()
        == []
    )
