"""Triplet: an anchor is nearer to its positive than to its negative, by a margin.

Paper: Reimers & Gurevych 2019 (margin 1); Hermans et al. 2017.
Data: anchor, positive and hard negatives; each negative makes a triplet.
Loss: max(0, d(a, p) - d(a, n) + margin), summed over triplets.
Trap: unit vectors are at most 2 apart; a margin of 5 suits vectors of any length only.

Shapes: A rows, M negatives, W width.
"""

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import PositiveFloat, spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, cosines

Distance = Literal["euclidean", "manhattan", "cosine"]


@spec
class Triplet(EmbeddingLoss):
    """The positive is nearer than the negative."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019"
    takes: ClassVar[frozenset[str]] = frozenset({"tuples"})

    margin: PositiveFloat = 5.0
    """By how much nearer."""
    distance: Distance = "euclidean"
    """How far two vectors are apart."""

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """What is missing to the margin, for each negative."""
        owners = torch.searchsorted(
            texts.rows[texts.anchors].contiguous(), texts.rows[texts.negatives].contiguous()
        )
        anchors, positives = vectors[texts.anchors[owners]], vectors[texts.positives[owners]]
        near = apart(anchors, positives, self.distance)
        far = apart(anchors, vectors[texts.negatives], self.distance)
        costs = F.relu(near - far + self.margin)
        return LossTerm(costs.sum(), len(costs), (near < far).sum().to(costs.dtype))


def apart(u: Tensor, v: Tensor, distance: Distance) -> Tensor:
    """How far vectors are apart, (n, W) and (n, W) to (n,)."""
    if distance == "cosine":
        return 1 - cosines(u, v)
    if distance == "manhattan":
        return (u - v).abs().sum(-1)
    return ((u - v) ** 2).sum(-1).clamp(min=1e-24).sqrt()
