"""Takes development items out of training items.

Which items are taken is a function of the seed, the share and the items in their order, nothing
else. Labels keep their shares: the items of each label are split on their own, of several labels
and of tags the rarest one of an item counts, numbers are not looked at. A label with one item stays
in training. Questions are split by context: no context stands in both parts.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

from clozeworks.data.labelled.items import Item
from clozeworks.errors import InputError, SettingError
from clozeworks.rng import RandomStream
from clozeworks.wording import counted

AnyItem = TypeVar("AnyItem", bound=Item)


def split(
    items: Sequence[AnyItem], fraction: float, seed: int
) -> tuple[list[AnyItem], list[AnyItem]]:
    """Splits items in two parts; both keep the order of the items.

    Where every item has one label, each label with at least two items has one or more in each part;
    many rare labels can so make the second part larger than asked. With several labels or tags in
    an item this holds for the labels that are the rarest of two items or more.

    Args:
        items: All items.
        fraction: The share of the second part, above 0 and below 1.
        seed: Another seed gives another choice.

    Returns:
        The part to train on, and the part to develop with.

    Raises:
        SettingError: If the share is not between 0 and 1.
        InputError: If the second part would be empty.
    """
    if not 0 < fraction < 1:
        raise SettingError(
            f"the share of development data is {fraction}; it must be above 0 and below 1."
        )
    rng = RandomStream(seed, "split")
    if items and items[0].shared_text is not None:
        taken = _whole_contexts([item.shared_text or "" for item in items], fraction, rng)
    else:
        taken = _stratified(_strata(items), fraction, rng)
    if not taken:
        raise InputError(
            f"no development data can be taken from {_described(items)}; there must be two items "
            "of a label, or two contexts; add some, or name a development file."
        )
    return (
        [item for index, item in enumerate(items) if index not in taken],
        [item for index, item in enumerate(items) if index in taken],
    )


def _described(items: Sequence[Item]) -> str:
    return counted(len(items), "item")


def _strata(items: Sequence[Item]) -> list[str]:
    """The name of the part of the items to which each belongs: its rarest label."""
    named = [set(item.label_names) for item in items]
    counts = Counter(name for names in named for name in names)
    return [min(names, key=lambda name: (counts[name], name), default="") for names in named]


def _grouped(keys: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """The positions of each key, in the order of the first ones."""
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return groups


def _stratified(strata: Sequence[str], fraction: float, rng: RandomStream) -> set[int]:
    groups = {name: positions for name, positions in _grouped(strata).items() if len(positions) > 1}
    wanted = {name: fraction * len(positions) for name, positions in groups.items()}
    amounts = {name: max(1, int(amount)) for name, amount in wanted.items()}
    # What rounding down left over goes to those that lost most.
    rest = round(fraction * len(strata)) - sum(amounts.values())
    by_loss = sorted(groups, key=lambda name: (amounts[name] - wanted[name], str(name)))
    for name in by_loss:
        if rest > 0 and amounts[name] < min(wanted[name], len(groups[name]) - 1):
            amounts[name] += 1
            rest -= 1
    taken: set[int] = set()
    for name, positions in groups.items():
        order = rng.stream(f"label {name}").permutation(0, len(positions))
        taken.update(positions[number] for number in order[: amounts[name]].tolist())
    return taken


def _whole_contexts(contexts: Sequence[str], fraction: float, rng: RandomStream) -> set[int]:
    groups = list(_grouped(contexts).values())
    wanted = max(1, round(fraction * len(contexts)))
    taken: set[int] = set()
    # One context is left for training, whatever the share.
    for number in rng.stream("contexts").permutation(0, len(groups))[:-1].tolist():
        if len(taken) >= wanted:
            break
        taken.update(groups[number])
    return taken
