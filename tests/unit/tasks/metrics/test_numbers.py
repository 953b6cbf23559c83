"""Correlations and errors equal scipy and scikit-learn, and are 0 where they are not defined."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import mean_absolute_error, mean_squared_error

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.numbers import numbers


def pairs(seed, *, ties, size=60):
    rng = np.random.default_rng(seed)
    gold = rng.normal(size=size)
    said = gold + rng.normal(size=size)
    return (np.round(2 * gold), np.round(2 * said)) if ties else (gold, said)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_values_equal_those_of_scipy(seed, ties):
    gold, said = pairs(seed, ties=ties)
    found = numbers(gold, said)
    pearson, spearman = pearsonr(gold, said).statistic, spearmanr(gold, said).statistic
    assert found.values == pytest.approx(
        {
            "pearson": pearson,
            "spearman": spearman,
            "pearson_and_spearman": (pearson + spearman) / 2,
            "mean_absolute_error": mean_absolute_error(gold, said),
            "mean_squared_error": mean_squared_error(gold, said),
        },
        rel=1e-10,
    )
    assert (found.primary, found.higher_is_better, found.count) == ("spearman", True, 60)
    assert found.notes == ()


@pytest.mark.parametrize("shift", [1e8, -1e8])
def test_numbers_far_from_zero_lose_nothing(shift):
    gold, said = pairs(0, ties=False)
    assert numbers(gold + shift, 1e-9 * said).values["pearson"] == pytest.approx(
        pearsonr(gold, said).statistic, rel=1e-6
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("pearson", lambda x, y: pearsonr(x, y).statistic),
        ("spearman", lambda x, y: spearmanr(x, y).statistic),
        ("mean_squared_error", mean_squared_error),
    ],
)
def test_intervals_equal_those_of_computing_each_draw_anew(name, function, ties, slow_interval):
    gold, said = pairs(1, ties=ties)
    found = numbers(gold, said, intervals=True)
    slow = slow_interval(lambda drawn: function(gold[drawn], said[drawn]), 60)
    assert found.intervals[name] == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
def test_equal_numbers_have_no_correlation_and_a_note(value):
    gold, same = np.arange(7.0), np.full(7, value)
    found = numbers(gold, same, intervals=True)
    assert found.values["pearson"] == found.values["spearman"] == 0
    assert found.intervals["pearson"] == found.intervals["spearman"] == (0, 0)
    assert found.notes == ("all predicted numbers are the same, so the correlations are 0.",)
    assert numbers(same, gold).notes == (
        "all right numbers are the same, so the correlations are 0.",
    )
    assert numbers(same, gold).values["pearson"] == 0


def test_draws_of_equal_numbers_count_as_zero():
    # The last item is missing from (2/3)^3 of the draws; what rounding leaves of the spread of the
    # others would be a correlation of 1.
    found = numbers([0.3, 0.3, 0.4], [1.0, 1.0, 0.5], intervals=True)
    assert found.values["pearson"] == pytest.approx(-1)
    assert found.intervals["pearson"] == pytest.approx((-1, 0))
    assert found.intervals["spearman"] == pytest.approx((-1, 0))


def test_one_item_has_no_correlation():
    found = numbers([2.0], [3.0])
    assert found.values["spearman"] == 0
    assert found.values["mean_squared_error"] == 1
    assert len(found.notes) == 2


def test_whole_numbers_and_lists_will_do():
    assert numbers([1, 2, 3], [3, 2, 1]).value == pytest.approx(-1)


def test_numbers_that_are_none_are_refused():
    with pytest.raises(InputError) as error:
        numbers([1.0, 2.0], [1.0, float("nan")])
    assert str(error.value) == (
        "predicted, item 2, is nan; it must be a finite number; fix it, or leave the item out."
    )


def test_there_is_one_number_for_each_item():
    with pytest.raises(InputError) as error:
        numbers([1.0, 2.0], [1.0])
    assert str(error.value) == (
        "predicted holds 1 answers and gold 2; each item needs one of both; give them for the same "
        "items in the same order."
    )
