"""Cuts texts into batches that hold a fixed number of tokens rather than of texts."""

from collections.abc import Sequence

from clozeworks.errors import SettingError


def by_budget(lengths: Sequence[int], budget: int, workers: int = 1) -> list[list[int]]:
    """Groups the indices of texts into batches, the longest text first.

    Texts of similar length end up together, and the first batch is the one that needs the most
    memory: if it fits, all do. Texts of equal length keep their order.

    Args:
        lengths: The number of tokens of each text.
        budget: The most tokens a batch may hold. A text longer than this gets its own batch.
        workers: How many batches are worked on at a time. Batches are made smaller, if need be, so
            that each worker gets equally many and none waits for the last one.

    Returns:
        Batches of indices into `lengths`; each index occurs once.

    Raises:
        SettingError: If the budget is below 1.
    """
    if budget < 1:
        raise SettingError(f"The token budget of a batch is {budget}; it must be at least 1.")
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches = _filled(order, lengths, budget)
    wanted = -(-len(batches) // workers) * workers
    if workers > 1 and len(batches) < len(lengths):
        # The smallest budget that still gives so many batches fills them all alike.
        low, high = 0, budget
        while high - low > 1:
            middle = (low + high) // 2
            enough = len(_filled(order, lengths, middle)) <= wanted
            low, high = (low, middle) if enough else (middle, high)
        batches = _filled(order, lengths, high)
    return batches


def _filled(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Fills one batch after the other."""
    batches: list[list[int]] = []
    room = 0
    for index in order:
        length = lengths[index]
        if not batches or length > room:
            batches.append([])
            room = budget
        batches[-1].append(index)
        room -= length
    return batches
