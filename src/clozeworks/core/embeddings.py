"""From token numbers to vectors.

Paper: Devlin et al. 2019 (token + type + position, then norm and dropout); Lan et al. 2020
(factorised width: a narrow table and one projection).
Used by: every family.

Shapes: N tokens, E width of the table, W width of the model.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.dropout import Dropout
from clozeworks.core.layout import Layout
from clozeworks.core.norm import NormSpec
from clozeworks.core.positions import InputPositionSpec
from clozeworks.core.spec import spec


@spec
class Embeddings:
    """Token vectors, with types and positions where a family has them."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    tokens: int
    """Size of the vocabulary."""
    width: int | None = None
    """Width of a table with a projection behind it (ALBERT); None: the model's, without one."""
    types: int = 0
    """Number of segment types; 0 where a family has none."""
    positions: InputPositionSpec | None = None
    norm: NormSpec | None = None
    dropout: float = 0.0

    def build(self, width: int) -> "EmbeddingsModule":
        """Makes the module for a model of this width."""
        table_width = self.width or width
        return EmbeddingsModule(
            tokens=nn.Embedding(self.tokens, table_width),
            types=nn.Embedding(self.types, table_width) if self.types else None,
            positions=self.positions.build(table_width) if self.positions else None,
            norm=self.norm.build(table_width) if self.norm else nn.Identity(),
            dropout=self.dropout,
            widen=nn.Linear(self.width, width) if self.width else nn.Identity(),
        )


class EmbeddingsModule(nn.Module):
    """Looks up, adds, normalises."""

    def __init__(
        self,
        *,
        tokens: nn.Embedding,
        types: nn.Embedding | None,
        positions: nn.Module | None,
        norm: nn.Module,
        dropout: float,
        widen: nn.Module,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.types = types
        self.positions = positions
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.widen = widen

    def forward(self, ids: Tensor, layout: Layout, types: Tensor | None = None) -> Tensor:
        """Token numbers (N,) and their types (N,), all 0 if not given, to vectors (N, W)."""
        x = self.tokens(ids)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids) if types is None else types)
        if self.positions is not None:
            x = x + self.positions(layout)
        out: Tensor = self.widen(self.dropout(self.norm(x)))
        return out
