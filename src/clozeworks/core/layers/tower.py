"""Layers one upon another.

A layer is a tuple of sub-layers. A tower lists its layers and the order in which they run, so
sharing (ALBERT: one layer, `order=(0,) * 12`), skipping and repeating need no code of their own.

Shapes: N tokens, W width.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.layers.sublayer import SublayerSpec
from clozeworks.core.layout import Layout
from clozeworks.core.positions import SharedPositionSpec
from clozeworks.spec import spec

Layer = tuple[SublayerSpec, ...]


def sublayer_names(layer: Layer) -> tuple[str, ...]:
    """What the weights of each sub-layer go by: its role; the second of a role `role_1`, and on."""
    before: Counter[str] = Counter()
    names = []
    for sub in layer:
        role = sub.part.role
        names.append(f"{role}_{before[role]}" if before[role] else role)
        before[role] += 1
    return tuple(names)


@spec
class Tower:
    """Layers, the order they run in, and a last norm where the family has one."""

    layers: tuple[Layer, ...]
    order: tuple[int, ...] | None = None
    """Which layer runs when; each once, from the first to the last, if not given."""
    final_norm: NormSpec | None = None
    positions: SharedPositionSpec | None = None
    """What the position schemes of all layers share (DeBERTa's table, T5's)."""
    dropout: float = 0.0
    """The probability of a drop after the last norm, in training."""

    def running_order(self) -> tuple[int, ...]:
        """The order, spelled out."""
        return tuple(range(len(self.layers))) if self.order is None else self.order

    @property
    def computes_some(self) -> bool:
        """Whether some tokens of the last layer can be computed without the others."""
        order = self.running_order()
        return bool(order) and all(sub.computes_some for sub in self.layers[order[-1]])

    def build(self, width: int) -> "TowerModule":
        """Makes the module."""
        layers = [
            nn.ModuleDict(
                {
                    name: sub.build(width)
                    for name, sub in zip(sublayer_names(layer), layer, strict=True)
                }
            )
            for layer in self.layers
        ]
        norm = self.final_norm.build(width) if self.final_norm else nn.Identity()
        positions = self.positions.build(width) if self.positions else None
        return TowerModule(layers, self.running_order(), norm, positions, self.dropout)


class TowerModule(nn.Module):
    """Runs the layers in order."""

    def __init__(
        self,
        layers: Sequence[nn.ModuleDict],
        order: Sequence[int],
        norm: nn.Module,
        positions: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.order = tuple(order)
        self.norm = norm
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        self.begin(context)
        context.embedded = x
        for index in self.order:
            context.keep_hidden(x)
            for sublayer in self.layers[index].children():
                x = sublayer(x, context)
        out: Tensor = self.dropout(self.norm(x))
        context.keep_hidden(out)
        if context.cache is not None:
            context.cache.end(context.layout)
        return out

    def at(self, x: Tensor, context: ForwardContext, positions: Tensor) -> Tensor:
        """The same at some positions (n,) in ascending order, (n, W): the last layer does no more.

        Only where `Tower.computes_some` holds.
        """
        x = self.below_last(x, context)
        out: Tensor = self.dropout(self.norm(self.last_at(x, x[positions], context, positions)))
        return out

    def below_last(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to what the last layer takes, (N, W)."""
        self.begin(context)
        context.embedded = x
        for index in self.order[:-1]:
            for sublayer in self.layers[index].children():
                x = sublayer(x, context)
        return x

    def last_at(
        self, x: Tensor, queries: Tensor, context: ForwardContext, positions: Tensor
    ) -> Tensor:
        """The last layer, of queries (n, W) at some positions that attend to all tokens, (N, W)."""
        layout, types = context.layout, context.types
        counts = torch.bincount(layout.rows(x.device)[positions], minlength=len(layout))
        own = layout.positions(x.device)[positions]
        of_queries = ForwardContext(
            Layout(counts.tolist()),
            types=None if types is None else types[positions],
            source=AttentionSource(x, layout, types, positions=own),
            shared=context.shared,
        )
        for sublayer in self.layers[self.order[-1]].children():
            queries = sublayer(queries, of_queries)
        return queries

    def begin(self, context: ForwardContext) -> None:
        """Makes what the layers share in a pass."""
        if context.cache is not None:
            context.cache.begin(context.layout)
        if self.positions is not None:
            context.shared = self.positions(context)
