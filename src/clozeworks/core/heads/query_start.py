"""The vector that a query stream begins with, whatever it predicts.

Paper: Yang et al. 2019 (XLNet).
The idea: a query that predicts a token must know its position and not the token. It begins with one
learned vector, the same everywhere; where it stands enters through the position scheme.
Used by: permuted language modelling, and where masks are filled. Nothing else reads it.

Shapes: E width of the token table.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.spec import spec

NAME = "query_start"


@spec
class QueryStart(HeadSpec):
    """One vector in place of a token's."""

    paper: ClassVar[str] = "Yang et al. 2019"

    def build(self, width: int, embeddings: Embeddings) -> "QueryStartModule":
        """Makes the module; its vector is as wide as those of tokens."""
        return QueryStartModule(embeddings.width or width)


class QueryStartModule(nn.Module):
    """Holds the vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.zeros(width))

    def forward(self) -> Tensor:
        """The vector, (E,)."""
        # Trap: who counts operations watches what modules return, and may not watch a parameter.
        return self.vector.view(-1)
