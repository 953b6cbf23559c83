"""Pairs of texts of one class: each text with another of its class, in each epoch another one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from clozeworks.rng import RandomStream
from clozeworks.tasks.embed.items import EmbedItem


@dataclass(frozen=True)
class ClassPairs:
    """Who is paired with whom: the texts of a class stand in a circle, and partners move on."""

    circles: Mapping[str, Sequence[str]]
    """The different texts of each class, in an order of their own."""

    @classmethod
    def of(cls, items: Iterable[EmbedItem]) -> "ClassPairs":
        """The classes of items."""
        members: dict[str, dict[str, None]] = {}
        for item in items:
            members.setdefault(str(item.label), {})[item.anchor] = None
        rng = RandomStream(0, "same class")
        circles = {}
        for number, (label, texts) in enumerate(sorted(members.items())):
            listed = list(texts)
            order = rng.permutation(number, len(listed)).tolist()
            circles[label] = [listed[index] for index in order]
        return cls(circles)

    @cached_property
    def _places(self) -> dict[tuple[str, str], int]:
        return {
            (label, text): place
            for label, texts in self.circles.items()
            for place, text in enumerate(texts)
        }

    def paired(self, items: Sequence[EmbedItem]) -> list[EmbedItem]:
        """Rows of the first epoch; texts that are alone in their class have none."""
        rows = [item for item in items if len(self.circles[str(item.label)]) > 1]
        return [self(replace(item, label=None, group=str(item.label)), 0, 0) for item in rows]

    def __call__(self, item: EmbedItem, epoch: int, index: int) -> EmbedItem:
        """A row with its partner of an epoch."""
        circle = self.circles[item.group]
        step = 1 + epoch % (len(circle) - 1)
        partner = circle[(self._places[item.group, item.anchor] + step) % len(circle)]
        return replace(item, others=(partner,))
