"""Parts labelled items into those to learn from, to choose by, and to be measured on once.

Items with the same text stay together, and questions about one article, or at least about one
context: what was learned is never asked. A group counts as its first item does, and `split` decides
where it goes. A label that training would then lack takes its group with it into training.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.oddities import key_of
from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError, SettingError

Together = Literal["text", "context", "article"]


@dataclass(frozen=True)
class SplitFractions:
    """How large the parts are that are not trained on.

    Attributes:
        dev: To choose by; 0 for none.
        test: To be measured on once; 0 for none.
    """

    dev: float = 0.1
    test: float = 0.1

    def __post_init__(self) -> None:
        for name, fraction in (("--dev", self.dev), ("--test", self.test)):
            if not 0 <= fraction < 1:
                raise SettingError(f"{name} is {fraction}; it must be at least 0 and below 1.")
        if not 0 < self.dev + self.test < 1:
            rule = "one must be above 0" if not self.dev + self.test else "some must be left"
            raise SettingError(
                f"--dev is {self.dev} and --test is {self.test}; {rule}; write for example --dev "
                "0.1 --test 0.1."
            )


@dataclass(frozen=True)
class Parted:
    """Items in parts.

    Attributes:
        parts: train, dev and test, without one that was not asked for; in the order of the items.
        together: What stands in one part only.
    """

    parts: Mapping[str, Sequence[Item]]
    together: Together


def parted(
    items: Sequence[Item],
    fractions: SplitFractions,
    seed: int,
    titles: Mapping[str, str] | None = None,
) -> Parted:
    """Parts items; the result is a function of the arguments.

    Args:
        items: All items; their positions differ.
        fractions: How large the parts are, about: groups are not cut.
        seed: Another seed gives another choice.
        titles: By place, the article that a question is about.

    Raises:
        InputError: If a part would be empty.
    """
    keys, together = _keys(items, fractions, titles or {})
    numbers: dict[Hashable, int] = {}
    groups = [numbers.setdefault(key, len(numbers)) for key in keys]
    left: list[_Standing] = _standing(items, groups)
    fraction_left = 1.0
    chosen: dict[int, str] = {}
    for name, fraction in (("test", fractions.test), ("dev", fractions.dev)):
        if fraction:
            try:
                left, taken = split(left, fraction / fraction_left, seed)
            except InputError as error:
                raise _too_few(name, len(items)) from error
            chosen |= {int(item.source_location): name for item in taken}
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


@dataclass(frozen=True, slots=True)
class _Standing(Item):
    """Stands for a group of items, whose number is its place."""

    source_location: str
    names: tuple[str, ...]
    context: str | None

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.names

    @property
    def shared_text(self) -> str | None:
        return self.context


def _standing(items: Sequence[Item], groups: Sequence[int]) -> list[_Standing]:
    """What is split in the place of items.

    Of texts one for each group, as its first item is; of questions one for each item, so that a
    context counts as often as it is asked about.
    """
    if items[0].shared_text is not None:
        return [_Standing(str(group), (), str(group)) for group in groups]
    first: dict[int, Item] = {}
    for item, group in zip(items, groups, strict=True):
        first.setdefault(group, item)
    return [_Standing(str(group), item.label_names, None) for group, item in first.items()]


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
) -> tuple[Sequence[Hashable], Together]:
    """What must be the same in items of one group, and what to call it."""
    if items[0].shared_text is None:
        return [key_of(item) for item in items], "text"
    contexts = [(item.shared_text or "").strip() for item in items]
    if all(item.source_location in titles for item in items):
        articles = _joined([titles[item.source_location] for item in items], contexts)
        # With fewer articles a part could only be much larger than it should be.
        if len(set(articles)) * min(filter(None, (fractions.dev, fractions.test))) >= 1:
            return articles, "article"
    return contexts, "context"


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
    return Counter(name for item in items for name in _counted(item))


def _counted(item: Item) -> set[str]:
    if item.shared_text is not None:
        return {item.gold_state} if item.gold is not None else set()
    return set(item.label_names)
