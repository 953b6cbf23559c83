"""How good the scores of query-document pairs are, by what is known of them.

| rows | measured by |
|---|---|
| queries with several documents, labels 0, 1 or grades | MAP, MRR@10 and nDCG@10 |
| pairs of different queries with 0 or 1 | average precision |
| pairs with any other number | Spearman correlation of score and number |

The documents of a query may stand in one row or in several. Where a first stage's scores are known,
the order it gave is measured beside the new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.metrics.pairs import similar_pairs
from clozeworks.tasks.metrics.reranking import reranking
from clozeworks.tasks.metrics.sts import sts
from clozeworks.tasks.rerank.items import RerankItem
from clozeworks.wording import counted


@dataclass
class Candidates:
    """The documents of a query, wherever they stood."""

    grades: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    first_stage: list[float] = field(default_factory=list)


def measure_scores(
    items: Sequence[RerankItem], scores: Sequence[Sequence[float]], *, intervals: bool = False
) -> Measured:
    """Measures scores, one for each document of an item, by what the items say of them.

    Raises:
        InputError: If there are no items, or one has no labels.
    """
    if not items:
        raise InputError("there are no rows to measure; give at least one.")
    gold = [number for item in items for number in numbers_of(item)]
    flat = [score for each in scores for score in each]
    if any(label < 0 or label != int(label) for label in gold):
        return sts(gold, flat, intervals=intervals)
    queries = by_query(items, scores)
    if not are_lists(queries):
        if not {*gold} <= {0.0, 1.0}:
            return sts(gold, flat, intervals=intervals)
        return similar_pairs([int(label) for label in gold], flat, intervals=intervals)
    known = all(item.first_stage for item in items)
    measured = reranking(
        [each.grades for each in queries],
        [each.scores for each in queries],
        [each.first_stage for each in queries] if known else None,
        intervals=intervals,
    )
    several = counted(len(queries), "query", "queries")
    count = sum(len(each.grades) for each in queries)
    note = f"{several} with {counted(count, 'document')} to put in order."
    return replace(measured, notes=(note, *measured.notes))


def by_query(items: Sequence[RerankItem], scores: Sequence[Sequence[float]]) -> list[Candidates]:
    """The candidates of each query, in the order in which queries first come."""
    queries: dict[str, Candidates] = {}
    seen: set[tuple[str, str]] = set()
    for item, own in zip(items, scores, strict=True):
        candidates = queries.setdefault(item.query, Candidates())
        for place, (document, grade) in enumerate(
            zip(item.documents, numbers_of(item), strict=True)
        ):
            if (item.query, document) in seen:  # a positive that stands in several rows
                continue
            seen.add((item.query, document))
            candidates.grades.append(int(grade))
            candidates.scores.append(own[place])
            candidates.first_stage += item.first_stage[place : place + 1]
    return list(queries.values())


def are_lists(queries: Sequence[Candidates]) -> bool:
    """Whether most queries have several documents, so that there is an order to judge."""
    return 2 * sum(len(each.grades) > 1 for each in queries) > len(queries)


def numbers_of(item: RerankItem) -> tuple[float, ...]:
    """What is right for each document: its label, or what a teacher says of it.

    Raises:
        InputError: If that is not known.
    """
    known = item.known if item.label is None else item.label
    if known is None or isinstance(known, str):
        where = item.source_location or "the item"
        raise InputError(f"{where} has no label; give its document 0, 1, a grade or a number.")
    return tuple(known)
