"""Hard negatives equal those of looking at every text, rule by rule."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from clozeworks.errors import SettingError
from clozeworks.search.mining import MinedAnchor, MiningReport, MiningRules, mine


def unit(rng, count, width=6):
    vectors = rng.normal(size=(count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn(seed, anchors=20, texts=50):
    rng = np.random.default_rng(seed)
    positives = [
        rng.choice(texts, rng.integers(1, 4), replace=False).tolist() for _ in range(anchors)
    ]
    same = [int(rng.integers(0, texts)) if rng.random() < 0.5 else None for _ in range(anchors)]
    return unit(rng, anchors), unit(rng, texts), positives, same


def brute(anchors, texts, positives, same, rules):
    """Every text is looked at, one after the other."""
    most = max(map(len, positives))
    for number, anchor in enumerate(anchors):
        scores = texts @ anchor
        lowest = min(scores[each] for each in positives[number])
        order = sorted(range(len(texts)), key=lambda text: (-scores[text], text))
        near = order[: rules.depth(most) + most + (same != [None] * len(same))]
        left = []
        for text in near:
            if text in positives[number] or text == same[number]:
                continue
            score = scores[text]
            margin = rules.absolute_margin
            if margin is not None and score > lowest - margin:
                continue
            margin = rules.relative_margin
            if margin is not None and score > lowest - abs(lowest) * margin:
                continue
            if rules.max_score is not None and score > rules.max_score:
                continue
            if rules.min_score is not None and score < rules.min_score:
                continue
            left.append(text)
        yield left[rules.range_min :][: rules.negatives]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"negatives": 7},
        {"absolute_margin": 0.1},
        {"relative_margin": 0.05},
        {"relative_margin": 0.05, "range_min": 2, "range_max": 9, "max_score": 0.4},
        {"min_score": 0.1, "negatives": 20},
        {"max_score": -0.2, "absolute_margin": -0.2},
        {"range_min": 48},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_negatives_are_those_of_looking_at_every_text(seed, changes):
    rules = MiningRules(**changes)
    data = drawn(seed)
    found = list(mine(*data, rules, MiningReport()))
    assert [list(each.negatives) for each in found] == list(brute(*data, rules))
    anchors, texts, positives, _ = data
    for each in found:
        assert each.scores == pytest.approx(
            [texts[n] @ anchors[each.anchor] for n in each.negatives], abs=1e-6
        )
        own = [texts[n] @ anchors[each.anchor] for n in positives[each.anchor]]
        assert each.positive_scores == pytest.approx(own, abs=1e-6)


def test_blocks_change_nothing(monkeypatch):
    data = drawn(4)
    whole = list(mine(*data, MiningRules(), MiningReport()))
    monkeypatch.setattr("clozeworks.search.mining._BLOCK", 7)
    monkeypatch.setattr("clozeworks.search.mining.ANCHORS", 3)
    parts = list(mine(*data, MiningRules(), MiningReport()))
    assert [each.negatives for each in parts] == [each.negatives for each in whole]


def planted():
    """An anchor, its positive, a false negative that is nearer than it, and others."""
    angles = np.radians([0, 20, 15, 50, 60, 70])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    return vectors[:1], vectors[1:], [[0]], [None]


def test_a_false_negative_is_dropped_by_a_margin():
    report = MiningReport()
    assert next(mine(*planted(), MiningRules(negatives=2), report)).negatives == (1, 2)
    for margin in ({"relative_margin": 0.05}, {"absolute_margin": 0.0}):
        report = MiningReport()
        rules = MiningRules(negatives=2, **margin)
        assert next(mine(*planted(), rules, report)).negatives == (2, 3)
        assert report.dropped == {next(iter(margin)): 1, "range_min": 0}


def test_the_margin_is_below_the_lowest_positive():
    anchors, texts, _, same = planted()
    rules = MiningRules(negatives=1, absolute_margin=0.0)
    # With a second positive far away, nothing between the two may be taken.
    found = [*mine(anchors, texts, [[0, 3]], same, rules, MiningReport())]
    assert found[0].negatives == (4,)


def test_of_negative_scores_the_relative_margin_is_below_too():
    anchors = np.array([[1, 0]], np.float32)
    texts = np.array([[-0.5, 0.8], [-0.51, 0.8], [-0.6, 0.8]], np.float32)
    rules = MiningRules(negatives=2, relative_margin=0.05)
    assert next(mine(anchors, texts, [[0]], [None], rules, MiningReport())).negatives == (2,)


def test_a_second_model_scores_candidates_and_positives_before_the_margins():
    asked = []

    def rescore(pairs):
        asked.extend(pairs)
        # The false negative is said to be right, and the order of the others is reversed.
        return np.array([{0: 0.9, 1: 0.95, 2: 0.1, 3: 0.2, 4: 0.3}[text] for _, text in pairs])

    rules = MiningRules(negatives=2, absolute_margin=0.1)
    report = MiningReport()
    found = [*mine(*planted(), rules, report, rescore=rescore)]
    assert asked == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert found == [MinedAnchor(0, (4, 3), (0.3, 0.2), (0.9,))]


def test_random_ones_are_of_those_that_are_left_and_repeat():
    data = drawn(1)
    rules = MiningRules(negatives=3, range_max=10, sampling="random", range_min=1)
    first, again = ([*mine(*data, rules, MiningReport())] for _ in range(2))
    assert first == again
    other = [*mine(*data, replace(rules, seed=1), MiningReport())]
    assert [each.negatives for each in first] != [each.negatives for each in other]
    every = [*brute(*data, MiningRules(negatives=50, range_max=51, range_min=1))]
    for each, left in zip(first, every, strict=True):
        assert len(each.negatives) == 3 and {*each.negatives} <= {*left}
        assert list(each.scores) == sorted(each.scores, reverse=True)
    drawn_ones = Counter(n for each in first + other for n in each.negatives)
    assert len(drawn_ones) > 20


def test_the_report_counts_each_rule_once():
    report = MiningReport()
    data = drawn(0)
    rules = MiningRules(
        absolute_margin=0.0, max_score=0.3, min_score=0.0, range_min=1, range_max=30
    )
    found = [*mine(*data, rules, report)]
    assert report.anchors == 20
    assert report.candidates == sum(report.dropped.values()) + sum(
        len(left) for left in brute(*data, replace(rules, negatives=29, range_max=30))
    )
    assert report.taken == sum(len(each.negatives) for each in found)
    assert report.short == sum(0 < len(each.negatives) < 3 for each in found)
    assert report.none == sum(not each.negatives for each in found)
    quantiles = report.quantiles()
    assert [*quantiles["negatives"]] == ["5%", "25%", "50%", "75%", "95%"]
    assert quantiles["negatives"]["95%"] <= 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"negatives": 0}, "it must be at least 1"),
        ({"range_min": -1}, "it must be at least 0"),
        ({"range_min": 5, "range_max": 7}, "range_min and negatives together are 8; raise it"),
        ({"sampling": "topp"}, "it must be 'top' or 'random'; did you mean 'top'?"),
        ({"max_score": 0.1, "min_score": 0.2}, "min_score is 0.2; raise it, or lower min_score"),
    ],
)
def test_rules_that_leave_nothing_are_refused(changes, message):
    with pytest.raises(SettingError) as caught:
        MiningRules(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["relative_margin", "absolute_margin", "max_score", "min_score"])
def test_a_rule_is_a_finite_number(name):
    with pytest.raises(SettingError, match=f"{name} is nan; it must be a finite number"):
        MiningRules(**{name: float("nan")})
