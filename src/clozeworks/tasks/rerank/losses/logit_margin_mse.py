"""Margin MSE: a document is as much better than another as a teacher says.

Paper: Hofstätter et al. 2020, "Improving Efficient Neural Ranking Models with Cross-Architecture
Knowledge Distillation".
Data: queries with a positive, negatives, and a teacher's scores of them, or their margins.
Loss: ((s₀ - sⱼ) - (t₀ - tⱼ))² for each negative j; 0 is the positive. Elsewhere `MarginMSELoss` of
cross-encoders.

Shapes: Q lists, D documents of the longest list.
"""

from typing import ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import spec
from clozeworks.tasks.rerank.losses import RerankLoss, StepPairs, summed


@spec
class LogitMarginMSE(RerankLoss):
    """Differences of logits are near those of a teacher."""

    paper: ClassVar[str] = "Hofstätter et al. 2020"
    takes: ClassVar[frozenset[str]] = frozenset({"margins"})
    over_lists: ClassVar[bool] = True

    def cost(self, logits: Tensor, pairs: StepPairs) -> LossTerm:
        """The squared error of each margin between the first document of a list and another."""
        first, others = (pairs.places == 0).nonzero()[:, 0], (pairs.places > 0).nonzero()[:, 0]
        owners = first[pairs.lists[others]]
        margins = logits[owners] - logits[others]
        return summed((margins - (pairs.labels[owners] - pairs.labels[others])).square())
