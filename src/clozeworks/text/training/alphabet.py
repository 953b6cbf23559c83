"""Chooses the characters a new vocabulary can write."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from clozeworks.errors import SettingError

# Characters are kept while they fill at most this share of the vocabulary, ...
SHARE = Fraction(3, 4)
# ... but never so few that more than this share of the text would be unknown.
COVERED = Fraction(995, 1000)


def choose_alphabet(
    characters: Counter[str],
    costs: Mapping[str, int],
    *,
    size: int,
    taken: int,
    min_frequency: int,
) -> list[str]:
    """Chooses characters, the most frequent first, and gives them sorted.

    Args:
        characters: How often each occurs.
        costs: Vocabulary entries each one needs.
        size: Entries of the whole vocabulary.
        taken: Entries the special tokens need.
        min_frequency: Rarer characters are left out.

    Raises:
        SettingError: If the size has no room for the characters that make up the text.
    """
    total = sum(characters.values())
    room = max(int(size * SHARE), taken)
    used, seen, least = taken, 0, taken
    chosen: list[str] = []
    # Trap: ties must not fall to the order of a hash table.
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        needed = seen < total * COVERED
        cost = costs[character]
        if not needed and (count < min_frequency or used + cost > room):
            break
        chosen.append(character)
        used += cost
        seen += count
        if needed:
            least = used
    if least > size:
        raise SettingError(
            "size",
            size,
            f"the special tokens and the characters that make up {float(COVERED):.1%} of "
            f"the text need {least:,}",
            f"raise size to at least {least:,}",
        )
    return sorted(chosen)
