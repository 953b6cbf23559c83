"""Contrast: texts that belong together are near, others at least a margin apart.

Paper: Hadsell et al. 2006.
Data: pairs of texts with 0 or 1.
Loss: half of y d² + (1 - y) max(0, margin - d)², d = 1 - cosine, margin 0.5, summed over rows. With
`hard_only` only the hard rows of the step count, without the half: others that are nearer than the
farthest of those that belong together, and such that are farther apart than the nearest others.

Shapes: A rows.
"""

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import PositiveFloat, spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, cosines, pairs


@spec
class Contrast(EmbeddingLoss):
    """What belongs together is near."""

    paper: ClassVar[str] = "Hadsell et al. 2006"
    takes: ClassVar[frozenset[str]] = frozenset({"judged"})

    margin: PositiveFloat = 0.5
    """How far apart texts must be that do not belong together."""
    hard_only: bool = False
    """Whether only hard rows count, and their sum is not divided by their number."""

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """The squared distance, or what is missing to the margin."""
        distances = 1 - cosines(*pairs(vectors, texts))  # (A,)
        together = texts.scores > 0.5
        near, far = distances[together], distances[~together]
        if not self.hard_only:
            costs = 0.5 * (near**2).sum() + 0.5 * (F.relu(self.margin - far) ** 2).sum()
            return LossTerm(costs, len(distances))
        near_hard = near[near > (far.min() if len(far) else near.mean())]
        far_hard = far[far < (near.max() if len(near) else far.mean())]
        total = (near_hard**2).sum() + (F.relu(self.margin - far_hard) ** 2).sum()
        return LossTerm(total, 1)
