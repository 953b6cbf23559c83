"""Splits labelled items: dev items from training items, or all into train, dev and test.

Which items are taken is a function of the seed, the fraction and the items in their order, nothing
else. Labels keep their fractions: the items of each label are split on their own, of several labels
and of tags the rarest one of an item counts, numbers are not looked at. A label with one item stays
in training. Items with the same text stay together, questions about one context, and the documents
of one query, so that nothing that was learned is asked again. A group counts as its first item
does. A label that training would then lack takes its group with it into training.

`parted` makes files of their own, and keeps questions about one article together where it can.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.oddities import key_of
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
    an item this holds for the labels that are the rarest of two items or more. If there are so few
    texts, each so often, that the second part would be empty or more than twice as large as it
    should be, items are split without regard to their texts.

    Args:
        items: All items.
        fraction: The fraction of the second part, above 0 and below 1.
        seed: Another seed gives another choice.

    Returns:
        The part to train on, and the part to develop with.

    Raises:
        SettingError: If the fraction is not between 0 and 1.
        InputError: If the second part would be empty.
    """
    if not 0 < fraction < 1:
        raise SettingError(
            "the fraction of development data", fraction, "it must be above 0 and below 1"
        )
    if items and items[0].shared_text is not None:
        taken = _taken([(item.shared_text or "",) for item in items], True, fraction, seed)
    else:
        taken = _taken([item.label_names for item in items], False, fraction, seed)
        whole = _whole_texts(items, fraction, seed)
        if 0 < len(whole) <= 2 * len(taken):
            taken = whole
    if not taken:
        shared = items[0].shared_words[1] if items else "contexts"
        raise InputError(
            f"no development data can be taken from {counted(len(items), 'item')}; there must be "
            f"two items of a label, or two {shared}; add some, or name a development file."
        )
    rest = [item for index, item in enumerate(items) if index not in taken]
    return rest, [items[index] for index in sorted(taken)]


def _whole_texts(items: Sequence[Item], fraction: float, seed: int) -> set[int]:
    """Chooses items for the second part, all or none of those with the same text."""
    groups = list(_grouped([key_of(item) for item in items]).values())
    firsts = [items[positions[0]].label_names for positions in groups]
    chosen = dict.fromkeys(_taken(firsts, False, fraction, seed), "dev")
    group_of = {index: group for group, positions in enumerate(groups) for index in positions}
    _keep_labels(items, [group_of[index] for index in range(len(items))], chosen)
    return {index for group in chosen for index in groups[group]}


def _taken(
    keys: Sequence[tuple[str, ...]], by_context: bool, fraction: float, seed: int
) -> set[int]:
    """Chooses items for the second part, by the labels of each or by its context."""
    rng = RandomStream(seed, "split")
    counts = Counter(name for names in keys for name in set(names))
    # Of several labels the rarest one decides.
    strata = [min(names, key=lambda name: (counts[name], name), default="") for names in keys]
    return (_whole_contexts if by_context else _stratified)(strata, fraction, rng)


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
    # One context is left for training, whatever the fraction.
    for number in rng.stream("contexts").permutation(0, len(groups))[:-1].tolist():
        if len(taken) >= wanted:
            break
        taken.update(groups[number])
    return taken


@dataclass(frozen=True)
class SplitFractions:
    """How large the parts are that are not trained on."""

    dev: float = 0.1
    """To choose by; 0 for none."""
    test: float = 0.1
    """To be measured on once; 0 for none."""

    def __post_init__(self) -> None:
        for name, fraction in (("--dev", self.dev), ("--test", self.test)):
            if not 0 <= fraction < 1:
                raise SettingError(name, fraction, "it must be at least 0 and below 1")
        if not 0 < self.dev + self.test < 1:
            rule = "one must be above 0" if not self.dev + self.test else "some must be left"
            rule = f"--test is {self.test}, and {rule}"
            raise SettingError("--dev", self.dev, rule, "write for example --dev 0.1 --test 0.1")


@dataclass(frozen=True)
class Parted:
    """Items in parts."""

    parts: Mapping[str, Sequence[Item]]
    """train, dev and test, without one that was not asked for; in the order of the items."""
    together: str
    """What stands in one part only: text, article, or what many items share (`shared_words`)."""


