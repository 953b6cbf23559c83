"""Binary cross-entropy: whether a document answers a query.

Paper: Nogueira & Cho 2019 (reranking with BERT).
Data: pairs with 0 or 1, or with a number between them.
Loss: -w y log σ(s) - (1 - y) log(1 - σ(s)), s the logit; w (`pos_weight`) makes up for how rare
relevant documents are. Elsewhere w is 1 unless somebody sets it; here it follows from the data.

Shapes: B pairs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.errors import SettingError, Stated
from clozeworks.spec import PositiveFloat, spec
from clozeworks.tasks.labels.activation import CrossEncoderActivation
from clozeworks.tasks.rerank.losses import RerankLoss, StepPairs


@spec
class BinaryCrossEntropy(RerankLoss):
    """Each document is relevant or not."""

    paper: ClassVar[str] = "Nogueira & Cho 2019"
    takes: ClassVar[frozenset[str]] = frozenset({"judged", "tuples", "lists", "scores"})
    activation: ClassVar[CrossEncoderActivation] = "sigmoid"

    pos_weight: PositiveFloat | None = None
    """How much more a relevant document counts than another one; how many others there are for each
    relevant one if not given."""

    def cost(self, logits: Tensor, pairs: StepPairs) -> LossTerm:
        """The cross-entropy of each pair."""
        total = F.binary_cross_entropy_with_logits(
            logits,
            pairs.labels,
            pos_weight=logits.new_tensor(self.pos_weight or 1.0),
            reduction="sum",
        )
        correct = ((logits > 0) == (pairs.labels > 0.5)).sum()
        return LossTerm(total, len(logits), correct)

    def settled(self, labels: Sequence[float]) -> "BinaryCrossEntropy":
        """With the weight of relevant documents, by how rare they are."""
        low, high = min(labels), max(labels)
        if low < 0 or high > 1:
            rule = f"the labels reach from {low:g} to {high:g}, and it takes numbers from 0 to 1"
            advice = "scale them, or use logit_mse or lambda_loss"
            raise SettingError("loss.kind", "binary_cross_entropy", rule, advice)
        if low == high:
            rule = "every label is the same, so there is nothing to tell apart"
            advice = "add documents that are relevant, or such that are not (clozeworks mine)"
            raise SettingError("labels", Stated(f"{low:g}"), rule, advice)
        if self.pos_weight is not None:
            return self
        relevant = sum(labels)
        return replace(self, pos_weight=(len(labels) - relevant) / relevant)

    def in_words(self) -> str:
        """How much a relevant document counts."""
        weight = self.pos_weight or 1.0
        if weight == 1:
            return "relevant documents count as much as others"
        return f"a relevant document counts {weight:.3g} times as much as another"
