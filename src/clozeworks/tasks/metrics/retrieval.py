"""How good rankings of documents are: nDCG, MRR, MAP, recall and precision, as trec_eval counts.

Papers: Järvelin, Kekäläinen 2002 (nDCG); Voorhees, Harman 2005 (TREC).
The idea: a query has judged documents with grades; a system ranks documents by score; what counts
is how far up the relevant ones stand.
Where codes differ, these are the rules of trec_eval, which mteb and BEIR use: scores are of single
precision, equal ones are ordered by id, descending as text ("9" before "10"); a document is
relevant from grade 1 on; nDCG takes grades as gains, as they are; MAP at k divides by all relevant
documents, not by k; documents without judgement are not relevant. trec_eval forgets queries that a
run does not have; here each judged query counts, with 0 if nothing was found or nothing is
relevant, and that is said.

Shapes: n queries, K ranks, m metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import Float64Array, Int64Array
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.metrics.bootstrap import Values, measured_from_sums, ratio
from clozeworks.tasks.metrics.measured import Measured, number_text
from clozeworks.wording import counted

# The grade of each judged document of each query.
Qrels = Mapping[str, Mapping[str, int]]
# The score of each found document of each query.
Run = Mapping[str, Mapping[str, float]]
# The ids of the documents found for each query, the best first.
Rankings = Mapping[str, Sequence[str]]

USUAL = ("ndcg@10", "mrr@10", "map@100", "recall@10", "recall@100", "precision@1", "precision@10")
RULES = (
    "by the rules of trec_eval: equal scores (of single precision) are ordered by id, descending; "
    "gains are grades; MAP divides by all relevant documents."
)


def retrieval(
    qrels: Qrels, run: Run, metrics: Sequence[str] = USUAL, *, intervals: bool = False
) -> Measured:
    """How good the scores of documents are.

    Args:
        qrels: The judged documents of each query.
        run: What was found for each query, with scores.
        metrics: ndcg, mrr, map, recall or precision, each with a rank such as `ndcg@10` or, except
            for precision, without one; the first decides.
        intervals: Whether intervals are wanted, by resampling queries.

    Raises:
        InputError: If there is no judged query, or a score is not a number.
        SettingError: If a metric is unknown.
    """
    depth = max_rank(metrics)
    rankings = {query: ranked(run[query], depth, query) for query in qrels if query in run}
    unjudged = sum(query not in qrels for query in run)
    return ranking_quality(qrels, rankings, metrics, unjudged=unjudged, intervals=intervals)


def ranked(scores: Mapping[str, float], depth: int | None = None, query: str = "") -> list[str]:
    """The ids of the best documents: by falling score of single precision, then falling id.

    Raises:
        InputError: If a score is not a number.
    """
    ids = list(scores)
    with np.errstate(over="ignore"):
        values = np.fromiter(scores.values(), np.float64, len(ids)).astype(np.float32)
    if np.isnan(values).any():
        wrong = ids[int(np.isnan(values).argmax())]
        raise InputError(
            f"the score of document {wrong!r} for query {query!r} is not a number; scores must be "
            "numbers; check the run."
        )
    kept: Sequence[int] = range(len(ids))
    if depth is not None and len(ids) > depth:
        border = np.partition(values, len(ids) - depth)[len(ids) - depth]
        kept = np.flatnonzero(values >= border).tolist()  # ties at the border with it
    falling = sorted(((float(values[index]), ids[index]) for index in kept), reverse=True)
    return [each for _, each in falling[:depth]]


def ranking_quality(
    qrels: Qrels,
    rankings: Rankings,
    metrics: Sequence[str] = USUAL,
    *,
    unjudged: int = 0,
    intervals: bool = False,
) -> Measured:
    """How good rankings are that are in order already; the arguments are those of `retrieval`.

    Args:
        qrels: The judged documents of each query.
        rankings: The ids found for each query, the best first, to the largest rank of a metric.
        metrics: What is measured; the first decides.
        unjudged: How many queries were left out because nothing is known about them.
        intervals: Whether intervals are wanted, by resampling queries.
    """
    if not qrels:
        raise InputError("no query has a judged document; there must be at least one.")
    wanted = [_Metric.read(name) for name in metrics]
    judged = _Judged(qrels, rankings, max_rank(metrics))
    statistics = np.column_stack([each.of(judged) for each in wanted])  # (n, m)
    names = [each.name for each in wanted]
    size = len(qrels)

    def values(sums: Float64Array) -> Values:
        return dict(zip(names, sums.T / size, strict=True))

    notes = _notes(qrels, rankings, judged, unjudged, names[0], statistics[:, 0])
    return measured_from_sums(statistics, values, names[0], intervals=intervals, notes=notes)


def max_rank(metrics: Sequence[str]) -> int | None:
    """How many ranks are needed for metrics; None if all of them are.

    Raises:
        SettingError: If a metric is unknown.
    """
    ranks = [_Metric.read(name).rank for name in metrics]
    return None if None in ranks else max(rank for rank in ranks if rank is not None)


class _Judged:
    """Grades along the rankings, and the best that could stand there."""

    def __init__(self, qrels: Qrels, rankings: Rankings, depth: int | None) -> None:
        found = [list(rankings.get(query, ()))[:depth] for query in qrels]
        best = [
            sorted((g for g in each.values() if g > 0), reverse=True) for each in qrels.values()
        ]
        widest = max(max(map(len, found)), max(map(len, best)), 1)
        self.relevant = np.array([len(each) for each in best], np.float64)
        self.gains = np.zeros((len(found), widest))  # (n, K)
        self.ideal = np.zeros((len(found), widest))
        for row, (ids, grades, top) in enumerate(zip(found, qrels.values(), best, strict=True)):
            # Compat: grades below 1 gain nothing, negative ones as little as none.
            self.gains[row, : len(ids)] = [max(grades.get(each, 0), 0) for each in ids]
            self.ideal[row, : len(top)] = top
        self.hits = self.gains > 0
        self.ranks = np.arange(1, widest + 1)


@dataclass(frozen=True)
class _Metric:
    """What is measured for a query, up to a rank."""

    kind: str
    rank: int | None

    @classmethod
    def read(cls, name: str) -> "_Metric":
        kind, at, rank = name.partition("@")
        digits = rank.isdecimal() and len(rank) < 8 and 0 < int(rank) <= _DEEPEST
        fits = kind in _FORMULAS and (digits if at else not rank)
        if not fits or (kind == "precision" and not at):
            known = ", ".join(_FORMULAS)
            rule = f"it must be one of {known}, with @ and a rank of at most {_DEEPEST:,}"
            raise SettingError("metric", name, rule, "such as ndcg@10")
        return cls(kind, int(rank) if at else None)

    @property
    def name(self) -> str:
        return self.kind if self.rank is None else f"{self.kind}@{self.rank}"

    def of(self, judged: _Judged) -> Float64Array:
        """Its value for each query, (n,)."""
        return _FORMULAS[self.kind](judged, self.rank)


def _ndcg(judged: _Judged, rank: int | None) -> Float64Array:
    discounts = 1 / np.log2(judged.ranks[:rank] + 1)
    return ratio(judged.gains[:, :rank] @ discounts, judged.ideal[:, :rank] @ discounts)


def _mrr(judged: _Judged, rank: int | None) -> Float64Array:
    hits = judged.hits[:, :rank]
    first: Int64Array = hits.argmax(axis=1)
    reciprocal: Float64Array = np.where(hits.any(axis=1), 1 / (first + 1), 0.0)
    return reciprocal


def _map(judged: _Judged, rank: int | None) -> Float64Array:
    hits = judged.hits[:, :rank]
    precisions = hits.cumsum(axis=1) / judged.ranks[:rank]
    return ratio((precisions * hits).sum(axis=1), judged.relevant)


def _recall(judged: _Judged, rank: int | None) -> Float64Array:
    return ratio(judged.hits[:, :rank].sum(axis=1).astype(np.float64), judged.relevant)


def _precision(judged: _Judged, rank: int | None) -> Float64Array:
    assert rank is not None
    fraction: Float64Array = judged.hits[:, :rank].sum(axis=1) / rank
    return fraction


# No ranking is longer; room is taken for so many ranks.
_DEEPEST = 1_000_000
_FORMULAS = {"ndcg": _ndcg, "mrr": _mrr, "map": _map, "recall": _recall, "precision": _precision}


def _notes(
    qrels: Qrels,
    rankings: Rankings,
    judged: _Judged,
    unjudged: int,
    name: str,
    primary: Float64Array,
) -> list[str]:
    """Which queries count 0 for want of something, and which do not count at all."""
    notes = [RULES]
    answerable = judged.relevant > 0
    if without := int((~answerable).sum()):
        shown = ""
        if answerable.any():
            shown = f"; over the others {name} is {number_text(float(primary[answerable].mean()))}"
        notes.append(
            f"{counted(without, 'query has', 'queries have')} no relevant document and "
            f"{'counts' if without == 1 else 'count'} 0{shown}."
        )
    if missing := sum(not rankings.get(query) for query in qrels):
        notes.append(
            f"for {counted(missing, 'query', 'queries')} nothing was found; "
            f"{'it counts' if missing == 1 else 'they count'} 0."
        )
    if unjudged:
        notes.append(
            f"{counted(unjudged, 'query has', 'queries have')} no judged document and "
            f"{'is' if unjudged == 1 else 'are'} left out."
        )
    return notes
