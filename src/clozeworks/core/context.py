"""What the parts of one forward pass share.

Shapes: N tokens, M tokens that are attended to, W width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from clozeworks.core.attention.kv_cache import KVCache
from clozeworks.core.attention.masks import MaskSpec
from clozeworks.core.layout import Group, Layout

# What the position schemes of all layers share: a table of vectors, or the bias of each group.
SharedPositions = Tensor | Callable[[Group], Tensor]


@dataclass
class Trace:
    """Keeps what happens inside a forward pass, for those who want to look.

    `hidden_states` holds the embeddings and then the output of every layer, each (N, W), the last
    one after the tower's last norm if it has one. `attention` holds, per attention in running
    order, one (heads, queries, keys) tensor per text; None leaves them out, which saves computing
    them.
    """

    hidden_states: list[Tensor] = field(default_factory=list)
    attention: list[list[Tensor]] | None = field(default_factory=list)

    def attended(self, attention: nn.Module, values: Tensor) -> None:
        """Called after each attention with its module and its values, (M, K, D)."""


@dataclass
class AttentionSource:
    """What queries attend to where it is not themselves: a memory before them, another stream."""

    tokens: Tensor
    """Keys and values are made of these, (M, W)."""
    layout: Layout
    """Where the texts of these begin and end: the same texts in the same order."""
    types: Tensor | None = None
    """Their segment types, (M,)."""
    positions: Tensor | None = None
    """The position of each query among the keys of its text, (N,); the last ones if not given."""


@dataclass
class ForwardContext:
    """Handed to every part of every layer."""

    layout: Layout
    trace: Trace | None = None
    types: Tensor | None = None
    """The segment type of each token, (N,), for positions that ask for it."""
    source: AttentionSource | None = None
    """What queries attend to; the tokens themselves if not given."""
    mask: MaskSpec | None = None
    """Who sees whom in this pass, in place of what the layers say."""
    shared: SharedPositions | None = None
    """What the position schemes of all layers share: made once per pass by the tower."""
    embedded: Tensor | None = None
    """The tokens as they came into the tower, (N, W), for parts that read them again."""
    encoded: AttentionSource | None = None
    """What an encoder made of the texts that a decoder answers."""
    cache: KVCache | None = None
    """Keys and values of earlier passes over the same texts."""

    def seen(self, x: Tensor) -> Tensor:
        """The tokens that keys and values are made of, (M, W)."""
        return x if self.source is None else self.source.tokens

    @property
    def seen_layout(self) -> Layout:
        """Where the texts of these begin and end."""
        return self.layout if self.source is None else self.source.layout

    def query_at(self, device: torch.device) -> Tensor:
        """The position of each query in its text, (N,)."""
        if self.source is None:
            return self.layout.positions(device)
        if self.source.positions is not None:
            return self.source.positions
        keys = self.source.layout

        def make() -> Tensor:
            ahead = keys.sizes(device) - self.layout.sizes(device)
            return self.layout.positions(device) + ahead[self.layout.rows(device)]

        return self.layout.once(("last of", keys, device), make)

    def query_positions(self, group: Group) -> Tensor:
        """The position of each query among the keys of its text, (B or 1, Lq)."""
        if self.source is None or self.source.positions is None:
            return group.query_positions()
        return group.queries.take_values(self.source.positions)

    def keep_hidden(self, x: Tensor) -> None:
        """Adds the hidden states between two layers to the trace."""
        if self.trace is not None:
            self.trace.hidden_states.append(x)

    def attended(self, attention: nn.Module, values: Tensor) -> None:
        """Tells the trace which attention has just run, and what values it mixed, (M, K, D)."""
        if self.trace is not None:
            self.trace.attended(attention, values)

    def attention_weights(self) -> list[Tensor] | None:
        """A fresh list for the next attention to fill, if weights are wanted."""
        if self.trace is None or self.trace.attention is None:
            return None
        self.trace.attention.append([])
        return self.trace.attention[-1]
