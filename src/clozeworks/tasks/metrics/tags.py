"""How well words are tagged: accuracy over words, and precision, recall and F1 of entities.

The idea: what is scored is the whole entity, its type and both of its ends. Most words are in no
entity, so that accuracy says little about them. Sentences are what is counted and resampled: words
and entities of one sentence are not independent of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, measured_from_sums, ratio
from clozeworks.tasks.metrics.labels import Tallies
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.tagging.tags import EntitySpan


def token_accuracy(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, intervals: bool = False
) -> Measured:
    """The fraction of words with the right tag, and of sentences where all are right.

    Raises:
        InputError: If there is not one tag for each word, or no words at all.
    """
    check_lengths(len(gold), len(predicted))
    rows = []
    for index, (right, predictions) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(right) != len(predictions):
            raise InputError(
                f"predicted, sentence {index:,}, has {len(predictions):,} tags and gold "
                f"{len(right):,}; each word needs one of both; give O to words the model did not "
                "see."
            )
        correct = sum(a == b for a, b in zip(right, predictions, strict=True))
        rows.append((correct, len(right), correct == len(right)))
    if not any(words for _, words, _ in rows):
        raise InputError("the sentences have no words; there is nothing to measure; give some.")

    def values(sums: Float64Array) -> Values:
        correct, words, whole = sums.T
        return {"token_accuracy": ratio(correct, words), "sentence_accuracy": whole / len(rows)}

    statistics = np.array(rows, dtype=np.float64)
    return measured_from_sums(statistics, values, "token_accuracy", intervals=intervals)


@dataclass(frozen=True)
class EntityCounts:
    """How many entities there are of each type in each sentence."""

    types: tuple[str, ...]
    """The types, sorted."""
    table: NDArray[np.int64]
    """Correct, predicted and gold ones, (sentences, types, 3). A sum over any sentences gives their
    scores, so intervals can be drawn from it."""

    @property
    def tallies(self) -> Tallies:
        """The counts of each type over all sentences."""
        return Tallies(*self.table.sum(axis=0).T.astype(np.float64))


def entity_counts(
    gold: Sequence[Sequence[EntitySpan]], predicted: Sequence[Sequence[EntitySpan]]
) -> EntityCounts:
    """Counts entities of each sentence; one is correct with the same type, first and last word.

    Raises:
        InputError: If the two have different numbers of sentences.
    """
    if len(gold) != len(predicted):
        raise InputError(
            f"there are gold entities of {len(gold):,} sentences and predicted ones of "
            f"{len(predicted):,}; they must be the same sentences; give an empty list where "
            "nothing was found."
        )
    types = sorted({entity.type for entities in (*gold, *predicted) for entity in entities})
    column = {name: number for number, name in enumerate(types)}
    table = np.zeros((len(gold), len(types), 3), dtype=np.int64)
    for row, right, predictions in zip(table, map(set, gold), map(set, predicted), strict=True):
        for number, entities in enumerate((right & predictions, predictions, right)):
            for entity in entities:
                row[column[entity.type], number] += 1
    return EntityCounts(tuple(types), table)


def entity_f1(counts: EntityCounts, *, intervals: bool = False) -> Measured:
    """Precision, recall and F1 of all entities together, the mean F1 of types, and F1 of each.

    Raises:
        InputError: If there are no sentences.
    """
    statistics = counts.table.sum(axis=1).astype(np.float64)
    check_lengths(len(statistics), len(statistics))
    _, predicted, gold = statistics.sum(axis=0)
    notes = []
    if predicted == 0:
        notes.append("nothing was found; precision and F1 are 0.")
    if gold == 0:
        notes.append("there was nothing to find; recall and F1 are 0.")
    measured = measured_from_sums(statistics, _f1, "f1", intervals=intervals, notes=notes)
    tallies = counts.tallies
    by_type = zip(counts.types, tallies.f1.tolist(), strict=True)
    more = {"macro_f1": float(tallies.macro_f1()), **{f"f1 {name}": f1 for name, f1 in by_type}}
    return replace(measured, values={**measured.values, **more})


def _f1(sums: Float64Array) -> Values:
    correct, predicted, gold = sums.T
    return {
        "precision": ratio(correct, predicted),
        "recall": ratio(correct, gold),
        "f1": ratio(2 * correct, predicted + gold),
    }
