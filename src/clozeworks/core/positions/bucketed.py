"""Relative positions by buckets: a score for every head and range of distances, added to attention.

Paper: Raffel et al. 2020 (T5).
The idea: near distances have a bucket each, far ones share buckets that grow with the logarithm of
the distance, and everything beyond the last counts as the last. One table serves all layers of a
tower, so the bias is made once per pass.
Trap: the published logarithm is float32; at powers of two another precision gives another bucket.
Used by: T5 and its relatives.

Shapes: B texts, H heads, Lq queries, Lk keys, T distances.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from clozeworks.core.attention.attend import Relate
from clozeworks.core.context import ForwardContext
from clozeworks.core.layout import Group
from clozeworks.core.ops.relative_scores import is_even
from clozeworks.core.positions import PositionModule, PositionSpec, SharedPositionSpec
from clozeworks.errors import SettingError
from clozeworks.spec import spec

Bias = Callable[[Group], Tensor]


@spec
class BucketTable(SharedPositionSpec):
    """The table of a tower."""

    paper: ClassVar[str] = "Raffel et al. 2020"

    heads: int
    both_sides: bool
    """Whether keys after the query have buckets of their own; a decoder never sees them."""
    count: int = 32
    farthest: int = 128
    """Distances from here on share the last bucket."""

    def for_heads(self, heads: int) -> "BucketTable":
        """A table with a score for each of these heads."""
        return replace(self, heads=heads)

    def build(self, width: int) -> "BucketTableModule":
        """Makes the module."""
        exact = self.count // (4 if self.both_sides else 2)
        if exact < 1 or self.farthest <= exact:
            raise SettingError(
                "positions.count",
                self.count,
                f"it must be at least {4 if self.both_sides else 2}, and `positions.farthest`, "
                f"{self.farthest}, above the {exact} distances that have a bucket each",
                "change one of them",
            )
        return BucketTableModule(self.heads, self.both_sides, self.count, self.farthest)


class BucketTableModule(nn.Module):
    """Looks up a score for each head and distance."""

    def __init__(self, heads: int, both_sides: bool, count: int, farthest: int) -> None:
        super().__init__()
        self.table = nn.Embedding(count, heads)
        self.both_sides = both_sides
        self.farthest = farthest

    def forward(self, context: ForwardContext) -> Bias:
        """What the attentions of this pass add to their scores, (B or 1, H, Lq, Lk) by group."""
        made: dict[int, Tensor] = {}

        def bias(group: Group) -> Tensor:
            if id(group) not in made:
                made[id(group)] = self._bias(group, context)
            return made[id(group)]

        return bias

    def _bias(self, group: Group, context: ForwardContext) -> Tensor:
        if not is_even(group, context):
            distances = (
                group.key_positions()[:, None, :] - context.query_positions(group)[:, :, None]
            )
            return cast(Tensor, self.table(self.buckets(distances))).permute(0, 3, 1, 2)
        lq, lk = group.queries.length, group.keys.length
        buckets = group.once(
            ("buckets", self.both_sides, self.table.num_embeddings, self.farthest),
            lambda: self.buckets(torch.arange(1 - lk, lq, device=group.device)),
        )
        scores: Tensor = self.table(buckets).T  # (H, T), from the farthest key before a query on
        return scores.unfold(1, lk, 1).flip(1)[None]  # row i begins one earlier than row i - 1

    def buckets(self, distances: Tensor) -> Tensor:
        """The bucket of each distance, key minus query position."""
        count = self.table.num_embeddings // (2 if self.both_sides else 1)
        after = (distances > 0) * count if self.both_sides else torch.zeros_like(distances)
        far = distances.abs() if self.both_sides else distances.neg().clamp(min=0)
        exact = count // 2
        # Compat: in this order and precision, as published models were trained.
        grown = (far.clamp(min=1).float() / exact).log() / math.log(self.farthest / exact)
        shared = (exact + (grown * (count - exact)).long()).clamp(max=count - 1)
        return after + torch.where(far < exact, far, shared)


@spec
class Bucketed(PositionSpec):
    """Adds what the tower's table says."""

    paper: ClassVar[str] = "Raffel et al. 2020"

    def build(self, width: int, heads: int, head_width: int) -> "BucketedModule":
        """Makes the module."""
        return BucketedModule()


class BucketedModule(PositionModule):
    """Reads the tower's table; it has no weights."""

    def forward(self, attention: nn.Module, context: ForwardContext) -> Relate:
        """Queries and keys as they are, and the bias of the pass."""
        bias = context.shared
        assert bias is not None and not isinstance(bias, Tensor), "the tower shares a bias"

        def relate(q: Tensor, k: Tensor, group: Group) -> tuple[Tensor, Tensor, Tensor]:
            return q, k, bias(group)

        return relate
