"""How well candidates are put in order, beside the order they came in.

The idea: each query has a list of candidates from a first stage, and a second one scores them. What
counts is how far up the relevant ones stand, before and after. The rules are those of `retrieval`;
candidates have no ids, so that of equal scores the later candidate comes first: lists with the
right ones in front gain nothing from ties.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import check_lengths
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.metrics.retrieval import RULES, ranking_quality

T = TypeVar("T")

USUAL = ("map", "mrr@10", "ndcg@10")
FIRST_STAGE = "first_stage_"
_RULES = RULES.replace("ordered by id, descending", "in the reversed order of the candidates")


def reranking(
    grades: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float] | Float64Array],
    first_stage: Sequence[Sequence[float] | Float64Array] | None = None,
    metrics: Sequence[str] = USUAL,
    *,
    intervals: bool = False,
) -> Measured:
    """How good the order of candidates is by their scores, and by those of a first stage.

    Args:
        grades: How relevant each candidate of each query is; from 1 on it is relevant.
        scores: How good the model says each is.
        first_stage: How good the first stage said each is, to stand beside it.
        metrics: As for `retrieval`; the first decides.
        intervals: Whether intervals are wanted, by resampling queries.

    Raises:
        InputError: If there are no queries, they are not as many, or a score is not a number.
    """
    measured = _measured(grades, scores, metrics, intervals)
    if first_stage is None:
        return measured
    return beside(measured, _measured(grades, first_stage, metrics, intervals))


def beside(measured: Measured, before: Measured) -> Measured:
    """What was measured after reranking, with the values of the first stage beside it."""
    return replace(
        measured,
        values=measured.values | _named(before.values),
        intervals=measured.intervals | _named(before.intervals),
        resamples=measured.resamples | _named(before.resamples),
    )


def _measured(
    grades: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float] | Float64Array],
    metrics: Sequence[str],
    intervals: bool,
) -> Measured:
    check_lengths(len(grades), len(scores))
    qrels, rankings = {}, {}
    for number, (known, given) in enumerate(zip(grades, scores, strict=True)):
        values = np.asarray(given, np.float32)
        if len(known) != len(values) or np.isnan(values).any():
            raise InputError(
                f"query {number + 1:,} has {len(known):,} candidates and {len(values):,} scores; "
                "each candidate needs one that is a number."
            )
        query = str(number)
        qrels[query] = dict(zip(map(str, range(len(known))), known, strict=True))
        rankings[query] = [str(each) for each in np.lexsort((-np.arange(len(values)), -values))]
    measured = ranking_quality(qrels, rankings, metrics, intervals=intervals)
    return replace(measured, notes=(_RULES, *measured.notes[1:]))


def _named(values: Mapping[str, T]) -> dict[str, T]:
    return {FIRST_STAGE + name: value for name, value in values.items()}
