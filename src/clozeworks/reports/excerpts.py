"""A text with some stretches marked, shortened to what stands around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clozeworks.tasks.results.details import Mark, MarkedText

# Characters on each side of an end of a mark, and of a text without marks.
AROUND = 140
WITHOUT_MARKS = 420
# How far a cut may move to fall between words.
_STRETCH = 15


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a text in which the same marks hold."""

    text: str
    kinds: tuple[str, ...] = ()
    """What they are marked as; none if they are not."""
    names: tuple[Mark, ...] = ()
    """The marks with a name that end here."""


_ELLIPSIS = TextPiece("…")


def excerpt(marked: MarkedText) -> list[TextPiece]:
    """What stands around the marks of a text; what is left out is an ellipsis."""
    pieces, before = [], 0
    for begin, end in kept(marked):
        pieces += [_ELLIPSIS] if begin > before else []
        pieces += _pieces(marked, begin, end)
        before = end
    return [*pieces, _ELLIPSIS] if before < len(marked.text) else pieces


def kept(marked: MarkedText) -> list[tuple[int, int]]:
    """The stretches of a text that are shown, in order and apart from each other."""
    text, size = marked.text, len(marked.text)
    if not marked.marks:
        if size <= WITHOUT_MARKS:
            return [(0, size)]
        # The beginning says what it is about, the end often what it comes to.
        head, tail = 2 * WITHOUT_MARKS // 3, size - WITHOUT_MARKS // 3
        return _joined([(0, _cut(text, head, 1)), (_cut(text, tail, -1), size)])
    ends = [position for mark in marked.marks for position in (mark.begin, mark.end)]
    wanted = ((max(0, position - AROUND), min(size, position + AROUND)) for position in ends)
    return _joined([(_cut(text, begin, -1), _cut(text, end, 1)) for begin, end in wanted])


def _cut(text: str, position: int, step: int) -> int:
    """The nearest position between words in a direction; the position itself if there is none."""
    here = position
    for _ in range(_STRETCH):
        if not 0 < here < len(text) or text[here - 1].isspace():
            return min(max(here, 0), len(text))
        here += step
    return position


def _pieces(marked: MarkedText, begin: int, end: int) -> list[TextPiece]:
    ends = {position for mark in marked.marks for position in (mark.begin, mark.end)}
    borders = sorted({begin, end, *(position for position in ends if begin < position < end)})
    pieces = []
    for first, last in pairwise(borders):
        marks = [mark for mark in marked.marks if mark.begin <= first and last <= mark.end]
        kinds = tuple(dict.fromkeys(mark.kind for mark in marks))
        names = tuple(mark for mark in marks if mark.name and mark.end == last)
        pieces.append(TextPiece(marked.text[first:last], kinds, names))
    return pieces


def _joined(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(stretches):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
