"""A text with some stretches marked, shortened to what stands around them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

# Characters on each side of an end of a mark, and of a text without marks.
AROUND = 140
WITHOUT_MARKS = 420
# How far a cut may move to fall between words.
_STRETCH = 15


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a text that is shown as something.

    Attributes:
        begin: Its first character.
        end: Behind its last.
        kind: What it is: gold or said.
        name: A word that is put behind it, such as the type of an entity.
    """

    begin: int
    end: int
    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A text and what is marked in it.

    Attributes:
        text: The whole text.
        marks: What is marked, in any order; stretches may overlap.
    """

    text: str
    marks: tuple[Mark, ...] = ()

    def html(self) -> str:
        """What stands around the marks, as HTML; what is left out is an ellipsis."""
        parts, before = [], 0
        for begin, end in self.kept():
            parts.append("…" if begin > before else "")
            parts.append(self._between(begin, end))
            before = end
        parts.append("…" if before < len(self.text) else "")
        return "".join(parts)

    def kept(self) -> list[tuple[int, int]]:
        """The stretches of the text that are shown, in order and apart from each other."""
        size = len(self.text)
        if not self.marks:
            if size <= WITHOUT_MARKS:
                return [(0, size)]
            # The beginning says what it is about, the end often what it comes to.
            head, tail = 2 * WITHOUT_MARKS // 3, size - WITHOUT_MARKS // 3
            return _joined([(0, self._cut(head, 1)), (self._cut(tail, -1), size)])
        ends = [place for mark in self.marks for place in (mark.begin, mark.end)]
        wanted = ((max(0, place - AROUND), min(size, place + AROUND)) for place in ends)
        return _joined([(self._cut(begin, -1), self._cut(end, 1)) for begin, end in wanted])

    def _cut(self, place: int, step: int) -> int:
        """The nearest place between words in a direction; the place itself if there is none."""
        here = place
        for _ in range(_STRETCH):
            if not 0 < here < len(self.text) or self.text[here - 1].isspace():
                return min(max(here, 0), len(self.text))
            here += step
        return place

    def _between(self, begin: int, end: int) -> str:
        borders = {begin, end}
        borders |= {
            place for mark in self.marks for place in (mark.begin, mark.end) if begin < place < end
        }
        return "".join(self._piece(first, last) for first, last in pairwise(sorted(borders)))

    def _piece(self, begin: int, end: int) -> str:
        """A stretch in which the same marks hold."""
        held = [mark for mark in self.marks if mark.begin <= begin and end <= mark.end]
        text = escape(self.text[begin:end])
        if not held:
            return text
        kinds = " ".join(dict.fromkeys(mark.kind for mark in held))
        names = "".join(
            f'<small class="{mark.kind}">{escape(mark.name)}</small>'
            for mark in held
            if mark.name and mark.end == end
        )
        return f'<mark class="{kinds}">{text}</mark>{names}'


def excerpt(text: str, marks: Iterable[Mark] = ()) -> Excerpt:
    """A text with marks; those that have no characters are left out."""
    return Excerpt(text, tuple(mark for mark in marks if mark.begin < mark.end))


def _joined(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
