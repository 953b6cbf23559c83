"""A score for every entry of the vocabulary.

Paper: Devlin et al. 2019; Press & Wolf 2017 (the decoder shares the embedding table).
The idea: transform the token once more, then compare it with every token vector; the bias is the
head's own.
Trap: the decoder is the largest matrix of a small model. It is computed only at the positions that
are asked: `head(hidden[asked])`, never on all tokens and then masked.
Used by: masked language models of every encoder family; XLNet, GPT, LLaMA and T5 compare the token
as it is.

Shapes: n asked tokens, W width, E width of the embedding table, V vocabulary.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.heads import TOKEN_TABLE, HeadSpec, Reads
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.norm import NormSpec
from clozeworks.spec import spec


@spec
class Vocabulary(HeadSpec):
    """decoder(norm(activation(dense(x)))) + bias."""

    paper: ClassVar[str] = "Devlin et al. 2019"
    reads: ClassVar[Reads] = "tokens"

    norm: NormSpec
    activation: str = "gelu"
    tied: bool = True
    """Whether the decoder is the embedding table."""
    bias: bool = True
    """Whether the dense layer has a bias; the decoder always has one."""

    def build(self, width: int, embeddings: Embeddings) -> "VocabularyModule":
        """Makes the module."""
        table_width = embeddings.width or width
        return VocabularyModule(
            width,
            table_width,
            embeddings.tokens,
            norm=self.norm.build(table_width),
            activation=self.activation,
            bias=self.bias,
        )

    def shared(self) -> dict[str, str]:
        """The decoder is the table of token vectors, if it is tied."""
        return {"decoder.weight": TOKEN_TABLE} if self.tied else {}


class VocabularyModule(nn.Module):
    """Transforms, normalises, compares with every token vector."""

    def __init__(
        self,
        width: int,
        table_width: int,
        tokens: int,
        *,
        norm: nn.Module,
        activation: str,
        bias: bool,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, table_width, bias=bias)
        self.activation = activation_named(activation)
        self.norm = norm
        self.decoder = nn.Linear(table_width, tokens)

    def transform(self, x: Tensor) -> Tensor:
        """Hidden states of the asked positions (n, W) to what the decoder reads (n, E)."""
        transformed: Tensor = self.norm(self.activation(self.dense(x)))
        return transformed

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states of the asked positions (n, W) to scores (n, V)."""
        scores: Tensor = self.decoder(self.transform(x))
        return scores


@spec
class PlainVocabulary(HeadSpec):
    """decoder(x), with a bias or without."""

    paper: ClassVar[str] = "Yang et al. 2019"
    reads: ClassVar[Reads] = "tokens"

    tied: bool = True
    """Whether the decoder is the embedding table."""
    dropout: float = 0.0
    bias: bool = True
    """Whether the decoder has a bias: XLNet's has, those of GPT, LLaMA and T5 have none."""
    scaled: bool = False
    """Whether tokens are divided by the square root of their width first (T5, where tied)."""

    def build(self, width: int, embeddings: Embeddings) -> "PlainVocabularyModule":
        """Makes the module."""
        scale = width**-0.5 if self.scaled else 1.0
        return PlainVocabularyModule(width, embeddings.tokens, self.dropout, self.bias, scale)

    def shared(self) -> dict[str, str]:
        """The decoder is the table of token vectors, if it is tied."""
        return {"decoder.weight": TOKEN_TABLE} if self.tied else {}


class PlainVocabularyModule(nn.Module):
    """Compares with every token vector."""

    def __init__(self, width: int, tokens: int, dropout: float, bias: bool, scale: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.decoder = nn.Linear(width, tokens, bias=bias)
        self.scale = scale

    def transform(self, x: Tensor) -> Tensor:
        """Hidden states of the asked positions, as the decoder reads them, (n, W)."""
        kept: Tensor = self.dropout(x)
        return kept if self.scale == 1.0 else kept * self.scale

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states of the asked positions (n, W) to scores (n, V)."""
        scores: Tensor = self.decoder(self.transform(x))
        return scores
