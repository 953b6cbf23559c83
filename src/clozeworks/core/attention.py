"""Multi-head self-attention, handed its position scheme and its view.

Paper: Vaswani et al. 2017.
The idea: tokens are projected to queries, keys and values of several heads; each head mixes values
on its own, and a last projection joins the heads. Everything that differs between families
(positions, who sees whom, scale, bias) is a part or a number handed in.
Used by: every family.

Shapes: N tokens, W width, H heads, D head width.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.attend import attend
from clozeworks.core.flow import Flow
from clozeworks.core.part import PartSpec
from clozeworks.core.positions import PositionSpec
from clozeworks.core.sees import Everything, SeesSpec
from clozeworks.core.spec import spec


@spec
class SelfAttention(PartSpec):
    """Every token looks at the tokens of its own text."""

    paper: ClassVar[str] = "Vaswani et al. 2017"
    role: ClassVar[str] = "attention"

    heads: int
    head_width: int | None = None
    """Width of one head; the model's width divided by the heads if not given."""
    sees: SeesSpec = Everything()
    positions: PositionSpec | None = None
    dropout: float = 0.0
    """The share of attention weights dropped in training."""
    bias: bool = True
    key_bias: bool = True
    """Whether keys have a bias where the others have one; DeBERTa's first version leaves it out."""
    scale: float | None = None
    """What scores are multiplied by; 1 / sqrt(head width) if not given."""

    def build(self, width: int) -> "SelfAttentionModule":
        """Makes the module."""
        head_width = self.head_width or width // self.heads
        return SelfAttentionModule(
            width,
            heads=self.heads,
            head_width=head_width,
            sees=self.sees,
            positions=(
                self.positions.build(width, self.heads, head_width) if self.positions else None
            ),
            dropout=self.dropout,
            bias=self.bias,
            key_bias=self.bias and self.key_bias,
            scale=self.scale,
        )


class SelfAttentionModule(nn.Module):
    """Projects, attends, joins the heads."""

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        head_width: int,
        sees: SeesSpec,
        positions: nn.Module | None,
        dropout: float,
        bias: bool,
        key_bias: bool,
        scale: float | None,
    ) -> None:
        super().__init__()
        self.query = nn.Linear(width, heads * head_width, bias=bias)
        self.key = nn.Linear(width, heads * head_width, bias=key_bias)
        self.value = nn.Linear(width, heads * head_width, bias=bias)
        self.output = nn.Linear(heads * head_width, width, bias=bias)
        self.positions = positions
        self.sees = sees
        self.heads = heads
        self.dropout = dropout
        self.scale = scale

    def forward(self, x: Tensor, flow: Flow) -> Tensor:
        """Tokens to tokens, (N, W)."""
        seen, keys = flow.seen(x)  # itself, or what the pass looks at instead
        q, k, v = (
            project(tokens).unflatten(1, (self.heads, -1))  # (N or M, H, D)
            for project, tokens in ((self.query, x), (self.key, seen), (self.value, seen))
        )
        mixed = attend(
            q,
            k,
            v,
            queries=flow.layout,
            keys=keys,
            sees=flow.sees or self.sees,
            relate=self.positions(self, flow) if self.positions is not None else None,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            weights=flow.attention_weights(),
        )
        joined: Tensor = self.output(mixed.flatten(1))  # (N, W)
        return joined
