"""A dense layer between a text's vector and the loss that compares texts.

Paper: Gao, Yao, Chen 2021 (SimCSE): dense and tanh on the first token.
The idea: the loss bends the space it is computed in; a layer that is thrown away afterwards takes
the bending, and the tower's own vector stays good for other uses.
Used by: the contrastive objective while it trains.

Shapes: B texts, W width.
"""

from typing import ClassVar

from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import PoolerModule
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.spec import spec


@spec
class Projection(HeadSpec):
    """activation(dense(vector)), freshly made."""

    paper: ClassVar[str] = "Gao et al. 2021"

    activation: str = "tanh"

    def build(self, width: int, embeddings: Embeddings) -> PoolerModule:
        """Makes the module: vectors of texts (B, W) to vectors (B, W)."""
        return PoolerModule(width, self.activation, 0.0)
