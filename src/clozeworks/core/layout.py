"""Where each text of a packed batch begins and ends.

The idea: the tokens of all texts stand one after the other, (N, W), and no padding token exists
anywhere but inside attention. The layout is the only thing that knows about texts; everything
that works token by token never asks for it.

Shapes: N tokens of a batch, B texts, L the longest text of a group, W width, H heads, D head width.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

T = TypeVar("T")
# A run of equally long neighbours with at least this many tokens is worth an attention call of its
# own on a view; shorter runs are gathered with others of nearly the same length.
_WORTH_A_CALL = 128
# Texts may share a padded group as long as the shortest is at least this fraction of the longest,
_NEARLY_EQUAL = 0.875
# or as long as all padding of the group makes fewer scores than this: a call of its own for some
# short texts costs more than their padding.
_WORTH_PADDING = 16_384


class Derived:
    """Tables that follow from an object, made on first use and kept, so all layers share them.

    They may depend on positions, never on parameters.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Makes a table on first use and keeps it."""
        if key not in self._made:
            # Trap: a tensor born in inference mode can never be used in a later training step.
            with torch.inference_mode(False):
                self._made[key] = make()
        return cast(T, self._made[key])


class Layout(Derived):
    """The lengths of the texts in a packed batch, and what follows from them; it is immutable."""

    def __init__(self, lengths: Sequence[int], before: Sequence[int] | None = None) -> None:
        """Takes the length of each text, and how many of its tokens came in earlier passes."""
        super().__init__()
        self.lengths = tuple(int(length) for length in lengths)
        assert all(length >= 0 for length in self.lengths), "a text cannot have a negative length"
        self.before = tuple(before) if before is not None else None
        assert before is None or len(before) == len(self), "one number for each text"
        ends = tuple(accumulate(self.lengths))
        self.starts = (0, *ends[:-1]) if ends else ()
        self.total = ends[-1] if ends else 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return False
        return (self.lengths, self.before) == (other.lengths, other.before)

    def __hash__(self) -> int:
        return hash((self.lengths, self.before))

    def __repr__(self) -> str:
        return f"Layout({len(self)} texts, {self.total} tokens, longest {self.longest})"

    @cached_property
    def longest(self) -> int:
        """The length of the longest text."""
        return max(self.lengths, default=0)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many tokens of each text there are with those that came before."""
        if self.before is None:
            return self.lengths
        return tuple(map(sum, zip(self.lengths, self.before, strict=True)))

    def sizes(self, device: torch.device) -> Tensor:
        """The lengths as a tensor, (B,)."""
        return self.once(
            ("sizes", device), lambda: torch.tensor(self.lengths, dtype=torch.long, device=device)
        )

    def rows(self, device: torch.device) -> Tensor:
        """The text each token belongs to, (N,)."""

        def make() -> Tensor:
            numbers = torch.arange(len(self), device=device)
            return numbers.repeat_interleave(self.sizes(device), output_size=self.total)

        return self.once(("rows", device), make)

    def positions(self, device: torch.device) -> Tensor:
        """The position of each token in its own text, counted from 0, (N,)."""

        def make() -> Tensor:
            before = self.before or (0,) * len(self)
            if set(self.lengths) == {1}:
                return torch.tensor(before, dtype=torch.long, device=device)
            starts = [start - ahead for start, ahead in zip(self.starts, before, strict=True)]
            first = torch.tensor(starts, dtype=torch.long, device=device)
            return torch.arange(self.total, device=device) - first[self.rows(device)]

        return self.once(("positions", device), make)

    def first(self, device: torch.device) -> Tensor:
        """Where each text's first token stands, (B,)."""
        return self.once(
            ("first", device), lambda: torch.tensor(self.starts, dtype=torch.long, device=device)
        )

    def last(self, device: torch.device) -> Tensor:
        """Where each text's last token stands, (B,)."""
        return self.once(("last", device), lambda: self.first(device) + self.sizes(device) - 1)

    def split(self, x: Tensor) -> list[Tensor]:
        """Cuts a packed tensor into one piece per text."""
        return list(torch.split(x, list(self.lengths)))

    def plan(self, keys: "Layout", device: torch.device) -> "AttentionPlan":
        """How attention from these texts to `keys` is cut into groups of rows."""
        return self.once(
            ("plan", keys.lengths, device),
            lambda: AttentionPlan(queries=self, keys=keys, device=device),
        )


