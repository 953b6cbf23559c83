"""Multi-head attention, handed its position scheme and its mask.

Paper: Vaswani et al. 2017; Ainslie et al. 2023 (heads that share keys).
The idea: tokens are projected to queries, keys and values of several heads; each head mixes values
on its own, and a last projection joins the heads. Everything that differs between families
(positions, who sees whom, scale, bias) is a part or a number handed in.
Used by: every family.

Shapes: N tokens, M tokens attended to, W width, H heads, K heads of keys, D head width.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from clozeworks.core.attention.attend import attend
from clozeworks.core.attention.masks import Full, MaskSpec
from clozeworks.core.context import ForwardContext
from clozeworks.core.layers.linear import LinearLayer
from clozeworks.core.layers.sublayer import PartSpec
from clozeworks.core.positions import PositionModule, PositionSpec
from clozeworks.spec import spec


@spec
class SelfAttention(PartSpec):
    """Every token attends to the tokens of its own text."""

    paper: ClassVar[str] = "Vaswani et al. 2017"
    role: ClassVar[str] = "attention"

    heads: int
    kv_heads: int | None = None
    """Heads of keys and values, each shared by as many heads of queries, which makes the cache
    smaller; as many as there are heads if not given."""
    head_width: int | None = None
    """Width of one head; the model's width divided by the heads if not given."""
    mask: MaskSpec = Full()
    positions: PositionSpec | None = None
    dropout: float = 0.0
    """The probability that an attention weight is dropped in training."""
    bias: bool = True
    key_bias: bool = True
    """Whether keys have a bias where the others have one; DeBERTa's first version leaves it out."""
    output_bias: bool = True
    """Whether the output has a bias where the others have one; Qwen2 leaves it out."""
    scale: float | None = None
    """What scores are multiplied by; 1 / sqrt(head width) if not given."""

    @property
    def computes_some(self) -> bool:
        """Where a token attends to all: masks count from the end of a text."""
        return self.mask == Full()

    def build(self, width: int) -> "SelfAttentionModule":
        """Makes the module."""
        head_width = self.head_width or width // self.heads
        return SelfAttentionModule(
            width,
            heads=self.heads,
            kv_heads=self.kv_heads or self.heads,
            head_width=head_width,
            mask=self.mask,
            positions=(
                self.positions.build(width, self.heads, head_width) if self.positions else None
            ),
            dropout=self.dropout,
            bias=self.bias,
            key_bias=self.bias and self.key_bias,
            output_bias=self.bias and self.output_bias,
            scale=self.scale,
        )


@spec
class CrossAttention(PartSpec):
    """Every token of a decoder attends to the text that an encoder read."""

    paper: ClassVar[str] = "Vaswani et al. 2017"
    role: ClassVar[str] = "cross_attention"

    heads: int
    head_width: int | None = None
    """Width of one head; the model's width divided by the heads if not given."""
    dropout: float = 0.0
    bias: bool = True
    scale: float | None = None
    """What scores are multiplied by; 1 / sqrt(head width) if not given."""

    def build(self, width: int) -> "CrossAttentionModule":
        """Makes the module."""
        return CrossAttentionModule(
            width,
            heads=self.heads,
            kv_heads=self.heads,
            head_width=self.head_width or width // self.heads,
            dropout=self.dropout,
            bias=self.bias,
            key_bias=self.bias,
            output_bias=self.bias,
            scale=self.scale,
        )


class AttentionModule(nn.Module):
    """The projections of an attention."""

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        kv_heads: int,
        head_width: int,
        dropout: float,
        bias: bool,
        key_bias: bool,
        output_bias: bool,
        scale: float | None,
    ) -> None:
        super().__init__()
        self.query = LinearLayer(width, heads * head_width, bias=bias)
        self.key = LinearLayer(width, kv_heads * head_width, bias=key_bias)
        self.value = LinearLayer(width, kv_heads * head_width, bias=bias)
        self.output = LinearLayer(heads * head_width, width, bias=output_bias)
        self.heads = heads
        self.kv_heads = kv_heads
        self.dropout = dropout
        self.scale = scale

    def queries(self, x: Tensor) -> Tensor:
        """Tokens (N, W) to queries (N, H, D)."""
        q: Tensor = self.query(x).unflatten(1, (self.heads, -1))
        return q

    def keys_and_values(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens that are attended to (M, W) to keys and values, (M, K, D) each."""
        shape = (self.kv_heads, -1)
        return self.key(seen).unflatten(1, shape), self.value(seen).unflatten(1, shape)

    def joined(self, mixed: Tensor) -> Tensor:
        """What the heads made (N, H, D) to tokens, (N, W)."""
        tokens: Tensor = self.output(mixed.flatten(1))
        return tokens


class SelfAttentionModule(AttentionModule):
    """Projects, attends, joins the heads."""

    def __init__(
        self, width: int, *, mask: MaskSpec, positions: PositionModule | None, **rest: Any
    ) -> None:
        super().__init__(width, **rest)
        self.positions = positions
        self.mask = mask

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        q = self.queries(x)
        k, v = self.keys_and_values(context.seen(x))  # its own, or those of the source
        relate = None
        if self.positions is not None:
            q, k = self.positions.turned(q, k, context)
            relate = self.positions(self, context)
        attending = attend if context.cache is None else context.cache.attend
        mixed = attending(
            q,
            k,
            v,
            queries=context.layout,
            keys=context.seen_layout,
            mask=context.mask or self.mask,
            relate=relate,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            weights=context.attention_weights(),
        )
        context.attended(self, v)
        return self.joined(mixed)


class CrossAttentionModule(AttentionModule):
    """Projects queries of the decoder, keys and values of the encoder."""

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        source = context.encoded
        assert source is not None, "a decoder needs what its encoder made"
        q = self.queries(x)
        if context.cache is not None:
            mixed = context.cache.attend_source(
                self,
                q,
                lambda: self.keys_and_values(source.tokens),
                context.layout,
                source.layout,
                self.scale,
            )
            return self.joined(mixed)
        k, v = self.keys_and_values(source.tokens)
        mixed = attend(
            q,
            k,
            v,
            queries=context.layout,
            keys=source.layout,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            weights=context.attention_weights(),
        )
        context.attended(self, v)
        return self.joined(mixed)
