"""Which label may follow which, and the best tags of a sentence among those that are allowed.

Paper: Viterbi 1967.
The idea: the best path to a label is the best path to some label before it and one move. Moves
that a scheme forbids cost infinitely much, so no invalid tags can come out, and those that do come
out are the best of all valid ones.

Shapes: T words, K labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeworks.errors import SettingError, Stated
from clozeworks.tasks.labels.names import shown
from clozeworks.tasks.tagging.schemes import Scheme, scheme_of
from clozeworks.tasks.tagging.tags import (
    NO_TAG,
    NOT_TAGS,
    OUTSIDE,
    ParsedTag,
    Spelling,
    spelling_of,
)
from clozeworks.wording import counted

# Below this a score says impossible. It must stay finite: where everything is impossible, the rules
# still count. It must not be huge: beside it, other words' scores would be rounded away.
_LOWEST = -1e9


class AllowedTransitions(NamedTuple):
    """What is allowed."""

    start: NDArray[np.bool_]
    """Labels a sentence may begin with, (K,)."""
    move: NDArray[np.bool_]
    """Whether the label of the column may follow that of the row, (K, K)."""
    end: NDArray[np.bool_]
    """Labels a sentence may end with, (K,)."""

    def allow(self, path: NDArray[np.int64]) -> bool:
        """Whether a sentence may have these labels."""
        if not len(path):
            return True
        ends = self.start[path[0]] and self.end[path[-1]]
        return bool(ends and self.move[path[:-1], path[1:]].all())


def transitions(labels: Sequence[str], scheme: Scheme) -> AllowedTransitions:
    """The moves a scheme allows between the labels of a model, in the order of its head.

    Labels for padding and special tokens (`[CLS]`, `X`) are never allowed beside those of a scheme.

    Raises:
        SettingError: If a label is not one of the scheme, or sentences of some length could have no
            tags.
    """
    count = len(labels)
    if not scheme.begins:
        return AllowedTransitions(
            np.ones(count, bool), np.ones((count, count), bool), np.ones(count, bool)
        )
    spelling = spelling_of(labels) or Spelling()
    tags = [_tag_of(label, labels, scheme, spelling) for label in labels]
    moves = AllowedTransitions(
        np.array([_allowed(scheme, NO_TAG, tag) for tag in tags], bool),
        np.array([[_allowed(scheme, row, tag) for tag in tags] for row in tags], bool),
        np.array([_allowed(scheme, tag, NO_TAG) for tag in tags], bool),
    )
    _insist_on_paths(moves, labels, scheme)
    return moves


def _allowed(scheme: Scheme, previous: ParsedTag | None, tag: ParsedTag | None) -> bool:
    return previous is not None and tag is not None and scheme.may_follow(previous, tag)


def _tag_of(
    label: str, labels: Sequence[str], scheme: Scheme, spelling: Spelling
) -> ParsedTag | None:
    if label in NOT_TAGS and spelling.order != "bare":
        return None
    tag = spelling.read(label)
    if tag is None or tag.role not in scheme.roles + OUTSIDE:
        known = ", ".join(scheme.letters["BIES".index(role)] for role in scheme.roles)
        raise SettingError(
            "scheme",
            scheme.name,
            f"it has O and the letters {known} beside a type, and labels holds {label!r}",
            f"choose the scheme {scheme_of(labels)}, or rename the label",
        )
    return tag


def _insist_on_paths(moves: AllowedTransitions, labels: Sequence[str], scheme: Scheme) -> None:
    """Complains if there is a length that no allowed path has."""
    reached: NDArray[np.bool_] = moves.start
    seen: set[bytes] = set()
    # What can be reached with one word more depends only on what was reached: once a set comes
    # again, so does everything after it.
    while reached.tobytes() not in seen:
        seen.add(reached.tobytes())
        if not (reached & moves.end).any():
            words = counted(len(seen), "word")
            raise SettingError(
                "labels",
                Stated(shown(labels)),
                f"in {scheme.name} a sentence of {words} could have no tags",
                "add the label O, or choose another scheme",
            )
        reached = np.logical_or.reduce(moves.move[reached], axis=0)


class MoveScores(NamedTuple):
    """What a model learned about moves."""

    start: NDArray[np.floating]
    """A score for beginning with each label, (K,)."""
    move: NDArray[np.floating]
    """A score for going from the label of the row to that of the column, (K, K)."""
    end: NDArray[np.floating]
    """A score for ending with each label, (K,)."""


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
    assert not np.isnan(scores).any(), "scores that are not numbers have no best path"
    plain: NDArray[np.int64] = scores.argmax(axis=1)
    if not len(plain) or (learned is None and moves.allow(plain)):
        return plain  # nothing is better than the best of every word
    start, move, end = (np.where(allowed, 0.0, -np.inf) for allowed in moves)
    if learned is not None:
        start, move, end = start + learned.start, move + learned.move, end + learned.end
    scores = np.maximum(scores, _LOWEST, dtype=np.float64)
    scores -= scores.max(axis=1, keepdims=True)  # a word's scores may all be shifted
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
