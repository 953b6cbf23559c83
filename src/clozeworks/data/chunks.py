"""Inputs of any number, in chunks: as many at a time as are held in memory and computed at once.

Within a chunk inputs are sorted by length, so a chunk must be much longer than a batch; beyond
that, a longer one is not faster.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from clozeworks.errors import ClozeworksError

# A chunk has about so many characters, and at most so many items.
CHUNK_CHARACTERS = 500_000
CHUNK_ITEMS = 10_000

Input = TypeVar("Input")


def in_chunks(
    items: Iterable[Input],
    length: Callable[[Input], int],
    *,
    most: int | None = None,
    characters: int | None = None,
) -> Iterator[list[Input]]:
    """Gives items in chunks; those before a bad one are given before its error is raised.

    Args:
        items: The items, in their order.
        length: The number of characters of one.
        most: The maximum number of items of a chunk; `CHUNK_ITEMS` if not given.
        characters: A chunk ends with the item that brings it to so many characters;
            `CHUNK_CHARACTERS` if not given.
    """
    most, characters = most or CHUNK_ITEMS, characters or CHUNK_CHARACTERS
    held: list[Input] = []
    total = 0
    try:
        for item in items:
            held.append(item)
            total += length(item)
            if total >= characters or len(held) >= most:
                yield held
                held, total = [], 0
    except ClozeworksError:
        if held:
            yield held
        raise
    if held:
        yield held