class RowView:
    """How one side (queries or keys) of a group's texts is taken out of the packed tensor."""

    def __init__(self, layout: Layout, texts: Sequence[int], device: torch.device) -> None:
        lengths = [layout.lengths[text] for text in texts]
        starts = [layout.starts[text] for text in texts]
        self.count = len(texts)
        self.length = max(lengths)
        self.equal = min(lengths) == self.length
        follow = all(starts[i] + lengths[i] == starts[i + 1] for i in range(len(texts) - 1))
        self.start = starts[0] if self.equal and follow else None
        self.at = torch.arange(self.length, device=device)  # (L,)
        if self.start is not None:
            return
        sizes = torch.tensor(lengths, device=device)[:, None]  # (B, 1)
        self.real = self.at < sizes  # (B, L)
        position = torch.tensor(starts, device=device)[:, None] + self.at  # (B, L)
        # Padding repeats some token that exists; its weight is zero, its result is dropped.
        self.index = position.where(self.real, position[:, :1].clamp(max=max(layout.total - 1, 0)))
        self.index = self.index.flatten()
        self.kept = self.real.flatten().nonzero().squeeze(1)  # positions of (B * L) that are tokens
        self.source = position.flatten()[self.kept]  # and where those tokens stand in the batch

    def take(self, x: Tensor) -> Tensor:
        """Packed (N, H, D) to rows (B, H, L, D): a view where the tokens allow it."""
        if self.start is not None:
            x = x[self.start : self.start + self.count * self.length]
        else:
            x = x[self.index]
        return x.view(self.count, self.length, *x.shape[1:]).transpose(1, 2)  # (B, H, L, D)

    def take_values(self, x: Tensor) -> Tensor:
        """A value of each packed token (N,) to rows (B, L)."""
        if self.start is not None:
            return x[self.start : self.start + self.count * self.length].view(self.count, -1)
        return x[self.index].view(self.count, -1)

    def put(self, x: Tensor) -> Tensor:
        """Rows (B, H, L, D) to the group's tokens (n, H, D), padding dropped."""
        x = x.transpose(1, 2).flatten(0, 1)  # (B * L, H, D)
        return x if self.start is not None else x[self.kept]


class Group(Derived):
    """Texts of equal or nearly equal length that attention handles as rows of one tensor."""

    def __init__(
        self, queries: Layout, keys: Layout, texts: Sequence[int], device: torch.device
    ) -> None:
        super().__init__()
        self.texts = tuple(texts)
        self.queries = RowView(queries, texts, device)
        self.keys = RowView(keys, texts, device)
        self.device = device
        self.lengths = [(queries.lengths[text], keys.lengths[text]) for text in texts]

    def query_positions(self) -> Tensor:
        """The position of each query among the keys of its text, (B or 1, Lq).

        Where a text has more keys than queries (a cache, a memory), its queries are the last ones.
        """

        def make() -> Tensor:
            ahead = [key - query for query, key in self.lengths]
            offsets = torch.tensor(sorted(set(ahead)) if len(set(ahead)) == 1 else ahead)
            return self.queries.at + offsets.to(self.device)[:, None]

        return self.once("query_positions", make)

    def key_positions(self) -> Tensor:
        """The position of each key in its text, (1, Lk)."""
        return self.keys.at[None]

    def real_keys(self) -> Tensor | None:
        """Which keys are tokens rather than padding, (B, Lk); None when all are."""
        return None if self.keys.equal else self.keys.real


class AttentionPlan:
    """The groups of one attention, and the way back from groups to packed order."""

    def __init__(self, queries: Layout, keys: Layout, device: torch.device) -> None:
        assert len(queries) == len(keys), "queries and keys must belong to the same texts"
        self.groups = [Group(queries, keys, texts, device) for texts in _grouped(queries, keys)]
        order = [text for group in self.groups for text in group.texts]
        self._restore: Tensor | None = None
        if order != [text for text in range(len(queries)) if queries.lengths[text]]:
            positions = [self._positions(group) for group in self.groups]
            self._restore = torch.cat(positions).argsort() if positions else None

    @staticmethod
    def _positions(group: Group) -> Tensor:
        rows = group.queries
        if rows.start is None:
            return rows.source
        return torch.arange(rows.start, rows.start + rows.count * rows.length, device=group.device)

    def join(self, pieces: list[Tensor]) -> Tensor:
        """The groups' tokens back in packed order, (N, H, D)."""
        x = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return x if self._restore is None else x[self._restore]


def _grouped(queries: Layout, keys: Layout) -> list[list[int]]:
    """Cuts the texts into groups: long runs of equal neighbours as they stand, the rest by size."""
    sizes = list(zip(queries.lengths, keys.lengths, strict=True))
    runs: list[list[int]] = []
    for text, size in enumerate(sizes):
        if size[0] == 0:
            continue  # no queries, nothing to compute
        if runs and runs[-1][-1] == text - 1 and sizes[runs[-1][0]] == size:
            runs[-1].append(text)
        else:
            runs.append([text])
    groups = [run for run in runs if len(run) * sizes[run[0]][0] >= _WORTH_A_CALL]
    small = [text for run in runs if len(run) * sizes[run[0]][0] < _WORTH_A_CALL for text in run]
    small.sort(key=lambda text: sizes[text], reverse=True)
    open_group: list[int] = []
    padding = 0
    for text in small:
        longest = sizes[open_group[0]] if open_group else sizes[text]
        padding += longest[0] * longest[1] - sizes[text][0] * sizes[text][1]
        if open_group and _may_share(longest, sizes[text], padding):
            open_group.append(text)
        else:
            open_group, padding = [text], 0
            groups.append(open_group)
    groups = [sorted(group) for group in groups]
    return sorted(groups, key=lambda group: group[0])


def _may_share(longest: tuple[int, int], size: tuple[int, int], padding: int) -> bool:
    """Whether a text may join a group, given the longest of it and all its padding."""
    if 0 in (longest[1], size[1]):
        return longest == size  # without keys there is nothing to attend to
    close = min(size[i] / longest[i] for i in (0, 1)) >= _NEARLY_EQUAL
    if close and size[1] <= longest[1] / _NEARLY_EQUAL:
        return True
    return size[1] <= longest[1] and padding <= _WORTH_PADDING
