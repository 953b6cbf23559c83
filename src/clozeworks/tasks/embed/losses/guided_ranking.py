"""Guided ranking: a guide says which of the other texts are no wrong answers.

Paper: Solatorio 2024 (GISTEmbed).
Data: pairs, with or without hard negatives.
Loss: as `MultipleNegativesRanking` with all kinds of candidates in one sum, at a temperature of
0.01. A candidate is left out if the guide finds it nearer to the anchor than the positive, less a
margin: absolute, or as a fraction of the positive's similarity.
Relations: the guide is a frozen sentence model; its vectors of all texts are computed once, before
the first step.

Shapes: A rows, M hard negatives, W width.
"""

from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import NOT_EMPTY, NonNegativeFloat, PositiveFloat, spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, unit


@spec
class GuidedRanking(EmbeddingLoss):
    """The positive comes before all that the guide finds less similar."""

    paper: ClassVar[str] = "Solatorio 2024"
    takes: ClassVar[frozenset[str]] = frozenset({"pairs", "tuples"})
    in_batch: ClassVar[bool] = True

    guide: Annotated[str, NOT_EMPTY]
    """A sentence model: a folder or a hub name."""
    temperature: PositiveFloat = 0.01
    """What cosines are divided by."""
    margin: NonNegativeFloat = 0.0
    """How much less similar than the positive a candidate must be to count."""
    margin_kind: Literal["absolute", "relative"] = "absolute"
    """Whether the margin is a difference of cosines, or a fraction of the positive's."""
    anchors: bool = True
    """Whether other anchors are candidates."""
    positives: bool = True
    """Whether other positives are compared with the positive."""

    @property
    def guided_by(self) -> str:
        """The guide."""
        return self.guide

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """-log of the fraction of the positive, for each row."""
        assert texts.teacher is not None
        student, guide = unit(vectors), unit(texts.teacher.to(vectors.dtype))
        a, p, n = texts.anchors, texts.positives, texts.negatives
        similar = (guide[a] * guide[p]).sum(1, keepdim=True)  # (A, 1)
        less = self.margin if self.margin_kind == "absolute" else similar.abs() * self.margin
        limit = similar - less

        def compared(rows: Tensor, columns: Tensor) -> Tensor:
            left_out = guide[rows] @ guide[columns].T > limit
            left_out |= texts.keys[rows, None] == texts.keys[columns]
            left_out |= texts.keys[p, None] == texts.keys[columns]
            if columns is p and rows is a:
                left_out |= texts.groups[a, None] == texts.groups[p]
                left_out.fill_diagonal_(False)  # its own positive, whatever the guide says
            return (student[rows] @ student[columns].T).masked_fill(left_out, -torch.inf)

        candidates = [compared(a, p)]
        candidates += [compared(a, a)] if self.anchors else []
        candidates += [compared(p, p)] if self.positives else []
        candidates += [compared(a, n)] if len(n) else []
        logits = torch.cat(candidates, 1) / self.temperature
        return LossTerm.of(logits, torch.arange(len(a), device=logits.device))
