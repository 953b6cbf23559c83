"""One vector per text from its first or last token, and classes read from it.

Paper: Devlin et al. 2019 (tanh pooler, trained by next-sentence prediction), Liu et al. 2019
(RoBERTa's classifier has a dense tanh layer of its own), Sanh et al. 2019 (ReLU), Yang et al. 2019
(XLNet's special token stands last).
Trap: the pooler's output is made for classification; it is a poor sentence vector.
Used by: classifiers of every encoder family; BERT's next-sentence and ALBERT's sentence-order head.

Shapes: B texts, W width, C classes.
"""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from clozeworks.core.heads import HeadSpec, Reads
from clozeworks.core.heads.tokens import ClassesModule
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class Pooler:
    """activation(dense(first or last token))."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    activation: str = "tanh"
    dropout: float = 0.0
    """Dropped before the dense layer (RoBERTa)."""
    token: Literal["first", "last"] = "first"
    """Which token speaks for its text."""

    def build(self, width: int) -> "PoolerModule":
        """Makes the module."""
        return PoolerModule(width, self.activation, self.dropout, self.token)


class PoolerModule(nn.Module):
    """A dense layer and an activation."""

    def __init__(self, width: int, activation: str, dropout: float, token: str = "first") -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.activation = activation_named(activation)
        self._places = {"first": Layout.first, "last": Layout.last}[token]

    def places(self, layout: Layout, device: torch.device) -> Tensor:
        """Where the tokens stand that it reads, (B,)."""
        return self._places(layout, device)

    def forward(self, spoken: Tensor) -> Tensor:
        """One token of each text (B, W) to pooled vectors (B, W)."""
        return self.activation(self.dense(self.dropout(spoken)))


@spec
class PooledClasses(HeadSpec):
    """A score per class for a whole text."""

    paper: ClassVar[str] = "Devlin et al. 2019"
    reads: ClassVar[Reads] = "pooled"

    count: int
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> ClassesModule:
        """Makes the module: pooled vectors (B, W) to scores (B, C)."""
        return ClassesModule(width, self.count, self.dropout)
