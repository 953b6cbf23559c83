"""A logit for every entry of the vocabulary, from the two tokens around a span.

Paper: Joshi et al. 2020 (SpanBERT): h = [left; right; position], then twice linear, GELU, norm,
then the decoder.
The idea: predict a masked token from the visible tokens just outside its span and from its position
in the span alone. The tower then learns to keep what a span says in the tokens around it.
Where paper and code differ: the paper counts positions from the left boundary token, the code from
the first token of the span, which is one less; the table of positions is 200 wide whatever the
model.
Trap: the vector of a position stands beside the two boundaries; it is not added to them.
Used by: the span boundary objective; thrown away after pre-training.

Shapes: n targets, W width, E width of the embedding table, V vocabulary.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import TOKEN_TABLE, HeadSpec
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.norm import LayerNorm, NormSpec
from clozeworks.core.loss import LossTerm
from clozeworks.spec import spec


@spec
class BoundaryVocabulary(HeadSpec):
    """decoder(block(block([left; right; position]))) + bias, block = norm(activation(dense))."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    positions: int = 15
    """The most tokens of a span that are predicted."""
    position_width: int = 200
    norm: NormSpec = LayerNorm(eps=1e-12)
    activation: str = "gelu"

    def build(self, width: int, embeddings: Embeddings) -> "BoundaryVocabularyModule":
        """Makes the module."""
        table_width = embeddings.width or width
        return BoundaryVocabularyModule(
            positions=nn.Embedding(self.positions, self.position_width),
            first=nn.Linear(2 * width + self.position_width, width),
            first_norm=self.norm.build(width),
            second=nn.Linear(width, table_width),
            second_norm=self.norm.build(table_width),
            decoder=nn.Linear(table_width, embeddings.tokens),
            activation=self.activation,
        )

    def shared(self) -> dict[str, str]:
        """The decoder is the table of token vectors; its bias is its own."""
        return {"decoder.weight": TOKEN_TABLE}


class BoundaryVocabularyModule(nn.Module):
    """Two dense layers over both boundaries and a position, then every token vector."""

    def __init__(
        self,
        *,
        positions: nn.Embedding,
        first: nn.Linear,
        first_norm: nn.Module,
        second: nn.Linear,
        second_norm: nn.Module,
        decoder: nn.Linear,
        activation: str,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.first = first
        self.first_norm = first_norm
        self.second = second
        self.second_norm = second_norm
        self.decoder = decoder
        self.activation = activation_named(activation)

    def transform(self, left: Tensor, right: Tensor, positions: Tensor) -> Tensor:
        """The tokens around the span (n, W) and positions in it (n,) to what the decoder reads."""
        x = torch.cat([left, right, self.positions(positions)], dim=1)  # (n, 2W + 200)
        x = self.first_norm(self.activation(self.first(x)))  # (n, W)
        transformed: Tensor = self.second_norm(self.activation(self.second(x)))  # (n, E)
        return transformed

    def forward(self, left: Tensor, right: Tensor, positions: Tensor) -> Tensor:
        """The tokens before and after the span (n, W) and positions in it (n,) to logits (n, V)."""
        logits: Tensor = self.decoder(self.transform(left, right, positions))
        return logits

    def loss(self, left: Tensor, right: Tensor, positions: Tensor, targets: Tensor) -> LossTerm:
        """The cross-entropy of the same with the right entries (n,)."""
        return LossTerm.of_linear(self.transform(left, right, positions), self.decoder, targets)
