"""Entities of a sentence from its tags, and how many were found.

The idea: what is scored is the whole entity, its type and both of its ends. Tags that break the
rules of their scheme are read as `conlleval` and `seqeval` read them, so that scores can be
compared with published ones; `seqeval`'s strict mode is `invalid="drop"`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.tagging.schemes import BIO, Scheme
from clozeworks.tasks.tagging.tags import (
    NO_TAG,
    OUTSIDE,
    PLAIN_SPELLING,
    EntitySpan,
    ParsedTag,
    Spelling,
    spelling_of,
)

Invalid = Literal["promote", "drop", "refuse"]


def entities_of(
    labels: Sequence[str],
    scheme: Scheme = BIO,
    *,
    spelling: Spelling | None = None,
    invalid: Invalid = "promote",
) -> list[EntitySpan]:
    """The entities of a sentence.

    Args:
        labels: The tag of each word.
        scheme: Whose rules count. Those of conlleval are the same for all, so the scheme matters
            only where broken rules do.
        spelling: How the tags are written; guessed from them if not given.
        invalid: What becomes of tags that break the rules: `promote` lets an entity begin
            wherever its type does (conlleval), `drop` leaves out what is not spelled right
            (seqeval's strict mode), `refuse` complains.

    Raises:
        InputError: A tag cannot be read, or breaks the rules and that is refused.
        SettingError: The scheme has no entities.
        UnknownName: `invalid` is something else.
    """
    if invalid not in get_args(Invalid):
        raise UnknownName("invalid", invalid, get_args(Invalid))
    scheme.insist_on_entities()
    spelling = spelling or spelling_of(labels) or PLAIN_SPELLING
    tags = spelling.read_all(labels)
    if invalid == "promote":
        return promoted(tags)
    if invalid == "refuse":
        _insist_on_rules(tags, labels, scheme)
    return scheme.spans(tags)


def promoted(tags: Sequence[ParsedTag]) -> list[EntitySpan]:
    """The entities of a sentence as conlleval reads them; every tag but O is part of one."""
    found = []
    begin = 0
    for index, (previous, tag) in enumerate(zip([NO_TAG, *tags], [*tags, NO_TAG], strict=True)):
        if _is_one(previous, tag):
            continue
        if previous.role != OUTSIDE:
            found.append(EntitySpan(previous.type, begin, index))
        begin = index
    return found


def _is_one(previous: ParsedTag, tag: ParsedTag) -> bool:
    """Says whether two neighbours belong to one entity, or both to none."""
    if previous.role == OUTSIDE or tag.role == OUTSIDE:
        return previous.role == tag.role
    return previous.role in "BI" and tag.role in "IE" and previous.type == tag.type


def _insist_on_rules(tags: Sequence[ParsedTag], labels: Sequence[str], scheme: Scheme) -> None:
    position = scheme.fault(tags)
    if position is None:
        return
    if position == len(tags):
        what = f"word {position:,}: the sentence ends with {labels[-1]}"
    elif position == 0:
        what = f"word 1: the sentence begins with {labels[0]}"
    else:
        what = f"word {position + 1:,}: {labels[position]} stands behind {labels[position - 1]}"
    raise InputError(
        f"{what}; {scheme.name} does not allow it; correct the tag, choose another scheme, or "
        "read it as conlleval does with invalid='promote'."
    )


@dataclass(frozen=True)
class EntityCounts:
    """How many entities there are of each type in each sentence.

    Attributes:
        types: The types, sorted.
        table: Right, predicted and gold ones, (sentences, types, 3). A sum over any sentences
            gives their scores, so intervals can be drawn from it.
    """

    types: tuple[str, ...]
    table: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EntityScores:
    """Precision, recall and F1 of entities; 0 where there is nothing to divide by."""

    precision: float
    recall: float
    f1: float
    gold: int


def entity_counts(
    gold: Sequence[Sequence[EntitySpan]], predicted: Sequence[Sequence[EntitySpan]]
) -> EntityCounts:
    """Counts entities that are right: same sentence, type, first and last word.

    Args:
        gold: The entities of each sentence.
        predicted: What was found in each.

    Raises:
        InputError: The two have different numbers of sentences.
    """
    if len(gold) != len(predicted):
        raise InputError(
            f"there are gold entities of {len(gold):,} sentences and predicted ones of "
            f"{len(predicted):,}; they must be the same sentences; give an empty list where "
            "nothing was found."
        )
    both = (*gold, *predicted)
    types = sorted({entity.type for entities in both for entity in entities})
    column = {name: number for number, name in enumerate(types)}
    table = np.zeros((len(gold), len(types), 3), dtype=np.int64)
    for row, right, found in zip(table, map(set, gold), map(set, predicted), strict=True):
        for number, entities in enumerate((right & found, found, right)):
            for entity in entities:
                row[column[entity.type], number] += 1
    return EntityCounts(tuple(types), table)


def precision_recall_f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Right, predicted and gold counts (..., 3) to precision, recall and F1 (..., 3)."""
    right, predicted, gold = np.moveaxis(counts, -1, 0)
    parts = [(right, predicted), (right, gold), (2 * right, predicted + gold)]
    return np.stack([above / np.maximum(below, 1) for above, below in parts], axis=-1)


def scores_by_type(counts: EntityCounts) -> dict[str, EntityScores]:
    """The scores of each type that is in gold or prediction."""
    sums = counts.table.sum(axis=0)
    return {
        name: _scores(rates, row[2])
        for name, rates, row in zip(counts.types, precision_recall_f1(sums), sums, strict=True)
    }


def micro_scores(counts: EntityCounts) -> EntityScores:
    """The scores of all entities together: what papers report."""
    sums = counts.table.sum(axis=(0, 1))
    return _scores(precision_recall_f1(sums), sums[2])


def macro_scores(counts: EntityCounts) -> EntityScores:
    """The mean of the scores of all types, each counting the same."""
    sums = counts.table.sum(axis=0)
    rates = precision_recall_f1(sums)
    return _scores(rates.mean(axis=0) if len(rates) else np.zeros(3), sums[:, 2].sum())


def _scores(rates: NDArray[np.float64], gold: np.int64) -> EntityScores:
    precision, recall, f1 = rates.tolist()
    return EntityScores(precision, recall, f1, int(gold))
