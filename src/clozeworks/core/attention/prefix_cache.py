"""Texts that begin alike: the beginning is read once, and all its endings look back at it.

The idea: keys and values of beginnings are kept as they are, packed; endings are texts of their
own, of any lengths, whose keys are those of their beginning and their own. The answers to a text
that an encoder read begin with nothing, but look at that text together: no place counts there, so
they are one long query, and its keys and values are made once.
Used by: how likely several labels are after a prompt.

Shapes: N tokens of endings, M tokens of beginnings, L tokens of both for each ending, H query
heads, K key heads, D head width.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from clozeworks.core.attention.attend import attend
from clozeworks.core.attention.kv_cache import KVCache
from clozeworks.core.layout import Layout


class PrefixCache(KVCache):
    """What every attention of a tower keeps of beginnings.

    One belongs to one batch of texts: a pass over the beginnings, then one over the endings; or one
    over answers alone.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        """Takes how many endings each beginning has, or how many answers each text."""
        self._counts = tuple(counts)
        self._beginnings = Layout([0] * len(self._counts))
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._turn = 0

    def begin(self, layout: Layout) -> None:
        """Before a pass."""
        self._turn = 0

    def end(self, layout: Layout) -> None:
        """After a pass: the first one was over beginnings."""
        if layout.before is None:
            self._beginnings = layout

    def following(self, lengths: Sequence[int]) -> Layout:
        """The layout of the endings, those of the first beginning first."""
        before = (
            [length] * count
            for length, count in zip(self._beginnings.lengths, self._counts, strict=True)
        )
        return Layout(lengths, [length for several in before for length in several])

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, queries: Layout, keys: Layout, **rest: Any
    ) -> Tensor:
        """`core.attend.attend`, where endings look at their beginnings, too."""
        turn, self._turn = self._turn, self._turn + 1
        if queries.before is None:
            self._kept.append((k, v))
        else:
            keys, positions = self._both(queries, k.device)
            # (M + N, K, D) to (L, K, D)
            k, v = (torch.cat(x)[positions] for x in zip(self._kept[turn], (k, v), strict=True))
        return attend(q, k, v, queries=queries, keys=keys, **rest)

    def attend_source(
        self,
        attention: Hashable,
        q: Tensor,
        project: Callable[[], tuple[Tensor, Tensor]],
        *,
        queries: Layout,
        keys: Layout,
        scale: float | None = None,
    ) -> Tensor:
        """Looks at what an encoder made, all answers to a text together."""

        def make() -> Layout:
            lengths = iter(queries.lengths)
            return Layout([sum(islice(lengths, count)) for count in self._counts])

        k, v = project()
        together: Layout = queries.once(("together", self._counts), make)
        return attend(q, k, v, queries=together, keys=keys, scale=scale)

    def _both(self, endings: Layout, device: torch.device) -> tuple[Layout, Tensor]:
        """Beginning and ending of each text, and where their tokens stand, (L,)."""

        def make() -> tuple[Layout, Tensor]:
            both, counts = Layout(endings.ends), torch.tensor(self._counts, device=device)
            before = self._beginnings.sizes(device).repeat_interleave(counts)
            first = self._beginnings.first(device).repeat_interleave(counts)
            # An ending stands after all beginnings, and its first place is that after its own.
            own = self._beginnings.total + endings.first(device) - before
            rows, positions = both.rows(device), both.positions(device)
            return both, positions + torch.where(positions < before[rows], first[rows], own[rows])

        found: tuple[Layout, Tensor] = endings.once(("both", self._beginnings, device), make)
        return found
