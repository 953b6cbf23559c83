"""Relative positions and relative segments, each with a bias of its own for the query.

Paper: Dai et al. 2019 (Transformer-XL); Yang et al. 2019 (XLNet adds segments).
The idea: a score has three terms, (q + u)·k for what the key says, (q + v)·r for how far away it
stands, r a projection of sinusoids of the distance, and (q + w)·s for whether it belongs to another
segment. Nothing depends on a position as such, so any length can be read, also after a memory.
Where paper and code differ: the sines and cosines of a distance stand as two halves, not in turns.
The code drops values of the sinusoids once for all layers and anew for each text; here each layer
drops its own, the same for all texts. First values of u, v and w are 0 here, as of every bias.
Trap: s has a row for the same segment and one for another; the first is added to all keys of the
same segment, so only their difference can be seen through softmax, and that is what is computed.
Used by: XLNet.

Shapes: B texts, H heads, Lq queries, Lk keys, D head width, W width, T distances.
"""

from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from clozeworks.core.attention.attend import Relate
from clozeworks.core.context import ForwardContext
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layout import Group
from clozeworks.core.ops.relative_scores import is_even, products_by_place
from clozeworks.core.positions import PositionModule, PositionSpec
from clozeworks.spec import spec

SLOWEST = 10_000.0


@spec
class TransformerXl(PositionSpec):
    """(q + u)·k + (q + v)·r + (q + w)·s."""

    paper: ClassVar[str] = "Dai et al. 2019; Yang et al. 2019"

    farthest: int | None = None
    """Distances above this count as this; None: every distance is its own."""
    dropout: float = 0.0
    """The probability that a value of the sinusoids is dropped in training."""

    def build(self, width: int, heads: int, head_width: int) -> "TransformerXlModule":
        """Makes the module."""
        return TransformerXlModule(width, heads, head_width, self.farthest, self.dropout)


class TransformerXlModule(PositionModule):
    """Three biases, a projection of distances, two segment vectors; all for one layer."""

    def __init__(
        self, width: int, heads: int, head_width: int, farthest: int | None, dropout: float
    ) -> None:
        super().__init__()
        self.project = nn.Linear(width, heads * head_width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, head_width))  # u
        self.distance_bias = nn.Parameter(torch.zeros(heads, head_width))  # v
        self.segment_bias = nn.Parameter(torch.zeros(heads, head_width))  # w
        self.segments = nn.Parameter(torch.zeros(2, heads, head_width))  # s: the same, another
        self.dropout = Dropout(dropout)
        self.heads = heads
        self.farthest = farthest

    def forward(self, attention: nn.Module, context: ForwardContext) -> Relate:
        """Projects the distances of the pass, and relates the rows of each group by them."""
        reach, table = self._sinusoids(context)
        r = self.project(self.dropout(table)).unflatten(1, (self.heads, -1))  # (T, H, D)
        content, distance, segment, segments = (
            bias[..., None, :]
            for bias in (self.content_bias, self.distance_bias, self.segment_bias, self.segments)
        )  # (H, 1, D) and (2, H, 1, D)

        def relate(q: Tensor, k: Tensor, group: Group) -> tuple[Tensor, Tensor, Tensor]:
            scale = cast("float | None", attention.scale) or q.shape[-1] ** -0.5
            lq, lk = q.shape[2], k.shape[2]
            if is_even(group, context):
                near = r.narrow(0, reach - lk + 1, lq + lk)  # from the distance Lk - 1 down
                bias = products_by_place((q + distance) * scale, near, lk)  # (B, H, Lq, Lk)
            else:
                products = (q + distance) * scale @ r.permute(1, 2, 0)  # (B, H, Lq, T)
                index = _columns(group, context, reach)[:, None].expand(*q.shape[:2], lq, lk)
                bias = products.gather(3, index)
            other = _differing(group, context, q.dtype)
            if other is not None:
                change = ((q + segment) * scale * (segments[1] - segments[0])).sum(3, keepdim=True)
                bias = torch.addcmul(bias, change, other)  # (B, H, Lq, 1) by (B, 1, Lq, Lk)
            return q + content, k, bias

        return relate

    def _sinusoids(self, context: ForwardContext) -> tuple[int, Tensor]:
        """The farthest distance, and sinusoids of all from there down to its negative, (T, W)."""
        keys = context.layout if context.source is None else context.source.layout
        reach = max(context.layout.longest, keys.longest)
        weight = self.project.weight

        def make() -> Tensor:
            distances = torch.arange(reach, -reach - 1, -1, device=weight.device).float()
            if self.farthest is not None:
                distances = distances.clamp(-self.farthest, self.farthest)
            half = torch.arange(0, weight.shape[1], 2, device=weight.device).float()
            speeds = 1 / SLOWEST ** (half / weight.shape[1])
            angles = distances[:, None] * speeds
            return torch.cat([angles.sin(), angles.cos()], dim=1)[:, : weight.shape[1]]

        key = ("sinusoids", reach, weight.shape[1], self.farthest, weight.device)
        return reach, context.layout.once(key, make).to(weight.dtype)


def _columns(group: Group, context: ForwardContext, reach: int) -> Tensor:
    """The column of each distance, by query and key, (B or 1, Lq, Lk)."""
    at = context.source.positions if context.source is not None else None

    def make() -> Tensor:
        positions = context.query_positions(group)
        # The position of padding may be anything; its result is dropped.
        distances = positions[:, :, None] - group.key_positions()[:, None, :]
        return (reach - distances).clamp(0, 2 * reach)

    return group.once(("columns by distance", at, reach), make)


def _differing(group: Group, context: ForwardContext, dtype: torch.dtype) -> Tensor | None:
    """1 where a query and a key have different types, (B, 1, Lq, Lk); None without types."""
    seen = context.types if context.source is None else context.source.types
    if context.types is None or seen is None:
        return None
    types = context.types

    def make() -> Tensor:
        of_queries, of_keys = group.queries.take_values(types), group.keys.take_values(seen)
        return (of_queries[:, None, :, None] != of_keys[:, None, None, :]).to(dtype)

    return group.once(("differing types", types, seen, dtype), make)
