"""The best tags of a sentence that the rules allow, and how probable each is.

Paper: Viterbi 1967; Rabiner 1989 (forward and backward sums).
The idea: the best path to a label is the best path to some label before it and one move. Moves
that a scheme forbids cost infinitely much, so no invalid tags can come out, and those that do come
out are the best of all valid ones.

Shapes: T words, K labels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.tasks.tagging.transitions import AllowedTransitions

# Below this a score says impossible. It must stay finite: where everything is impossible, the rules
# still count. It must not be huge: beside it, other words' scores would be rounded away.
_LOWEST = -1e9


class MoveScores(NamedTuple):
    """What a model learned about moves.

    Attributes:
        start: A score for beginning with each label, (K,).
        move: A score for going from the label of the row to that of the column, (K, K).
        end: A score for ending with each label, (K,).
    """

    start: NDArray[np.floating]
    move: NDArray[np.floating]
    end: NDArray[np.floating]


def best_path(
    scores: NDArray[np.floating], moves: AllowedTransitions, learned: MoveScores | None = None
) -> NDArray[np.int64]:
    """The allowed labels with the highest sum of scores.

    Args:
        scores: A log-probability, or any score, of each label for each word, (T, K).
        moves: What is allowed.
        learned: Scores of moves that are added, if the model has them.

    Returns:
        The number of each word's label, (T,).
    """
    assert not np.isnan(scores).any(), "scores that are no numbers have no best path"
    plain: NDArray[np.int64] = scores.argmax(axis=1)
    if not len(plain) or (learned is None and moves.allow(plain)):
        return plain  # nothing is better than the best of every word
    start, move, end = _costs(moves, learned)
    scores = _finite(scores)
    words, labels = scores.shape
    came_from = np.empty((words, labels), dtype=np.int64)
    best = start + scores[0]
    columns = np.arange(labels)
    for word in range(1, words):
        joined = best[:, None] + move  # (K, K)
        came_from[word] = joined.argmax(axis=0)
        best = joined[came_from[word], columns] + scores[word]
    best = best + end
    assert np.isfinite(best).any(), "these moves allow no path of this length"
    path = np.full(words, best.argmax(), dtype=np.int64)
    for word in range(words - 1, 0, -1):
        path[word - 1] = came_from[word, path[word]]
    return path


def marginals(
    scores: NDArray[np.floating], moves: AllowedTransitions, learned: MoveScores | None = None
) -> Float64Array:
    """The probability of each label for each word among all allowed paths, (T, K).

    Args:
        scores: A log-probability, or any score, of each label for each word, (T, K).
        moves: What is allowed.
        learned: Scores of moves that are added, if the model has them.
    """
    start, move, end = _costs(moves, learned)
    scores = _finite(scores)
    both = scores.copy()
    before, after = start, end
    for word in range(len(scores)):
        both[word] += before
        before = _log_sum((before + scores[word])[:, None] + move)
    for word in reversed(range(len(scores))):
        both[word] += after
        after = _log_sum((after + scores[word])[:, None] + move.T)
    weights = np.exp(both - both.max(axis=1, keepdims=True))
    probabilities: Float64Array = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def path_probabilities(
    path: NDArray[np.int64],
    scores: NDArray[np.floating],
    moves: AllowedTransitions,
    learned: MoveScores | None = None,
) -> Float64Array:
    """The probability of each word's label in a path, among all allowed paths, (T,).

    Args:
        path: The number of each word's label, (T,).
        scores: As they were for `best_path`.
        moves: What is allowed.
        learned: Scores of moves that are added, if the model has them.
    """
    probabilities: Float64Array = marginals(scores, moves, learned)[np.arange(len(path)), path]
    return probabilities


def _finite(scores: NDArray[np.floating]) -> Float64Array:
    """The same scores for every purpose here: a word's scores may all be shifted."""
    finite: Float64Array = np.maximum(scores, _LOWEST, dtype=np.float64)
    finite -= finite.max(axis=1, keepdims=True)
    return finite


def _costs(
    moves: AllowedTransitions, learned: MoveScores | None
) -> tuple[Float64Array, Float64Array, Float64Array]:
    allowed = [np.where(mask, 0.0, -np.inf) for mask in moves]
    if learned is not None:
        allowed = [mask + score for mask, score in zip(allowed, learned, strict=True)]
    start, move, end = allowed
    return start, move, end


def _log_sum(x: Float64Array) -> Float64Array:
    """The logarithm of the sum of exp over the rows: (n, m) to (m,)."""
    highest = x.max(axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        total: Float64Array = np.log(np.exp(x - highest).sum(axis=0)) + highest
    return total
