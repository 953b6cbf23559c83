"""Long texts as overlapping windows; no text is ever cut without a word.

Paper: Devlin et al. 2019 (the released SQuAD code); Sun et al. 2019 (a long text cut to its
beginning, its end, or some of both).
The idea: a text that does not fit is read through windows that overlap, and each token is judged in
the window where it has most context. What stands before and after the text (special tokens, a
question) stands in every window. Where a text is judged as a whole, it may be cut to one window
instead: `keep` says which part of it stays.
Used by: every task.

Shapes: T tokens of the text that moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Literal

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.errors import InputError, SettingError
from clozeworks.spec import NonNegativeInt, PositiveInt, spec
from clozeworks.text.tokenizer.encoding import Encoded, lengths
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.valid import location_of
from clozeworks.text.windows import most_context, sliding_windows

# The least tokens of the moving text a window must have room for.
_LEAST = 8

MovingSide = Literal["only", "second", "longer"]
Keep = Literal["all", "first", "last", "both"]


@spec
class Windows:
    """How long texts are read."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    length: PositiveInt | None = None
    """The most tokens of a window, special ones among them; what the model takes if not given."""
    overlap: NonNegativeInt | None = None
    """Tokens that neighbouring windows share; a quarter of the room if not given."""
    step: PositiveInt | None = None
    """How far the next window begins, instead of an overlap; at most the room of a window."""
    keep: Keep = "all"
    """What is read of a text that does not fit into one window, where texts are classified: all of
    it, through several; or one window with the first tokens, the last, or some of both."""
    keep_first: PositiveInt | None = None
    """With keep = "both": how many tokens of the beginning stay; the others are of the end. Half of
    the room if not given."""

    def __post_init__(self) -> None:
        if self.keep_first is not None and self.keep != "both":
            rule = f"`keep` is {self.keep!r}, and it has an effect only with 'both'"
            raise SettingError("keep_first", self.keep_first, rule, "leave one of them out")
        for name in ("overlap", "step"):
            if self.keep != "all" and (value := getattr(self, name)) is not None:
                rule = f"`keep` is {self.keep!r}, and one window overlaps with none"
                raise SettingError(name, value, rule, "leave one of them out")
        if self.overlap is not None and self.step is not None:
            rule = f"`step` is {self.step:,}; one follows from the other"
            raise SettingError("overlap", self.overlap, rule, "leave one out")

    def limit(self, max_length: int | None) -> int | None:
        """The tokens of a window in a model that takes at most so many.

        Raises:
            SettingError: If the model takes fewer than `length`.
        """
        if self.length is None:
            return max_length
        if max_length is not None and self.length > max_length:
            rule = f"this model takes at most {max_length:,} tokens"
            raise SettingError("windows.length", self.length, rule, "lower it")
        return self.length

    def refuse_cutting(self, reason: str) -> None:
        """Complains if texts are to be cut where, for a stated reason, they cannot be.

        Raises:
            SettingError: If `keep` is not "all".
        """
        if self.keep != "all":
            raise SettingError("windows.keep", self.keep, reason, "leave it out")

    def kept(self, count: int, room: int) -> list[int]:
        """Which of the tokens of a text stay in one window with room for so many.

        Raises:
            SettingError: If more tokens of the beginning are to be kept than there is room for.
        """
        first = {"first": room, "last": 0}.get(self.keep, self.keep_first or room // 2)
        if first > room:
            rule = f"a window has room for {room:,} tokens of text"
            raise SettingError("windows.keep_first", first, rule, "lower it")
        return [*range(first), *range(count - (room - first), count)]

    def check_room(self, tokenizer: Tokenizer, max_length: int | None) -> None:
        """Finds out, before a long text comes along, whether its windows can be made.

        Raises:
            SettingError: If a window has no room for its overlap, or for what is kept.
        """
        limit = self.limit(max_length)
        room = None if limit is None else limit - len(tokenizer.encode([""])[0])
        if room is not None and self.overlap is not None:
            self.shared(room)
        if room is not None and self.keep_first is not None:
            self.kept(room + 1, room)

    def kept_in_words(self) -> str:
        """What stays of a text that is cut."""
        if self.keep == "both":
            first = f"{self.keep_first:,}" if self.keep_first else "half of its"
            return f"{first} first tokens and the last ones after them"
        return f"its {self.keep} tokens"

    def shared(self, room: int) -> int:
        """How many tokens neighbouring windows share, with room for so many tokens of text.

        Raises:
            SettingError: If the overlap fills the room.
        """
        if self.step is not None:
            return max(room - self.step, 0)
        overlap = room // 4 if self.overlap is None else self.overlap
        if overlap >= room:
            rule = f"a window has room for {room:,} tokens of text; it must be smaller"
            raise SettingError(
                "windows.overlap", overlap, rule, "lower it, or raise `windows.length`"
            )
        return overlap


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """A stretch of an item's tokens as a model reads them."""

    item: int
    """The number of the item."""
    encoded: Encoded
    """The tokens, special ones and the text that does not move among them."""
    first: int
    """The number of the first moving token among all tokens of the moving text."""
    before: int
    """How many tokens stand before the moving text in this window."""
    count: int
    """How many moving tokens this window has."""
    positions: Int64Array | None = None
    """The tokens whose logits are wanted, as positions within the window; None for all of them."""
    about: Int64Array | None = None
    """What each wanted token is about, such as the number of its word."""
    dropped: int = 0
    """How many tokens of the text no window has, because it was cut."""

    def __len__(self) -> int:
        return len(self.encoded)

    @property
    def wanted(self) -> Int64Array:
        """The positions of the tokens whose logits are wanted."""
        return np.arange(len(self)) if self.positions is None else self.positions

    @property
    def moving(self) -> slice:
        """Where its moving tokens stand in it."""
        return slice(self.before, self.before + self.count)


def read_windows(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    windows: Windows,
    max_length: int | None,
    moves: MovingSide = "only",
    offsets: bool = False,
    source_locations: Sequence[str] | None = None,
) -> list[TokenWindow]:
    """Encodes texts; those that are too long become several windows.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        pairs: The second text of each, if there are two.
        windows: How long a window is and how far they overlap.
        max_length: The most tokens the model takes.
        moves: Which text is read through windows: the only one, the second of two, or the longer.
        offsets: Whether offsets are wanted.
        source_locations: Where each item came from, for messages.

    Returns:
        The windows of all items in order; each item has at least one.

    Raises:
        InputError: If what must stand in every window leaves no room.
    """
    limit = windows.limit(max_length)
    every: list[TokenWindow] = []
    for number, whole in enumerate(tokenizer.encode(texts, pairs, offsets=offsets)):
        if limit is None or len(whole) <= limit:
            before, count = _stretch(whole, moves) if offsets else (0, len(whole))
            every.append(TokenWindow(number, whole, 0, before, count))
            continue
        if not offsets:  # which text a token belongs to is known only with them
            pair = None if pairs is None else [pairs[number]]
            whole = tokenizer.encode([texts[number]], pair, offsets=True)[0]
        every += _cut(whole, number, limit, windows, moves, location_of(number, source_locations))
    return every


def _cut(
    whole: Encoded,
    number: int,
    limit: int,
    windows: Windows,
    moves: MovingSide,
    source_location: str,
) -> list[TokenWindow]:
    assert whole.part is not None
    counts = lengths(whole.part)
    moving = _moving(counts, moves)
    fixed = len(whole) - counts[moving]
    room = limit - fixed
    if room < min(_LEAST, counts[moving]):
        alone = moves == "only"
        other = "special ones" if alone else "special ones and the text that is not cut"
        raise InputError(
            f"{source_location}: {fixed:,} tokens stand in every window ({other}), and a window "
            f"has {limit:,}; there must be room for {_LEAST} of the long text; "
            f"{'' if alone else 'shorten the other text, or '}raise windows.length."
        )
    before = whole.part.index(moving)
    after = range(before + counts[moving], len(whole))
    if windows.keep != "all":
        kept = windows.kept(counts[moving], room)
        picked = whole.pick([*range(before), *(before + token for token in kept), *after])
        dropped = counts[moving] - room
        return [TokenWindow(number, picked, kept[0], before, room, dropped=dropped)]
    several = []
    for begin, _, end in sliding_windows(counts[moving], room, windows.shared(room)):
        positions = [*range(before), *range(before + begin, before + end), *after]
        several.append(TokenWindow(number, whole.pick(positions), begin, before, end - begin))
    return several


def _moving(counts: tuple[int, int], moves: MovingSide) -> int:
    if moves == "longer":
        return int(counts[1] > counts[0])
    return int(moves == "second")


def _stretch(whole: Encoded, moves: MovingSide) -> tuple[int, int]:
    """Where the moving tokens of a text that fits stand: before them, and how many."""
    assert whole.part is not None
    counts = lengths(whole.part)
    moving = _moving(counts, moves)
    return (whole.part.index(moving) if counts[moving] else 0), counts[moving]


def judged_in(windows: Sequence[TokenWindow]) -> Int64Array:
    """Which window judges each moving token of an item: the one with most context, (T,)."""
    return most_context([(window.first, window.first + window.count) for window in windows])


def offsets_of(windows: Sequence[TokenWindow]) -> Int64Array:
    """Where each moving token of an item stands in its text: begin and end, (T, 2)."""
    total = max(window.first + window.count for window in windows)
    offsets = np.zeros((total, 2), np.int64)
    for window in windows:
        assert window.encoded.offsets is not None
        if here := window.encoded.offsets[window.moving]:
            offsets[window.first : window.first + window.count] = here
    return offsets


def first_tokens(spans: Sequence[tuple[int, int]], offsets: Int64Array) -> Int64Array:
    """The first token of each stretch of characters (begin, end), in order; -1 if it has none."""
    if not spans or not len(offsets):
        return np.full(len(spans), -1, np.int64)
    begins, ends = np.array(spans, np.int64).T
    tokens = np.searchsorted(offsets[:, 1], begins, side="right")
    there = tokens < len(offsets)
    there &= offsets[np.minimum(tokens, len(offsets) - 1), 0] < ends
    return np.where(there, tokens, -1)


def asking(windows: Sequence[TokenWindow], tokens: Int64Array) -> list[TokenWindow]:
    """The windows of an item, each asking for those of some tokens that it judges.

    Args:
        windows: The windows of one item.
        tokens: Moving tokens to ask for, -1 for none; their numbers here are what they are about.
    """
    owner = judged_in(windows) if len(windows) > 1 else None
    several = []
    for number, window in enumerate(windows):
        judged = tokens >= 0 if owner is None else (tokens >= 0) & (owner[tokens] == number)
        about = np.flatnonzero(judged)
        positions = tokens[about] - window.first + window.before
        several.append(replace(window, positions=positions, about=about))
    return several


def by_item(windows: Sequence[TokenWindow]) -> list[list[TokenWindow]]:
    """The windows of each item together; they stand in the order of the items."""
    return [list(several) for _, several in groupby(windows, key=lambda window: window.item)]
