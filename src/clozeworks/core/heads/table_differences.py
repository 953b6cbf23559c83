"""What a network's tables are beyond those of another: shared without pulling at each other.

Paper: He, Gao, Chen 2023 (DeBERTa v3), gradient-disentangled embedding sharing.
The idea: a generator and a discriminator want different things of a word's vector, so a shared
table is torn between them, and with tables of their own neither gains from the other. Here the
discriminator adds a difference, begun at zero, to the generator's table, and its gradient reaches
the difference alone.
Where paper and code differ: see `objectives/replaced_tokens.py`.
Trap: the model to be saved has the sums in its tables; `merged` gives them.
Used by: the replaced tokens objective.

Shapes: N tokens, E width of the tables, W width of the model.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import POSITION_TABLE, TOKEN_TABLE, HeadSpec
from clozeworks.core.layers.embeddings import Embeddings, EmbeddingsModule
from clozeworks.core.layout import Layout
from clozeworks.core.positions.learned import Learned, LearnedModule
from clozeworks.spec import spec


@spec
class TableDifferences(HeadSpec):
    """stop(table) + difference, for tokens and for positions where they have a table."""

    paper: ClassVar[str] = "He et al. 2023"

    def build(self, width: int, embeddings: Embeddings) -> "TableDifferencesModule":
        """Makes the module: tables of the same shapes."""
        inner = embeddings.width or width
        positions = embeddings.positions
        return TableDifferencesModule(
            ZeroTable(embeddings.tokens, inner),
            ZeroTable(positions.count, inner) if isinstance(positions, Learned) else None,
        )


class ZeroTable(nn.Embedding):
    """A table that begins at zero."""

    begins_at_zero = True


class TableDifferencesModule(nn.Module):
    """Looks up in both, and lets the gradient into one."""

    def __init__(self, tokens: ZeroTable, positions: ZeroTable | None) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions

    def forward(
        self, embeddings: EmbeddingsModule, ids: Tensor, layout: Layout, types: Tensor | None = None
    ) -> Tensor:
        """Token numbers (N,) to vectors (N, W), as the embeddings make them of these tables."""
        x = embeddings.tokens(ids).detach() + self.tokens(ids)
        if embeddings.types is not None:
            x = x + embeddings.types(torch.zeros_like(ids) if types is None else types)
        if isinstance(embeddings.positions, LearnedModule):
            assert self.positions is not None, "it was built for these embeddings"
            positions = layout.positions(ids.device) + embeddings.positions.offset
            x = x + embeddings.positions(layout).detach() + self.positions(positions)
        return embeddings.joined(x)

    def merged(self, embeddings: EmbeddingsModule) -> dict[str, Tensor]:
        """The tables of the model that is trained so, by their names in it."""
        tables = {TOKEN_TABLE: embeddings.tokens.weight + self.tokens.weight}
        if isinstance(embeddings.positions, LearnedModule) and self.positions is not None:
            tables[POSITION_TABLE] = embeddings.positions.table.weight + self.positions.weight
        return {name: table.detach() for name, table in tables.items()}
