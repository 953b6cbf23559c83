"""Rankings: the rules of trec_eval by hand, and no query is lost. Its own values: tests/parity."""

import math

import pytest

from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.metrics.reranking import reranking
from clozeworks.tasks.metrics.retrieval import RULES, ranked, retrieval


def test_values_by_hand():
    qrels = {"q": {"a": 2, "b": 1, "c": 1, "d": -3, "e": 0}}
    run = {"q": {"x": 9, "a": 8, "d": 7, "b": 6}}
    found = retrieval(
        qrels, run, ["ndcg@3", "mrr@1", "mrr@3", "map@2", "map", "recall@4", "precision@10"]
    ).values
    ideal = 2 + 1 / math.log2(3) + 1 / 2
    assert found == pytest.approx(
        {
            "ndcg@3": 2 / math.log2(3) / ideal,
            "mrr@1": 0,
            "mrr@3": 1 / 2,
            "map@2": 1 / 2 / 3,
            "map": (1 / 2 + 2 / 4) / 3,
            "recall@4": 2 / 3,
            "precision@10": 2 / 10,
        }
    )


def test_equal_scores_stand_by_falling_id_and_scores_are_single_precision():
    assert ranked({"10": 1.0, "9": 1.0, "100": 1.0}) == ["9", "100", "10"]
    assert ranked({"a": 1 + 1e-9, "b": 1.0}) == ["b", "a"]
    assert ranked({"a": 1.0, "b": 1.0, "c": 0.5, "d": 1.0}, 2) == ["d", "b"]
    assert ranked({"a": 1e300, "b": 1e301, "c": -1e300}) == ["b", "a", "c"]


def test_no_query_is_lost():
    qrels = {"found": {"a": 1}, "missed": {"a": 1}, "nothing": {"a": 0}}
    run = {"found": {"a": 1.0}, "nothing": {"a": 1.0}, "new": {"a": 1.0}, "newer": {}}
    found = retrieval(qrels, run, ["ndcg@10"], intervals=True)
    assert (found.value, found.count) == (pytest.approx(1 / 3), 3)
    assert found.notes == (
        RULES,
        "1 query has no relevant document and counts 0; over the others ndcg@10 is 0.500.",
        "for 1 query nothing was found; it counts 0.",
        "2 queries have no judged document and are left out.",
    )
    assert found.intervals["ndcg@10"] == (0.0, 1.0)


def test_metrics_are_named_with_a_rank():
    for name in ("ndgc@10", "precision", "ndcg@0", "ndcg@", "map@x"):
        with pytest.raises(SettingError, match="ndcg, mrr, map, recall, precision, with @ and a"):
            retrieval({"q": {"a": 1}}, {}, [name])


def test_what_cannot_be_measured_is_said():
    with pytest.raises(InputError, match="no query has a judged document; there must be at least"):
        retrieval({}, {"q": {"a": 1.0}})
    with pytest.raises(InputError, match="score of document 'b' for query 'q' is not a number"):
        retrieval({"q": {"a": 1}}, {"q": {"a": 1.0, "b": math.nan}})


def test_the_first_stage_stands_beside_the_reranked_order():
    found = reranking([[1, 0, 0]], [[0.1, 0.9, 0.5]], [[3.0, 2.0, 1.0]], intervals=True)
    assert found.values["map"] == pytest.approx(1 / 3)
    assert found.values["first_stage_map"] == 1
    assert found.resamples["first_stage_map"].tolist() == [1.0] * 1000
    assert "in the reversed order of the candidates" in found.notes[0]


def test_right_candidates_in_front_gain_nothing_from_ties():
    assert reranking([[1, 0, 0]], [[0.5, 0.5, 0.5]]).value == pytest.approx(1 / 3)


def test_each_candidate_needs_a_score():
    with pytest.raises(InputError, match="query 1 has 2 candidates and 1 scores; each candidate"):
        reranking([[1, 0]], [[0.5]])
