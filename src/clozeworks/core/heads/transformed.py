"""Classes of texts or tokens after one more transformation, as a masked model's logits have.

Paper: Warner et al. 2024 (ModernBERT).
The idea: a masked language model transforms a token once more before it predicts, and that layer
was trained with all the rest. A classifier that has the same layer can begin with what it learned;
only the last projection is fresh.
Used by: ModernBERT.

Shapes: N tokens, B texts, n vectors of tokens or texts, W width, C classes.
"""

from typing import ClassVar, Literal

from torch import Tensor, nn

from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.text_classes import PlainPooling, TextClassesModule
from clozeworks.core.heads.tokens import ClassesModule
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.norm import NormSpec
from clozeworks.spec import spec


@spec
class TransformedTokenClasses(HeadSpec):
    """project(dropout(norm(activation(dense(x))))) of every token."""

    paper: ClassVar[str] = "Warner et al. 2024"

    count: int
    norm: NormSpec
    activation: str = "gelu"
    bias: bool = False
    """Whether the dense layer has a bias; the projection always has one."""
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> "TransformedClassesModule":
        """Makes the module: tokens (n, W) to logits (n, C)."""
        norm = self.norm.build(width)
        return TransformedClassesModule(
            width, self.count, self.dropout, norm, self.activation, self.bias
        )


@spec
class TransformedTextClasses(HeadSpec):
    """The same of a whole text, from its first token or the mean of its tokens."""

    paper: ClassVar[str] = "Warner et al. 2024"

    count: int
    norm: NormSpec
    pooling: Literal["first", "mean"] = "first"
    activation: str = "gelu"
    bias: bool = False
    """Whether the dense layer has a bias; the projection always has one."""
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> TextClassesModule:
        """Makes the module: tokens (N, W) and their layout to logits (B, C)."""
        norm = self.norm.build(width)
        classes = TransformedClassesModule(
            width, self.count, self.dropout, norm, self.activation, self.bias
        )
        return TextClassesModule(PlainPooling(self.pooling), classes)


class TransformedClassesModule(ClassesModule):
    """Transforms, normalises, projects."""

    def __init__(
        self, width: int, count: int, dropout: float, norm: nn.Module, activation: str, bias: bool
    ) -> None:
        super().__init__(width, count, dropout)
        self.dense = nn.Linear(width, width, bias=bias)
        self.activation = activation_named(activation)
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of tokens or of whole texts (n, W) to logits (n, C)."""
        return super().forward(self.norm(self.activation(self.dense(x))))
