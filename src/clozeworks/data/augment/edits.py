"""Edits of a text, and where its positions are afterwards.

An edit says which characters go and what stands there instead. All edits of a text speak of the
text as it was, so none of them has to know of the others.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple


class Edit(NamedTuple):
    """Characters that go, and what stands there instead.

    Attributes:
        begin: The first character that goes.
        end: After the last; the same as `begin` if something is only put in.
        text: What stands there instead.
    """

    begin: int
    end: int
    text: str


class Edited:
    """A text with edits applied.

    Attributes:
        text: The text as it is now.
    """

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        """Applies edits.

        Args:
            text: The text as it was.
            edits: In order and without overlap; several may put something in at the same place.
        """
        bounds = [0, *(bound for edit in edits for bound in edit[:2]), len(text)]
        assert all(before <= after for before, after in pairwise(bounds)), "edits are in order"
        kept = [text[begin:end] for begin, end in zip(bounds[::2], bounds[1::2], strict=True)]
        put = [edit.text for edit in edits]
        self.text = kept[0] + "".join(a + b for a, b in zip(put, kept[1:], strict=True))
        self._begins = [edit.begin for edit in edits]
        self._ends = [edit.end for edit in edits]
        self._sizes = list(map(len, put))
        # How far what stands after the first n edits has moved.
        grown = (len(edit.text) - (edit.end - edit.begin) for edit in edits)
        self._moves = list(accumulate(grown, initial=0))

    def landing(self, number: int) -> int:
        """Where the new characters of an edit begin now."""
        return self._begins[number] + self._moves[number]

    def moved(self, begin: int, end: int) -> tuple[int, int]:
        """Where a piece of the text is now.

        What is put in at its edges stays outside. Of a piece that was changed in part, what was not
        changed at its edges counts; one that was replaced exactly becomes its replacement.

        Args:
            begin: Where the piece began.
            end: Where it ended.

        Returns:
            Where it begins and ends.
        """
        first = self._moved_begin(begin)
        return first, max(first, self._moved_end(end))

    def _moved_begin(self, position: int) -> int:
        number = bisect_right(self._ends, position)  # the edits that end here or before
        if number < len(self._begins) and self._begins[number] < position:
            return self.landing(number) + self._sizes[number]
        return position + self._moves[number]

    def _moved_end(self, position: int) -> int:
        number = bisect_left(self._begins, position)  # the edits that begin before
        if number and self._ends[number - 1] > position:
            return self.landing(number - 1)
        return position + self._moves[number]
