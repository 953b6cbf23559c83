"""One text as token ids, and the ways to cut it."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from tokenizers import Encoding

from clozeworks.errors import SettingError


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text, or a pair of texts, as tokens. All lists are equally long."""

    ids: list[int]
    """Token ids."""
    types: list[int]
    """0 for the first text, 1 for the second where the family tells them apart."""
    special: list[bool]
    """Whether the template added the token; a mask written in the text is not special."""
    offsets: list[tuple[int, int]] | None = None
    """Characters of the original text, begin and end, or None when not asked for."""
    words: list[int | None] | None = None
    """Index of the word within its text, None for special tokens; or None."""
    part: list[int | None] | None = None
    """0 for the first text, 1 for the second, None for special tokens; or None."""

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, encoding: Encoding, *, offsets: bool) -> "Encoded":
        """Reads what the Rust library gave; with `offsets` also words and parts."""
        special = list(map(bool, encoding.special_tokens_mask))
        if not offsets:
            return cls(encoding.ids, encoding.type_ids, special)
        e = encoding
        return cls(e.ids, e.type_ids, special, e.offsets, e.word_ids, e.sequence_ids)

    def pick(self, positions: list[int]) -> "Encoded":
        """Keeps the tokens at some positions."""
        lists = (getattr(self, field.name) for field in fields(self))
        picked: list[Any] = [v if v is None else [v[p] for p in positions] for v in lists]
        return Encoded(*picked)


def positions_within(parts: list[int | None], first: range, second: range) -> list[int]:
    """Lists the positions of the special tokens and of a stretch of each text.

    Args:
        parts: The text each token belongs to, None for special tokens.
        first: Which tokens of the first text stay, counted within that text.
        second: Which tokens of the second text stay.
    """
    numbers = {0: count(), 1: count()}
    stretch = (first, second)
    return [
        position
        for position, part in enumerate(parts)
        if part is None or next(numbers[part]) in stretch[part]
    ]


def lengths(parts: Iterable[int | None]) -> tuple[int, int]:
    """Counts the tokens of the first and of the second text."""
    parts = list(parts)
    return parts.count(0), parts.count(1)


def fitting_lengths(first: int, second: int, room: int) -> tuple[int, int]:
    """Says how many tokens of two texts fit in a room when the longer one is cut first."""
    short, long = min(first, second), max(first, second)
    if short + long > room:
        long = max(short, room - short)
        if short + long > room:
            # Compat: an odd token goes to the longer text, and to the second when equal.
            short = room // 2
            long = room - short
    return (short, long) if first <= second else (long, short)


def cut(encoded: Encoded, parts: list[int | None], max_length: int) -> Encoded:
    """Shortens a result that is too long and keeps its special tokens.

    Raises:
        SettingError: If only special tokens would be left.
    """
    special = parts.count(None)
    if max_length <= special:
        raise SettingError(
            "max_length",
            max_length,
            f"{special} special tokens and one token of text need {special + 1}",
            "raise max_length",
        )
    first, second = fitting_lengths(*lengths(parts), max_length - special)
    return encoded.pick(positions_within(parts, range(first), range(second)))
