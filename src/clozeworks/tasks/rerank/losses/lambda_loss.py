"""LambdaLoss: documents of a query in the wrong order cost what that costs in nDCG.

Paper: Wang et al. 2018, "The LambdaLoss Framework for Ranking Metric Optimization"; the weights are
called as there. Burges et al. 2005 (RankNet) is the loss without weights.
Data: queries with documents, each with a label: 0 or 1, a grade, or a score.
Loss: for each two documents i, j of a query with yᵢ > yⱼ: -wᵢⱼ log₂ σ(sigma (sᵢ - sⱼ)), the mean
over all such pairs of the step. wᵢⱼ is a difference of gains G = (2ʸ - 1) / ideal DCG times

    lambda_rank     |1/D(i) - 1/D(j)|, D(i) = log₂(1 + i) at rank i by the logits
    ndcg_loss2      |1/D(|i - j|) - 1/D(|i - j| + 1)|
    ndcg_loss2pp    mu times ndcg_loss2 plus lambda_rank

ndcg_loss1 is Gᵢ/D(i) over all pairs, and none is RankNet. As in sentence-transformers the ranks
follow the logits of the moment and have no gradient.

Shapes: Q lists, D documents of the longest list.
"""

import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import NonNegativeFloat, PositiveFloat, PositiveInt, spec
from clozeworks.tasks.rerank.losses import RerankLoss, StepPairs

Weighting = Literal["ndcg_loss2pp", "ndcg_loss2", "ndcg_loss1", "lambda_rank", "none"]
_EPSILON = 1e-10


@spec
class LambdaLoss(RerankLoss):
    """Documents stand in the order of their labels, the best first above all."""

    paper: ClassVar[str] = "Wang et al. 2018"
    takes: ClassVar[frozenset[str]] = frozenset({"lists", "judged", "tuples", "scores"})
    over_lists: ClassVar[bool] = True

    weighting: Weighting = "ndcg_loss2pp"
    """What two documents in the wrong order cost."""
    mu: NonNegativeFloat = 10.0
    """How much ndcg_loss2 counts in ndcg_loss2pp."""
    sigma: PositiveFloat = 1.0
    """How steep the loss is."""
    k: PositiveInt | None = None
    """Only pairs count of which one document is among the first k; all if not given."""

    def cost(self, logits: Tensor, pairs: StepPairs) -> LossTerm:
        """What the order of each two documents of a query costs."""
        s, y = pairs.table(logits, -1e16), pairs.table(pairs.labels, -math.inf)  # (Q, D)
        order = s.detach().argsort(dim=1, descending=True, stable=True)
        s, ranked = s.gather(1, order), y.gather(1, order)
        there = torch.isfinite(ranked)
        counts = there[:, :, None] & there[:, None, :]
        if self.weighting != "ndcg_loss1":
            counts = counts & (ranked[:, :, None] > ranked[:, None, :])
        ranks = torch.arange(1, s.shape[1] + 1, device=s.device)
        depth = self.k or len(ranks)
        counts = counts & ((ranks[:, None] <= depth) | (ranks[None, :] <= depth))
        weights = self._weights(_gains(ranked, y, depth), ranks)
        differences = (s[:, :, None] - s[:, None, :]).masked_fill(~counts, 0.0)
        costs = -weights * F.logsigmoid(self.sigma * differences) / math.log(2)
        chosen = costs.masked_select(counts)
        right = (differences > 0) & counts
        return LossTerm(chosen.sum(), max(len(chosen), 1), right.sum())

    def _weights(self, gains: Tensor, ranks: Tensor) -> Tensor:
        """How much each two documents count, (Q, D, D), from their gains by rank, (Q, D)."""
        if self.weighting == "none":
            return torch.ones((), device=gains.device)
        discounts = torch.log2(1.0 + ranks)
        if self.weighting == "ndcg_loss1":
            return (gains / discounts)[:, :, None]
        between = (gains[:, :, None] - gains[:, None, :]).abs()
        apart = (ranks[:, None] - ranks[None, :]).abs()
        far = (1 / torch.log2(1.0 + apart) - 1 / torch.log2(2.0 + apart)).abs()
        far = far.masked_fill(apart == 0, 0.0)
        near = (1 / discounts[:, None] - 1 / discounts[None, :]).abs()
        factors = {
            "lambda_rank": near,
            "ndcg_loss2": far,
            "ndcg_loss2pp": self.mu * far + near,
        }
        return factors[self.weighting] * between


def _gains(ranked: Tensor, labels: Tensor, depth: int) -> Tensor:
    """The gain of each document by rank, so that an ideal order has a DCG of 1, (Q, D)."""
    ideal = labels.sort(dim=1, descending=True).values[:, :depth].clamp(min=0)
    discounts = torch.log2(torch.arange(2.0, ideal.shape[1] + 2, device=ideal.device))
    best = ((2**ideal - 1) / discounts).sum(dim=1, keepdim=True).clamp(min=_EPSILON)
    return (2 ** ranked.clamp(min=0) - 1) / best
