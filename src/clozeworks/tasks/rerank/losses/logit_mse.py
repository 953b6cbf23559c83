"""Mean squared error: the logit of a pair is the score that a teacher gave it.

Paper: Hofstätter et al. 2020 (distillation of rankers).
Data: pairs with a number: a teacher's logit, or a similarity.
Loss: (s - t)², s the logit and t the number; elsewhere `MSELoss` of cross-encoders.
Trap: a teacher's probabilities are squeezed into 0 to 1; its logits say more.

Shapes: B pairs.
"""

from typing import ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import spec
from clozeworks.tasks.rerank.losses import RerankLoss, StepPairs, summed


@spec
class LogitMSE(RerankLoss):
    """Logits are near the numbers of the rows."""

    paper: ClassVar[str] = "Hofstätter et al. 2020"
    takes: ClassVar[frozenset[str]] = frozenset({"scores", "lists"})

    def cost(self, logits: Tensor, pairs: StepPairs) -> LossTerm:
        """The squared error of each pair."""
        return summed((logits - pairs.labels).square())
