"""Keys and values of earlier passes, so that a text can grow token by token.

The idea: what an attention computed for a token never changes when more tokens follow it, so it can
be kept (`KVCache`).
In a `GrowingCache` a text is a row; all rows end in the same column, so the next token of every
text is written in one column, whatever the texts' lengths. The memory for the longest text that may
come is taken at the beginning, and is never copied to grow. The first pass over texts of any
lengths is packed, as every other pass; later ones bring equally many tokens of every text.
In a `PrefixCache` texts begin alike: the prefix is read once, and all its endings attend to it.
Keys and values of prefixes are kept as they are, packed; endings are texts of their own, of any
lengths, whose keys are those of their prefix and their own. Answers to a text that an encoder read
have no prefix, but attend to that text together: positions do not count there, so they are one long
query, and its keys and values are made once.
Used by: generation; how likely several labels are after a prompt.

Shapes: B texts, N tokens, H query heads, K key heads, D head width, Lq new tokens of each text, R
room, L columns in use, or tokens of prefix and ending of all texts; M tokens of prefixes or of an
encoder's texts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.attention.attend import Relate, attend, merged, shared_heads
from clozeworks.core.attention.masks import Full, MaskSpec
from clozeworks.core.layout import Group, Layout

# Makes packed keys and values of what an encoder made, (M, K, D) each.
Project = Callable[[], tuple[Tensor, Tensor]]
Scale = float | None


class KVCache(ABC):
    """Keys and values of earlier passes; the context of a pass hands it to every attention."""

    @abstractmethod
    def begin(self, layout: Layout) -> None:
        """Before a pass over more tokens."""

    @abstractmethod
    def end(self, layout: Layout) -> None:
        """After a pass: its tokens are now among those before."""

    @abstractmethod
    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, queries: Layout, keys: Layout, **rest: Any
    ) -> Tensor:
        """`attend`, where keys and values of earlier passes are seen, too."""

    @abstractmethod
    def attend_source(
        self, owner: Hashable, q: Tensor, make: Project, queries: Layout, keys: Layout, scale: Scale
    ) -> Tensor:
        """Attends to what an encoder made: packed queries, (N, H, D), keys and values, (M, K, D).

        These are projected once and kept for the attention that owns them.
        """


class LayerKeysValues:
    """Keys and values of one attention, as rows that end together, (B, K, R, D)."""

    def __init__(self, k: Tensor, v: Tensor, layout: Layout, room: int) -> None:
        """Keeps packed keys and values (N, K, D), with room for more."""
        count, longest = len(layout), layout.longest
        self.k, self.v = (x.new_empty(count, x.shape[1], room, x.shape[2]) for x in (k, v))
        self._spare: tuple[Tensor, ...] | None = None
        if set(layout.lengths) == {longest}:
            for rows, x in ((self.k, k), (self.v, v)):
                rows[:, :, :longest] = x.view(count, longest, *x.shape[1:]).transpose(1, 2)
            return
        texts = layout.rows(k.device)
        columns = layout.positions(k.device) + (longest - layout.sizes(k.device))[texts]
        for rows, x in ((self.k, k), (self.v, v)):
            # What is never seen must still be finite: nothing times no number is no number.
            rows[:, :, :longest] = 0
            rows.transpose(1, 2)[texts, columns] = x

    @classmethod
    def joined(
        cls, parts: "Sequence[tuple[LayerKeysValues, int, int]]", used: int, room: int
    ) -> "LayerKeysValues":
        """The rows of several, which end together in a column.

        Args:
            parts: Each with its first and its last column that count.
            used: The column where all are to end.
            room: The columns there are.
        """
        whole = cls.__new__(cls)
        whole._spare = None
        count = sum(len(part.k) for part, _, _ in parts)
        tensors = []
        for name in ("k", "v"):
            one = getattr(parts[0][0], name)
            # What is never seen must still be finite.
            rows = one.new_empty(count, one.shape[1], room, one.shape[3])
            first = 0
            for part, begin, end in parts:
                x = getattr(part, name)
                own = rows[first : first + len(x)]
                own[:, :, : used - (end - begin)] = 0
                own[:, :, used - (end - begin) : used] = x[:, :, begin:end]
                first += len(x)
            tensors.append(rows)
        whole.k, whole.v = tensors
        return whole

    def add(self, k: Tensor, v: Tensor, used: int) -> None:
        """Writes keys and values (B * Lq, K, D) of equally many new tokens of each text."""
        for rows, x in ((self.k, k), (self.v, v)):
            new = x.view(len(rows), -1, *x.shape[1:])
            rows[:, :, used : used + new.shape[1]] = new.transpose(1, 2)

    def choose(self, texts: Tensor, used: int) -> None:
        """Continues with these texts, in this order; one may be there several times."""
        if self._spare is None or len(self._spare[0]) != len(texts):
            self._spare = tuple(x.new_empty(len(texts), *x.shape[1:]) for x in (self.k, self.v))
        for rows, spare in zip((self.k, self.v), self._spare, strict=True):
            spare[:, :, :used] = rows[:, :, :used].index_select(0, texts)
        (self.k, self.v), self._spare = self._spare, (self.k, self.v)


class GrowingCache(KVCache):
    """What every attention of a tower keeps, and where the texts begin.

    One cache belongs to one batch of texts. Attentions take their turns in it as they run.
    """

    def __init__(self, room: int) -> None:
        """Takes how many tokens the longest text will have in the end."""
        self.room = room
        self.used = 0
        self.begins: tuple[int, ...] = ()
        """The column of each text's first token."""
        self._kept: list[LayerKeysValues] = []
        self._sources: dict[Hashable, LayerKeysValues] = {}
        self._source_begins: tuple[int, ...] = ()
        self._turn = 0
        self._group: Group | None = None

    @classmethod
    def joined(cls, caches: "Sequence[GrowingCache]", more: int) -> "GrowingCache":
        """The texts of several caches of one model as those of one, in their order.

        Each text has what an encoder made for it to itself from now on (`choose_sources` is over).

        Args:
            caches: They are used up: only the new one may go on.
            more: How many tokens may still be added to each text.
        """
        trims = [min(cache.begins) for cache in caches]
        lengths = [cache.used - trim for cache, trim in zip(caches, trims, strict=True)]
        whole = cls(max(lengths) + more)
        whole.used = max(lengths)
        whole.begins = tuple(
            begin - trim + whole.used - length
            for cache, trim, length in zip(caches, trims, lengths, strict=True)
            for begin in cache.begins
        )
        for kept in zip(*(cache._kept for cache in caches), strict=True):
            parts = [
                (own, trim, cache.used)
                for own, trim, cache in zip(kept, trims, caches, strict=True)
            ]
            whole._kept.append(LayerKeysValues.joined(parts, whole.used, whole.room))
        for cache in caches:
            each = len(cache.begins) // max(len(cache._source_begins), 1)
            cache.choose_sources([row // each for row in range(len(cache.begins))])
        longest = max(_columns_of(cache._sources) for cache in caches)
        for owner in caches[0]._sources:
            sources = [(cache._sources[owner], 0, _columns_of(cache._sources)) for cache in caches]
            whole._sources[owner] = LayerKeysValues.joined(sources, longest, longest)
        whole._source_begins = tuple(
            begin + longest - _columns_of(cache._sources)
            for cache in caches
            for begin in cache._source_begins
        )
        return whole

    def begin(self, layout: Layout) -> None:
        """Before a pass over more tokens of the texts."""
        self._turn = 0
        if not self.used:
            self.begins = tuple(layout.longest - length for length in layout.lengths)
            return
        new = layout.longest
        assert set(layout.lengths) == {new}, "a later pass brings equally many tokens of each text"
        assert self.used + new <= self.room, "the cache is full"

    def end(self, layout: Layout) -> None:
        """After a pass: its tokens are now among those before."""
        self.used += layout.longest
        self._group = None

    def following(self, each: int = 1) -> Layout:
        """The layout of the next tokens of every text."""
        before = [self.used - begin for begin in self.begins]
        return Layout([each] * len(before), before)

    def choose(self, texts: Sequence[int]) -> None:
        """Continues with these texts, in this order; one may be there several times."""
        if list(texts) == list(range(len(self.begins))):
            return
        self.begins = tuple(self.begins[text] for text in texts)
        index = torch.tensor(texts)
        for kept in self._kept:
            kept.choose(index.to(kept.k.device), self.used)

    def choose_sources(self, texts: Sequence[int]) -> None:
        """Continues with what an encoder made of these texts, in this order."""
        if not self._sources or list(texts) == list(range(len(self._source_begins))):
            return
        self._source_begins = tuple(self._source_begins[text] for text in texts)
        index = torch.tensor(texts)
        for kept in self._sources.values():
            kept.choose(index.to(kept.k.device), kept.k.shape[2])

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, queries: Layout, keys: Layout, **rest: Any
    ) -> Tensor:
        """`attend`, where the columns of earlier passes are seen, too."""
        turn, self._turn = self._turn, self._turn + 1
        if not self.used:
            self._kept.append(LayerKeysValues(k, v, keys, self.room))
            return attend(q, k, v, queries=queries, keys=keys, **rest)
        traced = rest.get("weights") is not None
        assert not traced and not rest.get("dropout"), "cached passes are for generation"
        mask: MaskSpec = rest.get("mask") or Full()
        relate: Relate | None = rest.get("relate")
        kept = self._kept[turn]
        kept.add(k, v, self.used)
        used = self.used + queries.longest
        rows = q.view(len(queries), -1, *q.shape[1:]).transpose(1, 2)  # (B, H, Lq, D)
        k_rows, v_rows = kept.k[:, :, :used], kept.v[:, :, :used]  # (B, K, L, D)
        group = self._columns(queries, q.device)
        bias = None
        if relate is not None:
            rows, k_rows, bias = relate(rows, k_rows, group)
        allowed = mask.allowed(group)  # (1, Lq, L)
        real = _real(self.begins, group.keys.at)  # (B, 1, L)
        if allowed is not None and real is not None:
            allowed = allowed & real
        allowed = real if allowed is None else allowed
        both = merged(bias, None if allowed is None else allowed[:, None])
        return _mixed(rows, k_rows, v_rows, both, rest.get("scale"))

    def attend_source(
        self, owner: Hashable, q: Tensor, make: Project, queries: Layout, keys: Layout, scale: Scale
    ) -> Tensor:
        """Attends to what an encoder made; several rows may belong to one text."""
        if not self.used:
            k, v = make()
            self._sources[owner] = LayerKeysValues(k, v, keys, keys.longest)
            self._source_begins = tuple(keys.longest - length for length in keys.lengths)
            return attend(q, k, v, queries=queries, keys=keys, scale=scale)
        kept = self._sources[owner]
        rows = q.view(len(kept.k), -1, *q.shape[1:]).transpose(1, 2)  # (B, H, rows of it, D)
        real = _real(self._source_begins, torch.arange(kept.k.shape[2], device=q.device))
        return _mixed(rows, kept.k, kept.v, None if real is None else real[:, None], scale)

    def _columns(self, queries: Layout, device: torch.device) -> Group:
        """The new tokens and all columns: distances between columns are those between positions."""
        if self._group is None:
            each = queries.longest
            self._group = Group(Layout([each]), Layout([self.used + each]), [0], device)
        return self._group


def _columns_of(sources: "Mapping[Hashable, LayerKeysValues]") -> int:
    """How many tokens the longest text has that an encoder read; 0 if none read any."""
    return next((kept.k.shape[2] for kept in sources.values()), 0)


def _real(begins: Sequence[int], columns: Tensor) -> Tensor | None:
    """Which columns hold a token of each text, (B, 1, L); None when all do."""
    if not any(begins):
        return None
    return (columns >= torch.tensor(begins, device=columns.device)[:, None])[:, None]


def _mixed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Queries (B, H, Lq, D) on keys and values (B, K, L, D), packed again, (B * Lq, H, D)."""
    count, heads, each, _ = q.shape
    shared = heads // k.shape[1]
    if shared > 1 and each == 1:
        # Query heads that share a key head are as good as queries that follow each other.
        folded = q.view(count, k.shape[1], shared, -1)
        if mask is not None and mask.shape[1] > 1:
            mask = mask.view(len(mask), k.shape[1], shared, -1)
        mixed = F.scaled_dot_product_attention(folded, k, v, attn_mask=mask, scale=scale)
        return mixed.reshape(count, heads, -1)
    k, v = shared_heads(k, heads), shared_heads(v, heads)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return mixed.transpose(1, 2).reshape(count * each, heads, -1)


class PrefixCache(KVCache):
    """What every attention of a tower keeps of prefixes.

    One belongs to one batch of texts: a pass over the prefixes, then one over the endings; or one
    over answers alone.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        """Takes how many endings each prefix has, or how many answers each text."""
        self._counts = tuple(counts)
        self._prefixes = Layout([0] * len(self._counts))
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._turn = 0

    def begin(self, layout: Layout) -> None:
        """Before a pass."""
        self._turn = 0

    def end(self, layout: Layout) -> None:
        """After a pass: the first one was over prefixes."""
        if layout.before is None:
            self._prefixes = layout

    def following(self, lengths: Sequence[int]) -> Layout:
        """The layout of the endings, those of the first prefix first."""
        pairs = zip(self._prefixes.lengths, self._counts, strict=True)
        return Layout(lengths, [length for length, count in pairs for _ in range(count)])

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, queries: Layout, keys: Layout, **rest: Any
    ) -> Tensor:
        """`attend`, where endings see their prefixes, too."""
        turn, self._turn = self._turn, self._turn + 1
        if queries.before is None:
            self._kept.append((k, v))
        else:
            keys, positions = self._both(queries, k.device)
            # (M + N, K, D) to (L, K, D)
            k, v = (torch.cat(x)[positions] for x in zip(self._kept[turn], (k, v), strict=True))
        return attend(q, k, v, queries=queries, keys=keys, **rest)

    def attend_source(
        self, owner: Hashable, q: Tensor, make: Project, queries: Layout, keys: Layout, scale: Scale
    ) -> Tensor:
        """Attends to what an encoder made, all answers to a text together."""

        def joined() -> Layout:
            lengths = iter(queries.lengths)
            return Layout([sum(islice(lengths, count)) for count in self._counts])

        k, v = make()
        together = queries.once(("together", self._counts), joined)
        return attend(q, k, v, queries=together, keys=keys, scale=scale)

    def _both(self, endings: Layout, device: torch.device) -> tuple[Layout, Tensor]:
        """Prefix and ending of each text, and where their tokens stand, (L,)."""

        def make() -> tuple[Layout, Tensor]:
            both, counts = Layout(endings.ends), torch.tensor(self._counts, device=device)
            before = self._prefixes.sizes(device).repeat_interleave(counts)
            first = self._prefixes.first(device).repeat_interleave(counts)
            # An ending stands after all prefixes, and its first position is that after its own.
            shift = self._prefixes.total + endings.first(device) - before
            rows, positions = both.rows(device), both.positions(device)
            return both, positions + torch.where(positions < before[rows], first[rows], shift[rows])

        return endings.once(("both", self._prefixes, device), make)
