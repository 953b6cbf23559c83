"""Ranking: the positive of an anchor must come before all other documents of the step.

Paper: Henderson et al. 2017 (the other positives of a batch as negatives); van den Oord et al. 2018
(InfoNCE); Radford et al. 2021 (both directions); Li et al. 2023 (GTE: all four in one partition);
Lan et al. 2025 (hardness).
Data: pairs, with or without hard negatives; a text and itself (SimCSE, Gao et al. 2021).
Loss: -log of exp(s cos(a, p)) over the sum for all candidates, s = 20, summed over anchors. The
candidates are the positives of all rows of the step and all hard negatives. Further directions add
candidates to the same sum (`joint`), or are means of sums of their own (`per_direction`).
Relations: a scale of 20 is a temperature of 0.05. Known as the multiple negatives ranking loss.
Trap: a candidate that is an equal text, or belongs to a row of the same group, is no negative: it
is left out of the sum.

Shapes: A rows, M hard negatives, C candidates, W width.
"""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.loss import LossTerm
from clozeworks.errors import SettingError
from clozeworks.spec import NonNegativeFloat, PositiveFloat, spec
from clozeworks.tasks.embed.losses import HEAD, EmbeddingLoss, StepTexts, unit

Direction = Literal["query_to_doc", "doc_to_query", "query_to_query", "doc_to_doc"]
# These compare texts of one side and never hold the positive.
_ONE_SIDED = frozenset({"query_to_query", "doc_to_doc"})


@spec
class MultipleNegativesRanking(EmbeddingLoss):
    """The positive comes before all others."""

    paper: ClassVar[str] = "Henderson et al. 2017"
    takes: ClassVar[frozenset[str]] = frozenset({"pairs", "tuples", "texts", "groups"})
    in_batch: ClassVar[bool] = True

    scale: PositiveFloat = 20.0
    """What cosines are multiplied by; 20 is a temperature of 0.05."""
    learned_scale: bool = False
    """Whether the scale is learned, too; it begins as stated, and is left out afterwards."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """What is compared; with dot products the scale is usually 1."""
    directions: tuple[Direction, ...] = ("query_to_doc",)
    """Which texts are compared with which: query_to_doc, and if wanted doc_to_query,
    query_to_query and doc_to_doc."""
    partition: Literal["joint", "per_direction"] = "joint"
    """Whether all directions share one sum, or each has its own and their mean counts."""
    hardness: NonNegativeFloat = 0.0
    """How much more a negative counts the nearer it is; 0 for not at all, published are 5 and 9."""
    harder: Literal["in_batch", "hard", "all"] = "all"
    """Which negatives hardness is about: those of other rows, the row's own hard ones, or all."""

    def __post_init__(self) -> None:
        if "query_to_doc" not in self.directions:
            rule = "'query_to_doc' must be among them: it alone has the positive"
            raise SettingError("directions", self.directions, rule)
        if self.partition == "per_direction" and (one := _ONE_SIDED & {*self.directions}):
            rule = f"{min(one)} has no positive, so it cannot have a sum of its own"
            raise SettingError("partition", self.partition, rule, "use 'joint', or leave it out")

    def heads(self, width: int, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The scale, if it is learned."""
        return {HEAD: LearnedScale()} if self.learned_scale else {}

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """-log of the fraction of the positive, for each row."""
        scale = self.scale * model.heads[HEAD]() if self.learned_scale else self.scale
        if self.similarity == "cosine":
            vectors = unit(vectors)
        queries, positives = vectors[texts.anchors], vectors[texts.positives]
        places = torch.cat([texts.positives, texts.negatives])
        documents = vectors[places]  # (C, W), the positives first
        own = texts.rows[texts.anchors, None] == texts.rows[places]  # (A, C)
        excluded = self._excluded(texts, places)
        sims = {"query_to_doc": self._harder(queries @ documents.T, own, scale)}
        sims["query_to_doc"] = sims["query_to_doc"].masked_fill(excluded, -torch.inf)
        rows = len(queries)
        if "doc_to_query" in self.directions:
            sims["doc_to_query"] = _scaled(positives @ queries.T, excluded[:, :rows], scale)
        itself = torch.eye(rows, dtype=torch.bool, device=vectors.device)
        if "query_to_query" in self.directions:
            same = excluded[:, :rows]
            sims["query_to_query"] = _scaled(queries @ queries.T, same | same.T | itself, scale)
        if "doc_to_doc" in self.directions:
            sims["doc_to_doc"] = _scaled(positives @ documents.T, excluded | own, scale)
        right = sims["query_to_doc"].diagonal()  # (A,)
        if self.partition == "joint":
            log_sum = torch.cat(list(sims.values()), 1).logsumexp(1)
        else:
            log_sum = torch.stack([each.logsumexp(1) for each in sims.values()]).mean(0)
        best = sims["query_to_doc"].argmax(1)
        hits = (best == torch.arange(rows, device=best.device)).sum()
        return LossTerm((log_sum - right).sum(), rows, hits.to(right.dtype))

    def _excluded(self, texts: StepTexts, places: Tensor) -> Tensor:
        """Candidates that are no negatives of an anchor: equal texts, rows of its group, (A, C)."""
        keys, groups = texts.keys, texts.groups
        candidates = keys[places]
        same = keys[texts.anchors, None] == candidates
        same |= keys[texts.positives, None] == candidates
        count = len(texts.positives)
        of_group = groups[texts.anchors, None] == groups[texts.positives]
        same[:, :count] |= of_group
        same.diagonal().fill_(False)  # its own positive, whatever it says
        return same

    def _harder(self, cosines: Tensor, own: Tensor, scale: Tensor | float) -> Tensor:
        """Scaled cosines, (A, C), with what hardness adds to negatives."""
        scaled = cosines * scale
        if not self.hardness:
            return scaled
        negative = torch.ones_like(own) if self.harder == "all" else ~own
        if self.harder == "hard":
            negative = own.clone()
        negative.diagonal().fill_(False)
        return scaled + self.hardness * cosines.detach() * negative


def _scaled(cosines: Tensor, excluded: Tensor, scale: Tensor | float) -> Tensor:
    return (cosines * scale).masked_fill(excluded, -torch.inf)


@spec
class LearnedScale(HeadSpec):
    """A number that cosines are multiplied by, beside the stated one."""

    paper: ClassVar[str] = "Radford et al. 2021"

    def build(self, width: int, embeddings: Embeddings) -> "LearnedScaleModule":
        """Makes the module."""
        return LearnedScaleModule()


class LearnedScaleModule(nn.Module):
    """exp(a learned number), 1 at first."""

    begins_at_zero = True

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self) -> Tensor:
        """The factor."""
        return self.log_scale.exp()
