"""A decoder that is the encoder itself: the same layers, which see the past and one vector more.

Paper: Wang, Reimers, Gurevych 2021 (TSDAE); Rothe et al. 2020 (encoders as decoders, weights tied).
The idea: whatever a decoder is to write must come through one vector per text. It has no layers of
its own: the encoder's run once more, each token seeing those before it, and after each
self-attention a cross-attention, which alone is new, reads the vector.
Trap: a softmax over one key is 1, so queries and keys of the cross-attention never change what
comes out; they are there because the published decoder has them.
Used by: the loss `tsdae` of sentence vectors.

Shapes: N tokens, B texts, W width.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from clozeworks.core.attention.attention import CrossAttention, SelfAttention
from clozeworks.core.attention.masks import Causal
from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.sublayer import SublayerSpec
from clozeworks.core.layers.tower import Tower
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class TiedDecoder(HeadSpec):
    """The encoder's layers, each with a cross-attention after its self-attention."""

    paper: ClassVar[str] = "Wang et al. 2021"

    cross: tuple[SublayerSpec, ...]
    """What follows the self-attention of each layer."""

    @classmethod
    def of(cls, encoder: Tower) -> "TiedDecoder":
        """A decoder for the layers of an encoder; what is new is shaped as their attention is."""
        return cls(cross=tuple(_crossing(sub) for layer in encoder.layers for sub in layer[:1]))

    def build(self, width: int, embeddings: Embeddings) -> "TiedDecoderModule":
        """Makes the module."""
        return TiedDecoderModule([sub.build(width) for sub in self.cross])


class TiedDecoderModule(nn.Module):
    """Holds the cross-attentions; all else is the model's."""

    def __init__(self, cross: Sequence[nn.Module]) -> None:
        super().__init__()
        self.cross = nn.ModuleList(cross)

    def forward(self, model: Any, ids: Tensor, layout: Layout, vectors: Tensor) -> Tensor:
        """Tokens (N,) and a vector for each text (B, W) to hidden states, (N, W)."""
        tower = model.encoder
        x = model.embeddings(ids, layout)
        encoded = AttentionSource(vectors, Layout([1] * len(vectors)))
        context = ForwardContext(layout, mask=Causal(), encoded=encoded, embedded=x)
        tower.begin(context)
        for index in tower.order:
            attention, *others = tower.layers[index].children()
            x = self.cross[index](attention(x, context), context)
            for sublayer in others:
                x = sublayer(x, context)
        out: Tensor = tower.dropout(tower.norm(x))
        return out


def _crossing(sub: SublayerSpec) -> SublayerSpec:
    """A cross-attention that joins the residual stream as a self-attention does."""
    attention = sub.part
    assert isinstance(attention, SelfAttention), "a layer begins with its attention"
    cross = CrossAttention(
        heads=attention.heads,
        head_width=attention.head_width,
        dropout=attention.dropout,
        bias=attention.bias,
        scale=attention.scale,
    )
    return replace(sub, part=cross)  # type: ignore[type-var]
