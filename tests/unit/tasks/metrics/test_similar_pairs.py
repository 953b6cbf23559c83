"""Pairs and triplets: average precision, thresholds that equal scores cannot split, strict ties."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.pairs import similar_pairs
from clozeworks.tasks.metrics.sts import sts
from clozeworks.tasks.metrics.triplets import triplets


def drawn(seed, *, ties, size=50):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, size)
    scores = gold + rng.normal(size=size)
    return gold, np.round(scores) if ties else scores


def every_threshold(scores):
    return [*np.unique(scores), np.inf]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_values_equal_those_of_scikit_learn_at_every_threshold(seed, ties):
    gold, scores = drawn(seed, ties=ties)
    found = similar_pairs(gold, scores, threshold=0.4).values
    sides = [scores >= each for each in every_threshold(scores)]
    assert found["average_precision"] == pytest.approx(average_precision_score(gold, scores))
    assert found["best_accuracy"] == pytest.approx(max(accuracy_score(gold, s) for s in sides))
    assert found["best_f1"] == pytest.approx(max(f1_score(gold, s) for s in sides))
    for name, score in (("accuracy", accuracy_score), ("f1", f1_score)):
        assert found[name] == pytest.approx(score(gold, scores >= 0.4))
        at_best = scores >= found[f"best_{name}_threshold"]
        assert score(gold, at_best) == pytest.approx(found[f"best_{name}"])


def plain_values(gold, scores):
    """The same by their formulas, threshold by threshold; scikit-learn takes long for draws."""
    sides = [scores >= each for each in [np.inf, *np.unique(scores)[::-1]]]
    hits = np.array([(side & (gold == 1)).sum() for side in sides])
    taken = np.maximum([side.sum() for side in sides], 1)
    return {
        "average_precision": (np.diff(hits) / max(gold.sum(), 1) * (hits / taken)[1:]).sum(),
        "best_f1": max(2 * hits / (taken + gold.sum())),
        "best_accuracy": max((side == gold).mean() for side in sides),
        "accuracy": ((scores >= 1) == gold).mean(),
    }


@pytest.mark.parametrize("name", ["average_precision", "best_f1", "best_accuracy", "accuracy"])
def test_intervals_equal_those_of_computing_each_draw_anew(name, slow_interval):
    gold, scores = drawn(1, ties=True, size=30)
    found = similar_pairs(gold, scores, threshold=1.0, intervals=True)
    slow = slow_interval(lambda items: plain_values(gold[items], scores[items])[name], 30)
    assert found.intervals[name] == pytest.approx(slow)


def test_equal_scores_are_on_one_side_of_every_threshold():
    # A sort that keeps the order would let the first pair through alone.
    found = similar_pairs([1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]).values
    assert found["average_precision"] == 0.25
    assert found["best_accuracy"] == 0.75  # none is similar
    assert found["best_accuracy_threshold"] > 0.5
    assert found["best_f1"] == pytest.approx(0.4)
    assert found["best_f1_threshold"] == 0.5


def test_pairs_of_one_kind_are_said_to_tell_nothing():
    none = similar_pairs([0, 0], [0.1, 0.2])
    assert none.values["average_precision"] == none.values["best_f1"] == 0
    assert none.notes == (
        "no pair is similar, so average precision and F1 are 0; add pairs that are.",
    )
    assert none.values["best_f1_threshold"] > 0.2
    every = similar_pairs([1, 1], [0.1, 0.2])
    assert every.notes == (
        "all pairs are similar, so nothing is told apart; add pairs that are not.",
    )


def test_labels_must_be_0_or_1():
    with pytest.raises(InputError, match="gold, item 2, is 3; it must be 0 or 1; fix it, or"):
        similar_pairs([0, 3], [0.1, 0.2])


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_those_of_scipy(ties):
    gold, scores = drawn(0, ties=ties)
    found = sts(5 * gold, scores, intervals=True)
    assert found.values["spearman"] == pytest.approx(spearmanr(gold, scores).statistic)
    assert found.values["pearson"] == pytest.approx(pearsonr(gold, scores).statistic)
    assert (found.primary, [*found.values]) == ("spearman", ["spearman", "pearson"])
    low, high = found.intervals["spearman"]
    assert low < found.value < high


def test_a_tie_of_positive_and_negative_is_wrong():
    found = triplets([0.5, 0.5, 0.9, 0.2], [0.5, 0.4, 0.1, 0.8], intervals=True)
    assert found.values == pytest.approx({"accuracy": 0.5, "margin": 0.075})
    assert found.notes == ("1 triplet with equally similar positive and negative; a tie is wrong.",)
    assert found.intervals["accuracy"] == (0.0, 1.0)


def test_scores_that_are_not_numbers_are_named():
    with pytest.raises(InputError, match="negative, item 1, is nan; it must be a finite number"):
        triplets([0.5], [float("nan")])
