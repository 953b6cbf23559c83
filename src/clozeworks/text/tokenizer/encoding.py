"""One text as token ids, and the ways to cut it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from tokenizers import Encoding

from clozeworks.errors import SettingError

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text, or a pair of texts, as tokens. All lists are equally long.

    Attributes:
        ids: Token ids.
        types: 0 for the first text, 1 for the second where the family tells them apart.
        special: Whether the template added the token; a mask written in the text is not special.
        offsets: Characters of the original text, begin and end, or None when not asked for.
        words: Index of the word within its text, None for special tokens; or None.
        part: 0 for the first text, 1 for the second, None for special tokens; or None.
    """

    ids: list[int]
    types: list[int]
    special: list[bool]
    offsets: list[tuple[int, int]] | None = None
    words: list[int | None] | None = None
    part: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, encoding: Encoding, *, offsets: bool) -> "Encoded":
        """Reads what the Rust library gave.

        Args:
            encoding: The library's result.
            offsets: Whether offsets, words and parts are wanted.
        """
        special = list(map(bool, encoding.special_tokens_mask))
        if not offsets:
            return cls(encoding.ids, encoding.type_ids, special)
        return cls(
            encoding.ids,
            encoding.type_ids,
            special,
            encoding.offsets,
            encoding.word_ids,
            encoding.sequence_ids,
        )

    def pick(self, positions: list[int]) -> "Encoded":
        """Keeps the tokens at some positions.

        Args:
            positions: Indices into the lists, in order.
        """
        return Encoded(
            _chosen(self.ids, positions),
            _chosen(self.types, positions),
            _chosen(self.special, positions),
            None if self.offsets is None else _chosen(self.offsets, positions),
            None if self.words is None else _chosen(self.words, positions),
            None if self.part is None else _chosen(self.part, positions),
        )


def _chosen(values: list[Value], positions: list[int]) -> list[Value]:
    return [values[position] for position in positions]


def positions_within(parts: list[int | None], first: range, second: range) -> list[int]:
    """Lists the positions of the special tokens and of a stretch of each text.

    Args:
        parts: The text each token belongs to, None for special tokens.
        first: Which tokens of the first text stay, counted within that text.
        second: Which tokens of the second text stay.
    """
    seen = [0, 0]
    stretch = (first, second)
    positions = []
    for position, part in enumerate(parts):
        if part is None:
            positions.append(position)
            continue
        if seen[part] in stretch[part]:
            positions.append(position)
        seen[part] += 1
    return positions


def lengths(parts: Iterable[int | None]) -> tuple[int, int]:
    """Counts the tokens of the first and of the second text."""
    parts = list(parts)
    return parts.count(0), parts.count(1)


def share(first: int, second: int, room: int) -> tuple[int, int]:
    """Says how many tokens of each text fit when the longer one is cut first.

    Args:
        first: Tokens of the first text.
        second: Tokens of the second text.
        room: Tokens there is room for.
    """
    short, long = min(first, second), max(first, second)
    if short + long > room:
        long = max(short, room - short)
        if short + long > room:
            # Compat: an odd token goes to the longer text, and to the second when equal.
            short = room // 2
            long = room - short
    return (short, long) if first <= second else (long, short)


def cut(encoded: Encoded, parts: list[int | None], max_length: int) -> Encoded:
    """Shortens a result and keeps its special tokens.

    Args:
        encoded: A result that is too long.
        parts: The text each of its tokens belongs to, None for special tokens.
        max_length: The most tokens it may have.

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
    first, second = share(*lengths(parts), max_length - special)
    return encoded.pick(positions_within(parts, range(first), range(second)))
