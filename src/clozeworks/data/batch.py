"""Cuts texts into batches that hold a fixed number of tokens rather than of texts."""

from collections.abc import Sequence

from clozeworks.errors import SettingError


def by_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Groups the indices of texts into batches, the longest text first.

    Texts of similar length end up together, and the first batch is the one that needs the most
    memory: if it fits, all do. Texts of equal length keep their order.

    Args:
        lengths: The number of tokens of each text.
        budget: The most tokens a batch may hold. A text longer than this gets its own batch.

    Returns:
        Batches of indices into `lengths`; each index occurs once.

    Raises:
        SettingError: If the budget is below 1.
    """
    if budget < 1:
        raise SettingError(f"The token budget of a batch is {budget}; it must be at least 1.")
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        length = lengths[index]
        if not batches or length > room:
            batches.append([])
            room = budget
        batches[-1].append(index)
        room -= length
    return batches
