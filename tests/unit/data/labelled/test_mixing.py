"""Mixed tasks: the formula, its edges, and which item an example is."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from clozeworks.data.labelled.mixing import Mixed, Mixture
from clozeworks.errors import SettingError

SIZES = {"large": 4_000, "middle": 900, "small": 100}
TASKS = [name for name, size in SIZES.items() for _ in range(size)]


def formula(sizes, limit, temperature):
    """As the paper writes it: first the limit, then the power."""
    weights = [min(size, limit) ** (1 / temperature) for size in sizes]
    return [weight / sum(weights) for weight in weights]


def frequencies(mixed, epochs=3):
    counts = np.zeros(len(mixed.names))
    for epoch in range(epochs):
        chosen = mixed.chosen(epoch, np.arange(mixed.size))
        counts += [sum(TASKS[item] == name for item in chosen.tolist()) for name in mixed.names]
    return counts


@pytest.mark.parametrize("limit", [None, 10, 100, 500, 2**19])
@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0, 1e9])
def test_tasks_are_shown_as_often_as_the_formula_says(limit, temperature):
    mixture = Mixture(limit=limit, temperature=temperature)
    expected = formula(SIZES.values(), limit or math.inf, temperature)
    assert mixture.rates(list(SIZES.values())) == pytest.approx(expected)
    counts = frequencies(Mixed(TASKS, mixture, 0))
    total = counts.sum()
    assert chisquare(counts, np.array(expected) * total).pvalue > 0.001


def test_the_power_before_the_limit_would_be_noticed():
    # The usual mistake: min(size ** (1 / T), limit).
    wrong = [min(size ** (1 / 2), 500) for size in SIZES.values()]
    counts = frequencies(Mixed(TASKS, Mixture(limit=500, temperature=2.0), 0))
    shares = np.array(wrong) / sum(wrong) * counts.sum()
    assert chisquare(counts, shares).pvalue < 1e-6


def test_the_edges():
    sizes = list(SIZES.values())
    assert Mixture(temperature=1e9).rates(sizes) == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert Mixture(limit=1).rates(sizes) == pytest.approx([1 / 3] * 3)
    assert Mixture().rates(sizes) == pytest.approx([0.8, 0.18, 0.02])
    assert Mixed(TASKS, Mixture(limit=1), 0).size == 3
    assert Mixed(TASKS, Mixture(), 0).size == 5_000
    one = Mixed(["a"] * 7, Mixture(), 0)
    assert sorted(one.chosen(0, np.arange(7)).tolist()) == list(range(7))


def test_without_limit_and_temperature_every_item_is_shown_once_an_epoch():
    mixed = Mixed(TASKS, Mixture(), 0)
    for epoch in (0, 1):
        assert sorted(mixed.chosen(epoch, np.arange(mixed.size)).tolist()) == list(range(5_000))


def test_items_come_again_only_when_all_of_their_task_have_come():
    mixed = Mixed(TASKS, Mixture(limit=100), 3)
    shown = np.concatenate([mixed.chosen(epoch, np.arange(mixed.size)) for epoch in range(9)])
    middle = [item for item in shown.tolist() if TASKS[item] == "middle"]
    assert len(middle) == len(set(middle)) == 900  # nine epochs of a hundred: each item once
    small = [item for item in shown.tolist() if TASKS[item] == "small"]
    assert sorted(small) == sorted(list(range(4_900, 5_000)) * 9)


def test_an_example_depends_on_seed_epoch_and_number_alone():
    mixed = Mixed(TASKS, Mixture(limit=300, temperature=2.0), 7)
    whole = mixed.chosen(4, np.arange(mixed.size))
    again = Mixed(TASKS, Mixture(limit=300, temperature=2.0), 7)
    some = np.array([5, 600, 17, 2])
    assert again.chosen(4, some).tolist() == whole[some].tolist()
    assert mixed.chosen(5, np.arange(mixed.size)).tolist() != whole.tolist()
    other = Mixed(TASKS, Mixture(limit=300, temperature=2.0), 8)
    assert other.chosen(4, np.arange(mixed.size)).tolist() != whole.tolist()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"limit": 0}, "limit is 0; it must be at least 1."),
        ({"temperature": 0.5}, "temperature is 0.5; it must be a finite number and at least 1."),
        ({"temperature": math.inf}, "temperature is inf; it must be a finite number"),
        ({"temperature": math.nan}, "temperature is nan; it must be a finite number"),
    ],
)
def test_settings_that_make_no_sense_are_said(settings, sentence):
    with pytest.raises(SettingError) as caught:
        Mixture(**settings)
    assert str(caught.value).startswith(sentence)
