"""Margin MSE: a negative is as much worse than the positive as a teacher says.

Paper: Hofstätter et al. 2020.
Data: a query, its positive, negatives, and a teacher's score of each document, or how much better
it finds the positive than each negative.
Loss: ((q·p - q·n) - (t_p - t_n))², summed over negatives.
Relations: `ListKL` compares distributions over the documents instead of differences.

Shapes: A rows, M negatives, W width.
"""

from typing import Any, ClassVar, Literal

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, cosines, summed


@spec
class MarginMSE(EmbeddingLoss):
    """Differences of scores are those of a teacher."""

    paper: ClassVar[str] = "Hofstätter et al. 2020"
    takes: ClassVar[frozenset[str]] = frozenset({"lists"})

    similarity: Literal["dot", "cosine"] = "dot"
    """How a query and a document are compared."""

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """The squared difference of the differences, for each negative."""
        assert texts.teacher is not None
        owners = texts.rows[texts.negatives]
        queries = vectors[texts.anchors][owners]  # (M, W)
        near = compared(queries, vectors[texts.positives][owners], self.similarity)
        far = compared(queries, vectors[texts.negatives], self.similarity)
        said = texts.teacher[:, 0]
        margins = said[texts.positives][owners] - said[texts.negatives]
        return summed((near - far - margins.to(near.dtype)) ** 2)


def compared(u: Tensor, v: Tensor, similarity: Literal["dot", "cosine"]) -> Tensor:
    """How similar each vector is to its partner, (n, W) and (n, W) to (n,)."""
    return (u * v).sum(-1) if similarity == "dot" else cosines(u, v)
