"""ListNet: the logits of a query's documents are distributed as their labels are.

Paper: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach".
Data: queries with documents, each with a label: 0 or 1, a grade, or a score.
Loss: -Σ softmax(y) log softmax(s) over the documents of a query, the mean over queries.

Shapes: Q lists, D documents of the longest list.
"""

import math
from typing import ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import spec
from clozeworks.tasks.rerank.losses import RerankLoss, StepPairs, summed


@spec
class ListNet(RerankLoss):
    """Logits are distributed as labels are."""

    paper: ClassVar[str] = "Cao et al. 2007"
    takes: ClassVar[frozenset[str]] = frozenset({"lists", "judged", "tuples", "scores"})
    over_lists: ClassVar[bool] = True

    def cost(self, logits: Tensor, pairs: StepPairs) -> LossTerm:
        """The cross-entropy of each list."""
        wanted = pairs.table(pairs.labels, -math.inf).softmax(dim=1)  # (Q, D)
        # Finite, or 0 times what a missing document gets would not be 0.
        said = pairs.table(logits, -1e16).log_softmax(dim=1)
        return summed(-(wanted * said).sum(dim=1))
