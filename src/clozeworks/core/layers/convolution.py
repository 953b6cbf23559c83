"""A convolution over the tokens as they came into the tower.

Paper: He, Liu, Gao, Chen 2021: the second version of DeBERTa has one after its first layer.
The idea: a token hears its direct neighbours in a fixed way, so that layers need not learn n-grams
by attention.
Trap: tokens of all texts stand one after the other; a text's end must hear nothing of the next one.
Trap: it reads the embeddings, not the layer before it, and dropout comes before the activation.
Used by: DeBERTa v2.

Shapes: N tokens, B texts, W width, G positions: the tokens with gaps between texts.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.context import ForwardContext
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.sublayer import PartSpec
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class Convolution(PartSpec):
    """activation(dropout(convolution(embeddings)))."""

    paper: ClassVar[str] = "He et al. 2021"
    role: ClassVar[str] = "convolution"

    size: int = 3
    """Tokens one output hears: an odd number, itself in the middle."""
    groups: int = 1
    activation: str = "tanh"
    dropout: float = 0.0

    def build(self, width: int) -> "ConvolutionModule":
        """Makes the module."""
        inner = nn.Conv1d(width, width, self.size, groups=self.groups)
        return ConvolutionModule(inner, self.activation, self.dropout)


class ConvolutionModule(nn.Module):
    """One call for all texts, with gaps of nothing between them."""

    def __init__(self, inner: nn.Conv1d, activation: str, dropout: float) -> None:
        super().__init__()
        self.inner = inner
        self.dropout = Dropout(dropout)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W); what it reads is the input of the tower."""
        assert context.embedded is not None, "the tower keeps its input"
        side = self.inner.kernel_size[0] // 2
        positions = self._positions(context.layout, side, x)  # (N,)
        total = context.layout.total + side * (len(context.layout) + 1)
        spread = x.new_zeros(total, x.shape[1]).index_copy(0, positions, context.embedded)  # (G, W)
        heard = self.inner(spread.t()[None])[0].t()  # (G - 2 side, W)
        return self.activation(self.dropout(heard[positions - side]))

    @staticmethod
    def _positions(layout: Layout, side: int, x: Tensor) -> Tensor:
        """Where each token stands when gaps are between the texts."""

        def make() -> Tensor:
            rows = layout.rows(x.device)
            return layout.first(x.device)[rows] + layout.positions(x.device) + side * (rows + 1)

        return layout.once(("spread", side, x.device), make)
