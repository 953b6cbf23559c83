"""How a label is written: `B-PER`, `PER_B`, `U-LOC`, a bare `PER`, `O`.

A label is read as a role and a type. Five roles serve all schemes: B begins an entity, I goes on
with it, E ends it, S is one of a single word, O stands outside. BILOU writes L for E and U for S,
BMEWO writes M for I and W for S; they are other letters for the same roles.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from clozeworks.errors import InputError

OUTSIDE = "O"
SEPARATORS = "-_"
ROLE_OF_LETTER = {
    "B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S",
}  # fmt: skip
# Labels of published checkpoints that stand for padding, special tokens and later sub-tokens.
NOT_TAGS = frozenset({"X", "PAD", "[PAD]", "[CLS]", "[SEP]", "<pad>", "<s>", "</s>", "<PAD>"})

AffixOrder = Literal["before", "behind", "bare"]


class ParsedTag(NamedTuple):
    """A label that was read."""

    role: str
    """B, I, E, S or O."""
    type: str = ""
    """What the entity is; empty for O, and for labels without a type."""


class EntitySpan(NamedTuple):
    """Some words in a row that are one thing."""

    type: str
    begin_word: int
    """Its first word, counted from 0."""
    end_word: int
    """The word after its last."""


NO_TAG = ParsedTag(OUTSIDE)


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the labels of a model or a file are written."""

    order: AffixOrder = "before"
    """Whether the letter stands before the type or after it; bare labels have none, and each is
    read as I."""
    separator: str = "-"
    """What stands between letter and type."""
    letters: str = "BIES"
    """The letters of B, I, E and S."""

    def read(self, label: str) -> ParsedTag | None:
        """Role and type of a label; None if it is not written this way.

        Any letter and any separator that is known is read, whatever this spelling writes.
        """
        return _read(self.order, label)

    def read_all(self, labels: Sequence[str]) -> list[ParsedTag]:
        """Role and type of each label of a sentence.

        Raises:
            InputError: If a label is not written this way.
        """
        tags = []
        for index, label in enumerate(labels):
            tag = self.read(label)
            if tag is None:
                example = self.write(ParsedTag("B", "PER"))
                raise InputError(
                    f"word {index + 1:,}: the tag is {label!r}; it must be O or be written like "
                    f"{example}; correct it."
                )
            tags.append(tag)
        return tags

    def write(self, tag: ParsedTag) -> str:
        """The label of a role and a type."""
        if tag.role == OUTSIDE:
            return OUTSIDE
        letter = self.letters["BIES".index(tag.role)]
        if self.order == "bare":
            return tag.type
        if not tag.type:
            return letter
        if self.order == "before":
            return f"{letter}{self.separator}{tag.type}"
        return f"{tag.type}{self.separator}{letter}"


PLAIN_SPELLING = Spelling()


@lru_cache(maxsize=4096)
def _read(order: AffixOrder, label: str) -> ParsedTag | None:
    if label == OUTSIDE:
        return NO_TAG
    if order == "bare":
        return ParsedTag("I", label)
    letter, separator, kind = label[:1], label[1:2], label[2:]
    if order == "behind":
        letter, separator, kind = label[-1:], label[-2:-1], label[:-2]
    if letter not in ROLE_OF_LETTER:  # also when there is none
        return None
    if label == letter:
        return ParsedTag(ROLE_OF_LETTER[letter])
    return ParsedTag(ROLE_OF_LETTER[letter], kind) if separator in SEPARATORS and kind else None


def spelling_of(labels: Iterable[str]) -> Spelling | None:
    """Guesses how labels are written.

    Where letters could stand on either side (`B-S`), they stand before the type. Names without
    letters are bare types if O is among them.

    Returns:
        The spelling; None if the labels have no structure, as parts of speech have none.
    """
    names = set(labels)
    inside = sorted(names - {OUTSIDE} - NOT_TAGS)
    if not inside:
        return PLAIN_SPELLING if OUTSIDE in names else None
    orders: tuple[AffixOrder, ...] = ("before", "behind")
    for order in orders:
        if all(_read(order, label) for label in inside):
            return _spelling(order, inside)
    lettered = any(_read(order, label) for label in inside for order in orders)
    return Spelling(order="bare") if OUTSIDE in names and not lettered else None


def _spelling(order: AffixOrder, labels: Sequence[str]) -> Spelling:
    end = 0 if order == "before" else -1
    used = {label[end] for label in labels}
    between = [label[1] if order == "before" else label[-2] for label in labels if len(label) > 1]
    letters = (
        "B",
        "M" if "M" in used and "I" not in used else "I",
        "L" if "L" in used else "E",
        next((letter for letter in "UW" if letter in used), "S"),
    )
    return Spelling(order, between[0] if between else "-", "".join(letters))
