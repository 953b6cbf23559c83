"""From token numbers to vectors.

Paper: Devlin et al. 2019 (token + type + position, then norm and dropout); Lan et al. 2020
(factorised width: a narrow table and one projection).
Used by: every family.

Shapes: N tokens, E width of the table, W width of the model.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.layout import Layout
from clozeworks.core.positions import InputPositionSpec
from clozeworks.spec import spec


@spec
class Embeddings:
    """Token vectors, with types and positions where a family has them."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    tokens: int
    """Size of the vocabulary."""
    width: int | None = None
    """Width of a table with a projection after it (ALBERT); None: the model's, without one."""
    types: int = 0
    """Number of segment types; 0 where a family has none."""
    types_added: bool = True
    """Whether each type has a vector that is added; XLNet's attention compares types instead."""
    positions: InputPositionSpec | None = None
    norm: NormSpec | None = None
    dropout: float = 0.0
    widen_first: bool = False
    """Whether the projection stands before the norm, without a bias (DeBERTa), or after it."""

    def build(self, width: int) -> "EmbeddingsModule":
        """Makes the module for a model of this width."""
        table_width = self.width or width
        last_width = width if self.widen_first else table_width
        project: nn.Module = nn.Identity()
        widen: nn.Module = nn.Identity()
        if self.width is not None and self.widen_first:
            project = nn.Linear(table_width, width, bias=False)
        elif self.width is not None:
            widen = nn.Linear(table_width, width)
        types = self.types if self.types_added else 0
        return EmbeddingsModule(
            tokens=nn.Embedding(self.tokens, table_width),
            types=nn.Embedding(types, table_width) if types else None,
            positions=self.positions.build(table_width) if self.positions else None,
            norm=self.norm.build(last_width) if self.norm else nn.Identity(),
            dropout=self.dropout,
            project=project,
            widen=widen,
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
        project: nn.Module,
        widen: nn.Module,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.types = types
        self.positions = positions
        self.project = project
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
        return self.joined(x)

    def at(self, vector: Tensor, positions: Tensor, layout: Layout, types: Tensor | None) -> Tensor:
        """One vector (E,) in place of the tokens at some positions (n,), to vectors (n, W)."""
        x = vector.expand(len(positions), -1)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(positions) if types is None else types[positions])
        if self.positions is not None:
            x = x + self.positions(layout)[positions]
        return self.joined(x)

    def joined(self, x: Tensor) -> Tensor:
        """Sums of vectors (N, E), normalised and as wide as the model, (N, W)."""
        out: Tensor = self.widen(self.dropout(self.norm(self.project(x))))
        return out
