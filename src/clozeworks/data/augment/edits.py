"""Edits of a text, the white space around words that change, and where positions are afterwards.

An edit says which characters go and what stands there instead. All edits of a text speak of the
text as it was, so none of them has to know of the others.

A deleted word takes one of its two gaps with it. No gap comes up before a comma or after an
opening bracket where there was none, none between Chinese characters, and no two words grow
together.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.data.labelled.items import Span
from clozeworks.text.characters import is_chinese


class Edit(NamedTuple):
    """Characters that go, and what stands there instead."""

    begin: int
    """The first character that goes."""
    end: int
    """After the last; the same as `begin` if something is only put in."""
    text: str
    """What stands there instead."""


class Edited:
    """A text with edits applied.

    Args:
        text: The text as it was.
        edits: In order and without overlap; several may put something in at the same position.

    Attributes:
        text: The text as it is now.
    """

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        bounds = [0, *(bound for edit in edits for bound in edit[:2]), len(text)]
        assert all(before <= after for before, after in pairwise(bounds)), "edits are in order"
        rest = [text[begin:end] for begin, end in zip(bounds[::2], bounds[1::2], strict=True)]
        put = [edit.text for edit in edits]
        self.text = rest[0] + "".join(a + b for a, b in zip(put, rest[1:], strict=True))
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
        """Where the piece of the text from `begin` to `end` is now.

        What is put in at its edges stays outside. Of a piece that was changed in part, what was not
        changed at its edges counts; one that was replaced exactly becomes its replacement.
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


# An edit; and of each word in its text the number of the old one, its begin and its end there.
Rewrite = tuple[Edit, list[tuple[int, int, int]]]


def rewrites(passage: Passage, changes: Changes) -> list[Rewrite]:
    """Turns changes of words into edits of the text, in order and without overlap."""
    return [_rewrite(passage, run, changes) for run in _runs(passage, sorted(changes))]


def _runs(passage: Passage, numbers: Sequence[int]) -> Iterator[list[int]]:
    """Groups words with nothing but white space between them."""
    run: list[int] = []
    for number in numbers:
        begin = passage.spans[number][0]
        if run and passage.text[passage.spans[run[-1]][1] : begin].strip():
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def _rewrite(passage: Passage, run: Sequence[int], changes: Changes) -> Rewrite:
    text = passage.text
    left, right = passage.gap_before(run[0]), passage.gap_after(run[-1])
    before, after = _before(text, left[0]), _after(text, right[1])
    inner = [(passage.spans[a][1], passage.spans[b][0]) for a, b in pairwise(run)]
    new, last = "", before
    words: list[tuple[int, int, int]] = []
    for number, gap in zip(run, [left, *inner], strict=True):
        for position, word in enumerate(changes[number]):
            # In front of the first word that stands, there is the gap of the whole run.
            beside = gap if words else left
            new += _beside(last, word) if position else _fitted(text, beside, last, word)
            words.append((number, len(new), len(new) + len(word)))
            new += word
            last = word
    if words:
        new += _fitted(text, right, last, after)
    else:
        new = _closed(text, left, inner, right)
    return Edit(left[0], right[1], new), words


def _beside(before: str, after: str) -> str:
    """What stands between a word and a new one."""
    return "" if is_chinese(before[-1:]) or is_chinese(after[:1]) else " "


def _fitted(text: str, gap: Span, before: str, after: str) -> str:
    """A gap as it was, if it suits the words that stand beside it now."""
    begin, end = gap
    if not before or not after:
        return text[begin:end]
    if begin == end:
        return " " if _is_letter(before[-1]) and _is_letter(after[0]) else ""
    # Texts in which Chinese words are kept apart by spaces stay so.
    were_chinese = is_chinese(_before(text, begin)) and is_chinese(_after(text, end))
    if text[begin:end] == " " and not were_chinese:
        return "" if is_chinese(before[-1]) and is_chinese(after[0]) else " "
    return text[begin:end]


def _closed(text: str, left: Span, inner: Sequence[Span], right: Span) -> str:
    """The one gap where words were deleted."""
    before, after = _before(text, left[0]), _after(text, right[1])
    has_left, has_right = left[0] < left[1], right[0] < right[1]
    if not has_right and after and _closes(after):
        return ""
    if not before or not after:
        return text[slice(*(right if before else left))]
    if not has_left and _opens(text, left[0]):
        return ""
    # The end of a line outlives the words beside it; otherwise the smaller gap stays.
    line_end = next((gap for gap in (left, *inner, right) if "\n" in text[slice(*gap)]), None)
    smallest = min((left, right), key=lambda gap: (gap[0] == gap[1], gap[1] - gap[0]))
    return _fitted(text, line_end or smallest, before, after)


def _before(text: str, position: int) -> str:
    return text[max(position - 1, 0) : position]


def _after(text: str, position: int) -> str:
    return text[position : position + 1]


def _closes(mark: str) -> bool:
    """Whether a mark belongs to what stands before it."""
    category = unicodedata.category(mark)
    return category.startswith("P") and category not in ("Ps", "Pi")


def _opens(text: str, end: int) -> bool:
    """Whether the marks before a position belong to what stands after them."""
    begin = end
    while begin and unicodedata.category(text[begin - 1]).startswith("P"):
        begin -= 1
    if begin == end:
        return False
    return unicodedata.category(text[end - 1]) in ("Ps", "Pi") or not _before(text, begin).strip()


def _is_letter(character: str) -> bool:
    """Whether a character would grow together with a letter beside it."""
    kind = unicodedata.category(character)
    return (kind[0] in "LNM" or character == "_") and not is_chinese(character)
