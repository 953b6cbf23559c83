"""A logit for every entry of the vocabulary.

Paper: Devlin et al. 2019; Press & Wolf 2017 (the decoder shares the embedding table).
The idea: transform the token once more, then compare it with every token vector; the bias is the
head's own.
Trap: the decoder is the largest matrix of a small model. It is computed only at the positions that
are predicted: `head(hidden_states[positions])`, never on all tokens and then masked.
Used by: masked language models of every encoder family; XLNet, GPT, LLaMA and T5 compare the token
as it is.

Shapes: n targets, W width, E width of the embedding table, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import TOKEN_TABLE, Head, HeadSpec
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.linear import LinearLayer
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.loss import LossTerm
from clozeworks.core.ops.sampling import drawn_entries
from clozeworks.spec import spec

NAME = "vocabulary"
# Logits that exist at once where all are wanted, but not kept.
_LOGITS = 1 << 25


class VocabularyHead(Head):
    """Compares vectors with those of all entries, whatever it makes of them before."""

    decoder: nn.Linear

    def transform(self, x: Tensor) -> Tensor:
        """Hidden states of the targets (n, W) to what the decoder reads (n, E)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states of the targets (n, W) to logits (n, V)."""
        logits: Tensor = self.decoder(self.transform(x))
        return logits

    def loss(self, x: Tensor, targets: Tensor) -> LossTerm:
        """The cross-entropy with the right entries (n,); logits are not kept."""
        return LossTerm.of_linear(self.transform(x), self.decoder, targets)

    def chunks(self, x: Tensor) -> Iterator[Tensor]:
        """The logits of some rows (n, W) after the other, so that memory has a bound."""
        size = max(_LOGITS // self.decoder.out_features, 1)
        for begin in range(0, len(x), size):
            yield self(x[begin : begin + size])

    def draw(self, x: Tensor, counts: Sequence[int], seeds: Sequence[int]) -> Tensor:
        """An entry for each row (n, W), drawn from its softmax, (n,); see `drawn_entries`."""
        with torch.no_grad():
            read = self.transform(x)
        return drawn_entries(read, self.decoder.weight, self.decoder.bias, counts, seeds)


@spec
class Vocabulary(HeadSpec):
    """decoder(norm(activation(dense(x)))) + bias."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    norm: NormSpec
    activation: str = "gelu"
    tied: bool = True
    """Whether the decoder is the embedding table."""
    bias: bool = True
    """Whether the dense layer has a bias."""
    decoder_bias: bool = True
    """Whether every entry of the vocabulary has a bias."""

    def build(self, width: int, embeddings: Embeddings) -> "VocabularyModule":
        """Makes the module."""
        tables = embeddings.width or width
        norm, dense = self.norm.build(tables), LinearLayer(width, tables, bias=self.bias)
        decoder = LinearLayer(tables, embeddings.tokens, bias=self.decoder_bias)
        return VocabularyModule(dense, norm, decoder, self.activation)

    def shared(self) -> dict[str, str]:
        """The decoder is the table of token vectors, if it is tied."""
        return {"decoder.weight": TOKEN_TABLE} if self.tied else {}


class VocabularyModule(VocabularyHead):
    """Transforms, normalises, compares with every token vector."""

    def __init__(
        self, dense: nn.Linear, norm: nn.Module, decoder: nn.Linear, activation: str
    ) -> None:
        super().__init__()
        self.dense = dense
        self.activation = activation_named(activation)
        self.norm = norm
        self.decoder = decoder

    def transform(self, x: Tensor) -> Tensor:
        """Hidden states of the targets (n, W) to what the decoder reads (n, E)."""
        transformed: Tensor = self.norm(self.activation(self.dense(x)))
        return transformed


@spec
class PlainVocabulary(HeadSpec):
    """decoder(x), with a bias or without."""

    paper: ClassVar[str] = "Yang et al. 2019"

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


class PlainVocabularyModule(VocabularyHead):
    """Compares with every token vector."""

    def __init__(self, width: int, tokens: int, dropout: float, bias: bool, scale: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.decoder = LinearLayer(width, tokens, bias=bias)
        self.scale = scale

    def transform(self, x: Tensor) -> Tensor:
        """Hidden states of the targets, as the decoder reads them, (n, W)."""
        kept: Tensor = self.dropout(x)
        return kept if self.scale == 1.0 else kept * self.scale
