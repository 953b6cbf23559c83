"""Two systems on the same items: the interval of the difference is that of paired draws."""

import numpy as np
import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.classification import one_label
from clozeworks.tasks.metrics.difference import difference, differences
from clozeworks.tasks.metrics.numbers import numbers
from clozeworks.tasks.metrics.sts import sts


def systems(size=200):
    rng = np.random.default_rng(0)
    gold = rng.normal(size=size)
    shared = gold + rng.normal(size=size)  # what is hard for both
    return gold, shared + 0.1 * rng.normal(size=size), shared + 0.3 * gold


def test_the_interval_is_that_of_the_difference_in_each_draw(slow_interval):
    gold, worse, better = systems(60)
    first, second = (sts(gold, each, intervals=True) for each in (worse, better))
    found = difference(first, second, "pearson")

    def gain(items):
        a, b = (np.corrcoef(gold[items], each[items])[0, 1] for each in (worse, better))
        return b - a

    assert (found.low, found.high) == pytest.approx(slow_interval(gain, 60))
    assert found.value == pytest.approx(gain(np.arange(60)))


def test_a_small_difference_is_real_though_the_intervals_overlap():
    gold, worse, better = systems()
    first, second = (sts(gold, each, intervals=True) for each in (worse, better))
    assert first.intervals["spearman"][1] > second.intervals["spearman"][0]
    found = difference(first, second)
    assert found.is_real and found.low > 0 and found.second_better > 0.975
    assert difference(second, first).high < 0
    assert found.sentence("A", "B") == (
        f"B is better than A: spearman differs by {found.value:.3f} (B less A: {found.low:.3f} to "
        f"{found.high:.3f}, 95 %), more than the choice of 200 items explains."
    )
    assert difference(second, first).sentence("B", "A").startswith("B is better than A: spearman")


def test_chance_is_called_chance():
    rng = np.random.default_rng(1)
    gold, a, b = (rng.integers(0, 2, 100) for _ in range(3))
    first, second = (one_label(gold, each, ("0", "1"), intervals=True) for each in (a, b))
    found = difference(first, second)
    assert not found.is_real
    assert found.sentence("A", "B").startswith("A and B cannot be told apart: accuracy differs by")
    assert found.sentence("A", "B").endswith("100 items may explain; measure on more.")
    same = difference(first, first)
    assert same.sentence("A", "B") == "A and B have the same accuracy on 100 items."
    assert same.second_better == 0.5


def test_of_errors_the_lower_one_is_better():
    gold, worse, _ = systems()
    first, second = (numbers(gold, each, intervals=True) for each in (worse, gold))
    found = difference(first, second, "mean_squared_error")
    assert found.value < 0 and found.second_better == 1 and not found.higher_is_better
    assert found.sentence("A", "B").startswith("B is better than A: mean_squared_error differs by")


def test_all_values_with_the_one_that_decides_first():
    gold, worse, better = systems()
    first, second = (numbers(gold, each, intervals=True) for each in (worse, better))
    names = [each.name for each in differences(first, second)]
    assert names[0] == "spearman" and sorted(names) == sorted(first.values)


def test_what_cannot_be_compared_is_said():
    gold, worse, _ = systems()
    first = sts(gold, worse, intervals=True)
    with pytest.raises(InputError, match="first was measured on 200 items and the second on 199;"):
        difference(first, sts(gold[1:], worse[1:], intervals=True))
    with pytest.raises(InputError, match="spearman has no interval, so a difference in it cannot"):
        difference(first, sts(gold, worse))


def test_draws_are_not_written():
    gold, worse, _ = systems()
    found = sts(gold, worse, intervals=True)
    assert "resamples" not in found.to_dict()
    assert type(found).from_dict(found.to_dict()) == found
