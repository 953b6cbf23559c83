"""Intervals come from fair draws, hold what they promise, and are the same every time."""

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from clozeworks.tasks.metrics import bootstrap
from clozeworks.tasks.metrics.bootstrap import (
    intervals_of,
    ratio,
    resampled,
    resamples_from_sums,
)


def mean(sums):
    return {"mean": sums[:, 0] / sums[:, 1]}


def with_ones(values):
    return np.column_stack([values, np.ones(len(values))])


def test_every_draw_has_as_many_items_and_every_item_the_same_chance():
    counts = np.concatenate(list(resampled(20, draws=2000)))
    assert counts.shape == (2000, 20)
    assert (counts.sum(axis=1) == 20).all()
    assert chisquare(counts.sum(axis=0)).pvalue > 1e-3
    # With replacement a share of (1 - 1/20)^20 does not come; without, nothing would be missing.
    assert abs((counts == 0).mean() - 0.95**20) < 0.01


def test_draws_depend_on_the_seed_and_not_on_the_blocks(monkeypatch):
    def draws(seed):
        return np.concatenate(list(resampled(30, draws=50, seed=seed)))

    whole = draws(0)
    assert (draws(1) != whole).any()
    monkeypatch.setattr(bootstrap, "_BLOCK", 70)
    assert len(list(resampled(30, draws=50))) == 25
    assert (draws(0) == whole).all()


def test_work_comes_in_blocks_of_bounded_size(monkeypatch):
    monkeypatch.setattr(bootstrap, "_BLOCK", 1000)
    assert max(block.size for block in resampled(300, draws=20)) <= 1000
    assert [block.shape for block in resampled(3000, draws=2)] == [(1, 3000)] * 2


def test_kinds_are_sums_over_their_items():
    kinds = np.array([2, 0, 2, 1, 0, 2])
    items = np.concatenate(list(resampled(6, draws=40)))
    alike = np.concatenate(list(resampled(6, kinds=kinds, draws=40)))
    for kind in range(3):
        assert (alike[:, kind] == items[:, kinds == kind].sum(axis=1)).all()


def test_the_slow_way_gives_the_same_interval(slow_interval):
    values = np.random.default_rng(0).normal(size=50)
    fast = intervals_of(resamples_from_sums(with_ones(values), mean, draws=200, seed=3))
    slow = slow_interval(lambda drawn: values[drawn].mean(), 50, draws=200, seed=3)
    assert slow == pytest.approx(fast["mean"])


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).normal(size=2000)
    low, high = intervals_of(resamples_from_sums(with_ones(values), mean, draws=4000))["mean"]
    error = values.std() / np.sqrt(2000)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


def test_intervals_of_an_accuracy_hold_the_truth_in_95_of_100_samples():
    truth, samples = 0.7, 400
    held = narrow = 0
    for sample in range(samples):
        right = np.random.default_rng(sample).random(200) < truth
        low, high = intervals_of(
            resamples_from_sums(with_ones(right), mean, draws=300, seed=sample)
        )["mean"]
        held += low <= truth <= high
        middle, half = (low + high) / 2, (high - low) / 2
        narrow += abs(truth - middle) <= 0.8 * half
    # Over 4,000 other samples it was 94.8 % for the interval and 86.8 % for 0.8 of its width.
    assert binomtest(held, samples, 0.95).pvalue > 1e-3
    assert binomtest(narrow, samples, 0.95).pvalue < 1e-3  # the test can tell


def test_a_part_of_nothing_is_zero():
    assert ratio(np.array([1.0, 3.0]), np.array([0.0, 4.0])).tolist() == [0.0, 0.75]
