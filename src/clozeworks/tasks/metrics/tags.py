"""How well every word is tagged: accuracy over words, for tags such as parts of speech.

Entities are another matter: most words are in none, so that accuracy says little about them.
"""

from collections.abc import Sequence

import numpy as np

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, intervals_from_sums, ratio
from clozeworks.tasks.metrics.measured import Measured


def token_accuracy(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    intervals: bool = False,
    seed: int = 0,
) -> Measured:
    """The share of words with the right tag, and of sentences where all are right.

    Sentences are what is counted and resampled: words of one sentence are not independent.

    Args:
        gold: The right tags of the words of each sentence.
        predicted: The given ones.
        intervals: Whether to say how sure the values are.
        seed: Decides the draws.

    Raises:
        InputError: There is not one tag for each word, or no words at all.
    """
    check_lengths(len(gold), len(predicted))
    rows = []
    for index, (due, given) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(due) != len(given):
            raise InputError(
                f"predicted, sentence {index:,}, has {len(given):,} tags and gold {len(due):,}; "
                "each word needs one of both; give O to words the model did not see."
            )
        right = sum(a == b for a, b in zip(due, given, strict=True))
        rows.append((right, len(due), right == len(due)))
    statistics = np.array(rows, dtype=np.float64)
    total = statistics.sum(axis=0)
    if total[1] == 0:
        raise InputError("the sentences have no words; there is nothing to measure; give some.")

    def values(sums: Float64Array) -> Values:
        right, words, whole = sums.T
        return {"token_accuracy": ratio(right, words), "sentence_accuracy": whole / len(rows)}

    return Measured(
        values={name: float(value[0]) for name, value in values(total[None]).items()},
        primary="token_accuracy",
        higher_is_better=True,
        count=len(rows),
        intervals=intervals_from_sums(statistics, values, seed=seed) if intervals else {},
    )
