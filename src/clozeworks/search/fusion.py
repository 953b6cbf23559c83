"""Reciprocal rank fusion: several rankings become one, whatever their scores mean.

Paper: Cormack, Clarke and Büttcher 2009. A document's score is the sum over rankings of
1 / (60 + rank), ranks from 1; a ranking that does not have it adds nothing.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

CONSTANT = 60

Ranked = TypeVar("Ranked", bound=Hashable)


def fuse(rankings: Sequence[Sequence[Ranked]]) -> dict[Ranked, float]:
    """The score of everything that stands in one of the rankings."""
    scores: dict[Ranked, float] = defaultdict(float)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] += 1 / (CONSTANT + rank)
    return dict(scores)
