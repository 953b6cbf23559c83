"""Absolute positions, only where tokens are predicted.

Paper: He, Liu, Gao, Chen 2021 (DeBERTa), the enhanced mask decoder.
The idea: relative positions tell what stands beside what, but not that a word is the text's first.
So the layers below the last never learn absolute positions; at the targets alone, a vector per
position is added to what the layer below the last says, and the last layer runs twice with these
as queries. Its keys and values stay those of the layer below. A vocabulary head reads the result.
Where paper and code differ: the released code computes the last layer for all tokens too, and
throws the result away; here it runs at the targets only.
Trap: the decoder has no layers of its own. Both passes are the last layer itself, which serves once
and without positions when the model is used for anything else.
Trap: layers that normalise first would have to normalise keys and values as well; they are not
computed here.
Used by: DeBERTa.

Shapes: N tokens, n targets, B texts, W width.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.context import ForwardContext
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.tower import TowerModule
from clozeworks.core.layout import Layout
from clozeworks.core.positions.learned import LearnedModule
from clozeworks.spec import spec

NAME = "mask_decoder"


@spec
class MaskDecoder(HeadSpec):
    """last(last(below + position, below), below)."""

    paper: ClassVar[str] = "He et al. 2021"

    count: int = 512
    """Positions that have a vector."""
    passes: int = 2
    """How often the last layer runs."""

    def build(self, width: int, embeddings: Embeddings) -> "MaskDecoderModule":
        """Makes the module."""
        return MaskDecoderModule(LearnedModule(width, self.count, offset=0), self.passes)


class MaskDecoderModule(nn.Module):
    """Holds the positions; the layer is the tower's."""

    def __init__(self, positions: LearnedModule, passes: int) -> None:
        super().__init__()
        self.positions = positions
        self.passes = passes

    def forward(
        self, tower: TowerModule, x: Tensor, layout: Layout, types: Tensor | None, targets: Tensor
    ) -> Tensor:
        """Embedded tokens (N, W) to hidden states at targets (n,) in ascending order, (n, W)."""
        context = ForwardContext(layout, types=types)
        x = tower.below_last(x, context)
        query = x[targets] + self.positions(layout)[targets]
        for _ in range(self.passes):
            query = tower.last_at(x, query, context, targets)
        out: Tensor = tower.norm(query)
        return out
