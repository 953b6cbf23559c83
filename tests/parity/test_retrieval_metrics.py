"""Values of rankings equal those of trec_eval itself, ties and empty runs included."""

import random

import pytest

from clozeworks.tasks.metrics.reranking import reranking
from clozeworks.tasks.metrics.retrieval import ranked, retrieval

pytrec_eval = pytest.importorskip("pytrec_eval")
pytestmark = pytest.mark.parity

RANKS = (1, 3, 10, 100)
THEIRS = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P"}


# Trap: trec_eval writes outside its memory for grades below -1.
GRADES = (-1, 0, 1, 2, 3)


def drawn(seed, *, levels=4, queries=30):
    """Judgements and scores with many ties; some queries find nothing or have nothing to find."""
    rng = random.Random(seed)
    ids = [*map(str, range(60)), "a", "A", "é", "文", "a b"]
    qrels, run = {}, {}
    for number in range(queries):
        judged = rng.sample(ids, rng.randint(1, 25))
        qrels[f"q{number}"] = {each: rng.choice(GRADES) for each in judged}
        if number % 7 == 3:
            qrels[f"q{number}"] = dict.fromkeys(judged, 0)
        if number % 5 != 4:
            found = rng.sample(ids, rng.randint(0, 65))
            run[f"q{number}"] = {each: rng.randint(0, levels) / 3 - 0.5 for each in found}
    return qrels, run


def theirs(qrels, run, metrics):
    """The means over all judged queries; those that trec_eval forgets count 0."""
    names = {f"{THEIRS[kind]}.{rank}" for kind, rank in metrics}
    found = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    keys = {f"{kind}@{rank}": f"{THEIRS[kind]}_{rank}" for kind, rank in metrics}
    return {
        ours: sum(each[key] for each in found.values()) / len(qrels) for ours, key in keys.items()
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("levels", [0, 1, 4, 1000])
def test_every_metric_at_every_rank(seed, levels):
    qrels, run = drawn(seed, levels=levels)
    metrics = [(kind, rank) for kind in THEIRS for rank in RANKS]
    ours = retrieval(qrels, run, [f"{kind}@{rank}" for kind, rank in metrics])
    assert ours.values == pytest.approx(theirs(qrels, run, metrics), abs=1e-9)
    assert ours.count == len(qrels)


@pytest.mark.parametrize("seed", range(6))
def test_reciprocal_ranks_with_and_without_a_cut(seed):
    qrels, run = drawn(seed, levels=2)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"})
    cut = {query: {each: run[query][each] for each in ranked(run[query], 10)} for query in run}
    whole, first = (
        sum(each["recip_rank"] for each in evaluator.evaluate(scores).values()) / len(qrels)
        for scores in (run, cut)
    )
    ours = retrieval(qrels, run, ["mrr", "mrr@10"]).values
    assert ours == pytest.approx({"mrr": whole, "mrr@10": first}, abs=1e-9)


def test_scores_that_single_precision_cannot_tell_apart_are_ties():
    qrels = {"q": {"a": 1, "b": 0}}
    for scores in ({"a": 1.0, "b": 1.0}, {"a": 1.0 + 1e-9, "b": 1.0}, {"a": 1e-50, "b": 0.0}):
        metrics = [("ndcg", 10), ("map", 10)]
        ours = retrieval(qrels, {"q": scores}, ["ndcg@10", "map@10"]).values
        assert ours == pytest.approx(theirs(qrels, {"q": scores}, metrics))
        assert ours["map@10"] == 0.5


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_measured_as_documents_are(seed):
    rng = random.Random(seed)
    grades = [[rng.choice((0, 0, 1, 2)) for _ in range(rng.randint(1, 9))] for _ in range(20)]
    scores = [[rng.random() for _ in each] for each in grades]
    qrels = {str(n): {str(i): g for i, g in enumerate(each)} for n, each in enumerate(grades)}
    run = {str(n): {str(i): s for i, s in enumerate(each)} for n, each in enumerate(scores)}
    found = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg_cut.10"}).evaluate(run)
    ours = reranking(grades, scores).values
    for name, key in (("map", "map"), ("ndcg@10", "ndcg_cut_10")):
        assert ours[name] == pytest.approx(sum(each[key] for each in found.values()) / 20)
