"""List KL: the documents of a query are as likely as a teacher says.

Paper: Ren et al. 2021 (RocketQAv2); Lin et al. 2020.
Data: a query, several documents, and a teacher's score of each.
Loss: T² times the Kullback-Leibler divergence of softmax(q·d / T) from softmax(t / T), summed over
queries.
Trap: cosines differ by 2 at most, so with T = 1 their softmax is nearly flat and nothing is
learned; of one document the softmax is 1.

Shapes: A rows, B texts, W width.
"""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import PositiveFloat, spec
from clozeworks.tasks.embed.losses import ANCHOR, EmbeddingLoss, StepTexts
from clozeworks.tasks.embed.losses.margin_mse import compared


@spec
class ListKL(EmbeddingLoss):
    """Documents are as likely as for the teacher."""

    paper: ClassVar[str] = "Ren et al. 2021"
    takes: ClassVar[frozenset[str]] = frozenset({"lists"})

    temperature: PositiveFloat = 1.0
    """What all scores are divided by."""
    similarity: Literal["dot", "cosine"] = "dot"
    """How a query and a document are compared; with cosines use a temperature of about 0.05."""

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """The divergence of each query."""
        assert texts.teacher is not None
        documents = (texts.roles != ANCHOR).nonzero()[:, 0]
        owners = texts.rows[documents]
        found = compared(vectors[texts.anchors][owners], vectors[documents], self.similarity)
        said = texts.teacher[documents, 0].to(found.dtype)
        count = len(texts.anchors)
        student = _log_softmax(found / self.temperature, owners, count)
        teacher = _log_softmax(said / self.temperature, owners, count)
        costs = (teacher.exp() * (teacher - student)).sum() * self.temperature**2
        return LossTerm(costs, count)


def _log_softmax(scores: Tensor, owners: Tensor, count: int) -> Tensor:
    """Of scores, (n,), those of one owner together."""
    highest = scores.new_full((count,), -torch.inf).scatter_reduce(
        0, owners, scores.detach(), "amax"
    )
    moved = scores - highest[owners]
    sums = moved.new_zeros(count).index_add(0, owners, moved.exp())
    return moved - sums.log()[owners]
