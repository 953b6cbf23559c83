"""CoSENT: of two pairs the one with the higher score must have the higher cosine.

Paper: Huang et al. 2024 (CoSENT, published as a blog post by Su in 2022); Li & Li 2024 (AnglE).
Data: pairs of texts with a number; only the order of the numbers matters.
Loss: log(1 + sum over y_i < y_j of exp(s (c_i - c_j))), s = 20: one number for a step, not a mean.
With similarity "angle", c is the absolute sum of the complex quotient of the vectors' halves.
Relations: `CosineSimilarity` wants the cosine to be the number itself.
Trap: it grows with the step, since a larger step has more pairs of pairs.

Shapes: A rows, W width.
"""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import PositiveFloat, spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, cosines, pairs


@spec
class Cosent(EmbeddingLoss):
    """Cosines are in the order of the scores."""

    paper: ClassVar[str] = "Huang et al. 2024"
    takes: ClassVar[frozenset[str]] = frozenset({"scores", "judged"})

    scale: PositiveFloat = 20.0
    """What cosines are multiplied by."""
    similarity: Literal["cosine", "angle"] = "cosine"
    """What is ordered; "angle" is the loss of AnglE."""

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """One number for all rows."""
        u, v = pairs(vectors, texts)
        similar = cosines(u, v) if self.similarity == "cosine" else angles(u, v)
        scores, order = texts.scores.sort()
        similar = (similar * self.scale)[order]  # (A,), ascending by score
        # Of each pair, the sum over all pairs with a higher score begins where these begin.
        higher = torch.searchsorted(scores.contiguous(), scores.contiguous(), right=True)
        tails = (-similar).flip(0).logcumsumexp(0).flip(0)
        tails = torch.cat([tails, tails.new_full((1,), -torch.inf)])
        total = torch.cat([similar.new_zeros(1), similar + tails[higher]]).logsumexp(0)
        return LossTerm(total, 1)


def angles(u: Tensor, v: Tensor) -> Tensor:
    """AnglE's similarity of vectors whose halves are real and imaginary parts, (A, W) to (A,)."""
    (a, b), (c, d) = u.chunk(2, 1), v.chunk(2, 1)
    norm = (c**2 + d**2).sum(1, keepdim=True)
    real, imaginary = (a * c + b * d) / norm, (b * c - a * d) / norm
    length_u = (a**2 + b**2).sum(1, keepdim=True) ** 0.5
    length_v = norm**0.5
    ratio = length_u / length_v
    return (torch.cat([real, imaginary], 1) / ratio).sum(1).abs()
