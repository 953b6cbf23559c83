"""The part of a layer that works on each token alone.

Paper: Vaswani et al. 2017 (MLP); Shazeer 2020 (gated).
The idea: project to a larger width, apply the activation, project back. The gated form multiplies
the activated path by a second linear one.
Used by: Mlp in BERT and its relatives, GPT, T5; GatedMlp in T5 v1.1, LLaMA, ModernBERT.

Shapes: N tokens, W width, I inner width.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.context import ForwardContext
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.linear import LinearLayer
from clozeworks.core.layers.sublayer import PartSpec
from clozeworks.spec import spec


@spec
class Mlp(PartSpec):
    """down(activation(up(x)))."""

    paper: ClassVar[str] = "Vaswani et al. 2017"
    role: ClassVar[str] = "feed_forward"

    inner: int
    activation: str = "gelu"
    bias: bool = True
    dropout: float = 0.0
    """The probability that an inner value is dropped in training (XLNet)."""

    @property
    def computes_some(self) -> bool:
        """Each token is computed by itself."""
        return True

    def build(self, width: int) -> "MlpModule":
        """Makes the module."""
        return MlpModule(width, self.inner, self.activation, self.bias, self.dropout)


class MlpModule(nn.Module):
    """Up, activation, down."""

    def __init__(
        self, width: int, inner: int, activation: str, bias: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.up = LinearLayer(width, inner, bias=bias)
        self.down = LinearLayer(inner, width, bias=bias)
        self.activation = activation_named(activation)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        out: Tensor = self.down(self.dropout(self.activation(self.up(x))))
        return out


@spec
class GatedMlp(PartSpec):
    """down(dropout(activation(gate(x)) * up(x)))."""

    paper: ClassVar[str] = "Shazeer 2020"
    role: ClassVar[str] = "feed_forward"

    inner: int
    activation: str = "gelu"
    bias: bool = False
    dropout: float = 0.0
    """The probability of a drop before the last projection, in training."""

    @property
    def computes_some(self) -> bool:
        """Each token is computed by itself."""
        return True

    def build(self, width: int) -> "GatedMlpModule":
        """Makes the module."""
        return GatedMlpModule(width, self.inner, self.activation, self.bias, self.dropout)


class GatedMlpModule(nn.Module):
    """Up twice, one path gating the other, down."""

    def __init__(self, width: int, inner: int, activation: str, bias: bool, dropout: float) -> None:
        super().__init__()
        self.gate = LinearLayer(width, inner, bias=bias)
        self.up = LinearLayer(width, inner, bias=bias)
        self.down = LinearLayer(inner, width, bias=bias)
        self.activation = activation_named(activation)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        out: Tensor = self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))
        return out
