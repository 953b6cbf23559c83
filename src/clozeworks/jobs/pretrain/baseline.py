"""What guessing by frequency alone costs: the line a model must get below to have learnt anything.

The guess is the same at every gap: each token with its share of the training text. A small model
sits on this plateau for a while before it begins to use the context. Where answers hold special
tokens that no text has, such as sentinels and ends, these have their share of the questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import TRAIN, Corpus
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.objectives.batch import ANSWERS, Batch

# Tokens that are counted at the most; more would change the shares in the fourth digit.
_MOST = 50_000_000
# The questions that are answered with a token; those whose answers are texts.
WRITTEN = ("causal_lm", "span_corruption", "prefix_lm", "denoisers")
NAMING = ("masked_lm", "permuted_lm", *WRITTEN)


@dataclass(frozen=True)
class Baseline:
    """The cost of guessing by frequency."""

    loss: float
    """Of a question about the held-out text."""
    accuracy: float
    """The share that the most frequent token answers."""
    uniform: float
    """The cost of guessing every token alike."""
    part: str = NAMING[0]
    """Whose questions these are."""


def unigram_baseline(
    corpus: Corpus, held_out: Sequence[Batch], ranks: ProcessGroup
) -> Baseline | None:
    """The baseline of the questions of some batches; None if they ask for no tokens.

    All ranks must call it.
    """
    part = next((part for part in NAMING for piece in held_out if part in piece.targets), NAMING[0])
    asked = [piece.targets[part][ANSWERS] for piece in held_out if part in piece.targets]
    answers = np.concatenate(asked) if asked else np.zeros(0, np.int64)
    (questions,) = ranks.summed([len(answers)])
    if not questions:
        return None
    counts = _counts(corpus)
    shares = (counts + 1) / (counts.sum() + len(counts))  # so that no token is impossible
    if part in WRITTEN:
        added = np.flatnonzero(counts == 0)
        added = added[np.isin(added, list(corpus.tokenizer.special_ids))]
        own = [float((answers == one).sum()) for one in added]
        asked_for = np.array(ranks.summed([*own, 0.0])[:-1]) / questions
        shares *= 1 - asked_for.sum()
        shares[added] = asked_for
    costs = float(-np.log(shares[answers]).sum())
    cost, right = ranks.summed([costs, float((answers == shares.argmax()).sum())])
    return Baseline(cost / questions, right / questions, float(np.log(len(counts))), part)


def _counts(corpus: Corpus) -> Int64Array:
    split = corpus.split(TRAIN)
    counts = np.zeros(corpus.tokenizer.size, np.int64)
    left = _MOST
    for shard in split.shards:
        tokens = shard.read("tokens", 0, left)
        counts += np.bincount(tokens, minlength=len(counts))
        left -= len(tokens)
        if left <= 0:
            break
    return counts