def parted(
    items: Sequence[Item],
    fractions: SplitFractions,
    seed: int,
    titles: Mapping[str, str] | None = None,
) -> Parted:
    """Parts items; the result is a function of the arguments.

    Args:
        items: All items; their source locations differ.
        fractions: How large the parts are, about: groups are not cut.
        seed: Another seed gives another choice.
        titles: By source location, the article that a question is about.

    Raises:
        InputError: If a part would be empty.
    """
    keys, together = _keys(items, fractions, titles or {})
    numbers: dict[Hashable, int] = {}
    groups = [numbers.setdefault(key, len(numbers)) for key in keys]
    by_context = together != "text"
    # Of texts one stands for each group, its first; of questions all are split, so that a context
    # counts as often as it is asked about.
    left = [
        (group, (str(group),) if by_context else item.label_names)
        for item, group in zip(items, groups, strict=True)
    ]
    if not by_context:
        left = sorted(dict(reversed(left)).items())
    fraction_left = 1.0
    chosen: dict[int, str] = {}
    for name, fraction in (("test", fractions.test), ("dev", fractions.dev)):
        if fraction:
            taken = _taken([key for _, key in left], by_context, fraction / fraction_left, seed)
            if not taken:
                raise _too_few(name, len(items))
            chosen |= {left[index][0]: name for index in taken}
            left = [pair for index, pair in enumerate(left) if index not in taken]
            fraction_left -= fraction
    _keep_labels(items, groups, chosen)
    names = ["train", *(name for name in ("dev", "test") if getattr(fractions, name))]
    parts: dict[str, list[Item]] = {name: [] for name in names}
    for item, group in zip(items, groups, strict=True):
        parts[chosen.get(group, "train")].append(item)
    for name, some in parts.items():
        if not some:
            raise _too_few(name, len(items))
    return Parted(parts, together)


def _too_few(name: str, count: int) -> InputError:
    return InputError(
        f"nothing is left for the part {name!r}: there are {count:,} items; for each part there "
        "must be another text with the same label, or another context; add some."
    )


def _keep_labels(items: Sequence[Item], groups: Sequence[int], chosen: dict[int, str]) -> None:
    """Takes groups back into training that have a label which it lacks."""
    by_group: dict[int, set[str]] = {}
    for item, group in zip(items, groups, strict=True):
        by_group.setdefault(group, set()).update(item.label_names)
    known = {name for group, names in by_group.items() if group not in chosen for name in names}
    for group, names in by_group.items():
        if group in chosen and not names <= known:
            del chosen[group]
            known |= names


def _keys(
    items: Sequence[Item], fractions: SplitFractions, titles: Mapping[str, str]
) -> tuple[Sequence[Hashable], str]:
    """What must be the same in items of one group, and what to call it."""
    if items[0].shared_text is None:
        return [key_of(item) for item in items], "text"
    contexts = [(item.shared_text or "").strip() for item in items]
    if all(item.source_location in titles for item in items):
        articles = _joined([titles[item.source_location] for item in items], contexts)
        # With fewer articles a part could only be much larger than it should be.
        if len(set(articles)) * min(filter(None, (fractions.dev, fractions.test))) >= 1:
            return articles, "article"
    return contexts, items[0].shared_words[0]


def _joined(titles: Sequence[str], contexts: Sequence[str]) -> list[str]:
    """Articles, of which those that share a context are one."""
    above: dict[str, str] = {}

    def top(title: str) -> str:
        while title in above:
            title = above[title]
        return title

    holder: dict[str, str] = {}
    for title, context in zip(titles, contexts, strict=True):
        here, there = top(title), top(holder.setdefault(context, title))
        if here != there:
            above[here] = there
    return [top(title) for title in titles]


def counts_of(items: Sequence[Item]) -> Counter[str]:
    """How many items have each label, type of tag, or kind of answer."""
    if items and items[0].shared_text is not None:
        return Counter(item.gold_state for item in items if item.gold is not None)
    return Counter(name for item in items for name in set(item.label_names))
