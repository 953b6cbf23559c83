"""Classes of a whole text, read from all of its tokens rather than from a pooler.

Paper: Reimers & Gurevych 2019 (first, mean, max); Yang et al. 2016 (attention over words: a token
counts by softmax(u · tanh(W x + b))).
The idea: a pooler trained by next-sentence prediction is not always there, and not always best.
Compat: no published class of an encoder reads texts this way, so a folder with this head is an
encoder for other libraries, never a classifier that computes something else.
Used by: sequence tasks with another pooling than the family's own.

Shapes: N tokens, B texts, W width, C classes.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.heads.pooling import pool
from clozeworks.core.heads.tokens import ClassesModule
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.core.ops.segments import text_softmax, text_sums
from clozeworks.errors import UnknownName
from clozeworks.spec import spec

ATTENTION = "attention"
TEXT_POOLINGS = (ATTENTION, "first", "max", "mean")


@spec
class TextClasses(HeadSpec):
    """project(dropout(pool(tokens)))."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019; Yang et al. 2016"

    count: int
    pooling: str = "mean"
    """first, mean, max or attention."""
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> "TextClassesModule":
        """Makes the module: tokens (N, W) and their layout to logits (B, C)."""
        if self.pooling not in TEXT_POOLINGS:
            raise UnknownName("pooling", self.pooling, TEXT_POOLINGS)
        pooling: nn.Module = (
            AttentionPooling(width) if self.pooling == ATTENTION else PlainPooling(self.pooling)
        )
        return TextClassesModule(pooling, ClassesModule(width, self.count, self.dropout))


class TextClassesModule(Head):
    """A pooling and a projection."""

    def __init__(self, pooling: nn.Module, classes: ClassesModule) -> None:
        super().__init__()
        self.pooling = pooling
        self.classes = classes

    @property
    def reads_first(self) -> bool:
        """If that is its pooling."""
        return isinstance(self.pooling, PlainPooling) and self.pooling.mode == "first"

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """One vector of each text, (B, W)."""
        pooled: Tensor = self.pooling(hidden_states, layout)
        return pooled

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of texts (B, W) to logits (B, C)."""
        logits: Tensor = self.classes(x)
        return logits


class PlainPooling(nn.Module):
    """A statistic of the tokens."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Tokens (N, W) to vectors (B, W)."""
        return pool(x, layout, (self.mode,)).to(x.dtype)


class AttentionPooling(nn.Module):
    """Tokens weighted by how much they matter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.question = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Tokens (N, W) to vectors (B, W)."""
        weights = text_softmax(self.question(torch.tanh(self.dense(x))), layout)  # (N, 1)
        return text_sums(weights * x, layout)
