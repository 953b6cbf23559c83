"""Which label may stand behind which, as arrays in the order of a model's labels.

Shapes: K labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeworks.errors import SettingError
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


class AllowedTransitions(NamedTuple):
    """What is allowed.

    Attributes:
        start: Labels a sentence may begin with, (K,).
        move: Whether the label of the column may follow that of the row, (K, K).
        end: Labels a sentence may end with, (K,).
    """

    start: NDArray[np.bool_]
    move: NDArray[np.bool_]
    end: NDArray[np.bool_]

    def allow(self, path: NDArray[np.int64]) -> bool:
        """Says whether a sentence may have these labels."""
        if not len(path):
            return True
        ends = self.start[path[0]] and self.end[path[-1]]
        return bool(ends and self.move[path[:-1], path[1:]].all())


def transitions(
    labels: Sequence[str], scheme: Scheme, *, spelling: Spelling | None = None
) -> AllowedTransitions:
    """The moves a scheme allows between the labels of a model.

    Labels for padding and special tokens (`[CLS]`, `X`) are never allowed beside those of a scheme.

    Args:
        labels: In the order of the model's head.
        scheme: Whose rules count.
        spelling: How the labels are written; guessed from them if not given.

    Raises:
        SettingError: A label is none of the scheme, or sentences of some length could have no tags.
    """
    count = len(labels)
    if not scheme.begins:
        return AllowedTransitions(
            np.ones(count, bool), np.ones((count, count), bool), np.ones(count, bool)
        )
    spelling = spelling or spelling_of(labels) or Spelling()
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
            f"labels holds {label!r}, and the scheme is {scheme.name}; that has O and the letters "
            f"{known} beside a type; choose the scheme {scheme_of(labels)}, or rename the label."
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
            shown = ", ".join(labels[:12]) + (" and more" if len(labels) > 12 else "")
            raise SettingError(
                f"labels is {shown}; in {scheme.name} a sentence of {words} could have no tags; "
                "add the label O, or choose another scheme."
            )
        reached = np.logical_or.reduce(moves.move[reached], axis=0)
