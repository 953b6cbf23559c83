"""Two streams through the same layers: one that knows its tokens, one that predicts them.

Paper: Yang et al. 2019 (XLNet); the memory is that of Dai et al. 2019 (Transformer-XL).
The idea: to predict a token from any set of others, a query must know its position and not the
token, while those others must be known. So the content stream h reads tokens, and the query stream
g begins with one learned vector at the target positions and attends to h, never to itself. Both go
through the same weights. `Permutation` says who may attend to whom. A memory, the inputs of every
layer for the tokens just before a text, is attended to by both.
Trap: g attends to what h was before the layer. h sees its own token, g does not.
Trap: layers that normalise first would have to normalise keys and values as well; they are not
computed here.
Used by: permuted language modelling; filling masks with a model that learned it.

Shapes: N tokens, n targets, K tokens of the memory, B texts, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clozeworks.core.attention.masks import MaskSpec, Permutation
from clozeworks.core.context import AttentionSource, ForwardContext, Trace
from clozeworks.core.heads.query_start import NAME as START
from clozeworks.core.layout import Layout

if TYPE_CHECKING:
    from clozeworks.core.model import Model

# The rank of a memory: every token may attend to it, so theirs must be above.
REMEMBERED = -(2**30)


@dataclass(frozen=True)
class Memory:
    """What the layers read at the tokens before each text."""

    inputs: Sequence[Tensor]
    """The tokens (K, W) as each layer found them, in running order."""
    layout: Layout
    """How many there are for each text, which may be none."""


@dataclass(frozen=True)
class TargetQueries:
    """What the query stream predicts."""

    tokens: Tensor
    """The target positions among all tokens of the batch, in ascending order, (n,)."""
    layout: Layout
    """How many of them each text has."""
    start: Tensor
    """The vector that stands in their place, as wide as the token table."""


@dataclass(frozen=True)
class PermutationRanks:
    """Who may attend to whom: a token sees those whose `seen` is below its `sees`."""

    sees: Tensor
    """(N,), above `REMEMBERED`."""
    seen: Tensor
    """(N,)."""


@dataclass(frozen=True)
class Streams:
    """Both streams, as they were before each layer and after the last."""

    content: list[Tensor]
    """Each (N, W); the last is missing where it is not wanted."""
    queries: list[Tensor]
    """Each (n, W)."""


def unseen(
    model: "Model",
    ids: Tensor,
    layout: Layout,
    types: Tensor | None,
    positions: Tensor,
    trace: Trace | None = None,
    content_trace: Trace | None = None,
) -> Tensor:
    """The query stream's hidden states at positions (n,) whose tokens nobody may see, (n, W).

    A trace is given the query stream's hidden states before each layer and after the last, and its
    attention; `content_trace` the attention of the content stream below the last layer.
    """
    counts = torch.bincount(layout.rows(ids.device)[positions], minlength=len(layout)).tolist()
    seen = torch.full_like(ids, -1).index_fill(0, positions, 0)
    streams = two_streams(
        model,
        ids,
        layout,
        types,
        targets=TargetQueries(positions, Layout(counts), model.heads[START]()),
        ranks=PermutationRanks(torch.zeros_like(ids), seen),
        content=False,
        trace=trace,
        content_trace=content_trace,
    )
    if trace is not None:
        trace.hidden_states.extend(streams.queries)
    return streams.queries[-1]


def remembered(model: "Model", ids: Tensor, layout: Layout, types: Tensor | None = None) -> Memory:
    """Reads the tokens before each text, all of them seeing each other, without a gradient."""
    with torch.no_grad():
        streams = two_streams(model, ids, layout, types, content=False)
    return Memory(streams.content, layout)


def two_streams(
    model: "Model",
    ids: Tensor,
    layout: Layout,
    types: Tensor | None = None,
    *,
    targets: TargetQueries | None = None,
    ranks: PermutationRanks | None = None,
    memory: Memory | None = None,
    content: bool = True,
    trace: Trace | None = None,
    content_trace: Trace | None = None,
) -> Streams:
    """Runs the layers of a model on both streams.

    Args:
        model: The model, whose layers must not normalise first.
        ids: Token numbers, (N,).
        layout: Where the texts begin and end.
        types: Segment types, (N,); those of a memory are 0.
        targets: What the query stream predicts, which takes ranks; there is none if not given.
        ranks: Who attends to whom; what the layers say if not given.
        memory: What stands before the texts.
        content: Whether the content stream goes through the last layer, too.
        trace: Keeps the attention of the query stream.
        content_trace: Keeps that of the content stream.
    """
    assert targets is None or ranks is not None, "a target must not be seen by its query"
    tower = model.encoder
    before = _Before(memory, layout, ids.device)
    h = model.embeddings(ids, layout, types)
    content_context = ForwardContext(
        layout, content_trace, types=types, mask=before.order(ranks, None)
    )
    tower.begin(content_context)
    streams = Streams([h], [])
    if targets is not None:
        g = model.embeddings.at(targets.start, targets.tokens, layout, types)
        query_types = None if types is None else types[targets.tokens]
        query_context = ForwardContext(
            targets.layout, trace, types=query_types, mask=before.order(ranks, targets.tokens)
        )
        streams.queries.append(g)
        positions = before.positions(targets.tokens)
    seen_types = None if types is None else before.joined(types.new_zeros(before.count), types)
    for step, index in enumerate(tower.order):
        seen = h if memory is None else before.joined(memory.inputs[step], h)
        if memory is not None:
            content_context.source = AttentionSource(seen, before.layout, seen_types)
        last = step == len(tower.order) - 1
        layer = list(tower.layers[index].children())
        if targets is not None:
            query_context.source = AttentionSource(seen, before.layout, seen_types, positions)
            if step == 0:
                tower.begin(query_context)
            for sublayer in layer:
                g = sublayer(g, query_context)
            streams.queries.append(tower.norm(g) if last else g)
        if last and not content:
            break
        for sublayer in layer:
            h = sublayer(h, content_context)
        streams.content.append(tower.norm(h) if last else h)
    return streams


class _Before:
    """Texts with their memory before them."""

    def __init__(self, memory: Memory | None, layout: Layout, device: torch.device) -> None:
        self.device = device
        self.texts = layout
        self.count = memory.layout.total if memory is not None else 0
        self._index: Tensor | None = None
        self.layout = layout
        if memory is None:
            return
        lengths = memory.layout.lengths
        assert len(lengths) == len(layout), "a memory belongs to the same texts"
        self.layout = Layout([a + b for a, b in zip(lengths, layout.lengths, strict=True)])
        ahead = memory.layout.sizes(device)[self.layout.rows(device)]  # (K + N,)
        within = self.layout.positions(device)
        rows = self.layout.rows(device)
        from_memory = memory.layout.first(device)[rows] + within
        from_text = self.count + layout.first(device)[rows] + within - ahead
        self._index = from_memory.where(within < ahead, from_text)
        self._ahead = memory.layout.sizes(device)

    def joined(self, memory: Tensor, texts: Tensor) -> Tensor:
        """Values of the memory (K, …) and of the texts (N, …), each memory before its text."""
        return texts if self._index is None else torch.cat([memory, texts])[self._index]

    def positions(self, tokens: Tensor) -> Tensor:
        """Where some tokens stand among the keys of their texts, (n,)."""
        positions = self.texts.positions(self.device)[tokens]
        if self._index is None:
            return positions
        return positions + self._ahead[self.texts.rows(self.device)[tokens]]

    def order(self, ranks: PermutationRanks | None, targets: Tensor | None) -> MaskSpec | None:
        """Who sees whom: all tokens and themselves, or the targets and not themselves."""
        if ranks is None:
            return None
        keys = self.joined(ranks.seen.new_full((self.count,), REMEMBERED), ranks.seen)
        queries = ranks.sees if targets is None else ranks.sees[targets]
        return Permutation(queries, keys, itself=targets is None)
