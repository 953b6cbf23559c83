"""What vectors of a step cost: one file per published loss.

A loss sees the vectors of all texts of a step and what is known of each text (`StepTexts`); it is
summed over rows and computed in float32.

| the rows hold | the usual loss |
|---|---|
| pairs, pairs with hard negatives | `MultipleNegativesRanking` |
| pairs with a number | `CoSENT` |
| pairs with 0 or 1 | `Contrast` |
| pairs with a class | `SoftmaxNLI` |
| texts with a class | `MultipleNegativesRanking`, on pairs of one class |
| texts alone | `MultipleNegativesRanking`, on a text and itself (SimCSE); or `TSDAE` |
| texts with a vector | `VectorDistillation` |
| queries and documents with scores | `MarginMSE` |

Shapes: B texts of a step, A rows, M hard negatives, W width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.loss import LossTerm
from clozeworks.objectives.batch import BatchBuilder, TargetArrays
from clozeworks.rng import RandomStream
from clozeworks.spec import Slot

HEAD = "embedding_loss"
"""What a loss learns itself, among the heads of a model in training."""
ANCHOR, POSITIVE = 0, 1
"""The role of a text; hard negatives have higher numbers."""


@dataclass(frozen=True)
class StepTexts:
    """What is known of the texts of a step, in the order of its rows."""

    rows: Tensor
    """The row each text belongs to, (B,)."""
    roles: Tensor
    """0 for an anchor, 1 for its positive, more for hard negatives, (B,)."""
    labels: Tensor
    """The number of its row: a score, 0 or 1, or a class, (B,)."""
    groups: Tensor
    """The group of its row, (B,)."""
    keys: Tensor
    """Equal for equal texts, (B,)."""
    teacher: Tensor | None = None
    """What a teacher says of each text, its vector or its score, (B, T); None without a teacher."""

    @classmethod
    def of(cls, known: Tensor) -> "StepTexts":
        """From role, label, group and key of each text, and what a teacher says, (B, 4 + T).

        The texts of a row follow each other, the anchor first.
        """
        roles, labels, groups, keys = known[:, :4].unbind(1)
        rows = (roles == ANCHOR).cumsum(0) - 1
        teacher = known[:, 4:] if known.shape[1] > 4 else None
        return cls(rows, roles.long(), labels, groups, keys, teacher)

    @cached_property
    def anchors(self) -> Tensor:
        """Where the anchors are, (A,)."""
        return (self.roles == ANCHOR).nonzero()[:, 0]

    @cached_property
    def positives(self) -> Tensor:
        """Where the positives are, one for each anchor, (A,)."""
        found = (self.roles == POSITIVE).nonzero()[:, 0]
        assert torch.equal(self.rows[found], self.rows[self.anchors]), "each row has one"
        return found

    @cached_property
    def negatives(self) -> Tensor:
        """Where the hard negatives are, (M,)."""
        return (self.roles > POSITIVE).nonzero()[:, 0]

    @cached_property
    def scores(self) -> Tensor:
        """The label of each row, (A,)."""
        return self.labels[self.anchors]


class EmbeddingLoss(Slot):
    """Slot: what the vectors of a step cost."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.tasks.embed.losses"
    takes: ClassVar[frozenset[str]] = frozenset()
    """The kinds of rows it can learn from."""
    in_batch: ClassVar[bool] = False
    """Whether the texts of other rows are negatives, so that no text may stand in a step twice."""
    rebuilds: ClassVar[bool] = False
    """Whether each text is written again from its own vector (`damage`, `rebuilt`), and nothing is
    compared (`cost`)."""
    usual_pooling: ClassVar[tuple[str, ...]] = ()
    """How tokens become a vector where nobody says it; as for all models if empty."""
    required_heads: ClassVar[frozenset[str]] = frozenset()
    """The heads of the family that it learns with."""

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """What vectors cost, (B, W) in float32; the model is for what a loss has learned itself."""
        raise NotImplementedError

    def damage(self, builder: BatchBuilder, rng: RandomStream) -> TargetArrays:
        """Shows less of the texts of a batch, and says what is predicted, where it rebuilds."""
        raise NotImplementedError

    def rebuilt(self, model: Any, vectors: Tensor, targets: Mapping[str, Tensor]) -> LossTerm:
        """What texts cost that are written again from their vectors, where it rebuilds."""
        raise NotImplementedError

    @property
    def cut_to(self) -> tuple[int, ...]:
        """How many of the first dimensions are vectors of their own, besides all of them."""
        return ()

    @property
    def guided_by(self) -> str:
        """A frozen model whose vectors of all texts it needs; none if empty."""
        return ""

    def settled_by(self, items: Sequence[Any]) -> "EmbeddingLoss":
        """The same with what follows from the rows to learn from.

        Raises:
            SettingError: If it cannot learn from them.
        """
        return self

    def fitted_to(self, width: int) -> "EmbeddingLoss":
        """The same for vectors of so many dimensions.

        Raises:
            SettingError: If it does not go with them.
        """
        return self

    def number_of(self, label: Any) -> float:
        """The label of a row as a number."""
        return 0.0 if label is None or isinstance(label, str) else float(label)

    def heads(self, width: int, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """What it learns beside a model and is left out afterwards, for vectors of a width."""
        return {}


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1."""
    return F.normalize(vectors, dim=-1, eps=1e-12)


def cosines(u: Tensor, v: Tensor) -> Tensor:
    """The cosine of each vector with its partner, (A, W) and (A, W) to (A,)."""
    return (unit(u) * unit(v)).sum(-1)


def pairs(vectors: Tensor, texts: StepTexts) -> tuple[Tensor, Tensor]:
    """The anchors' vectors and the positives', (A, W) each."""
    return vectors[texts.anchors], vectors[texts.positives]


def summed(costs: Tensor) -> LossTerm:
    """The cost of every row, added up; nothing is right or wrong."""
    return LossTerm(costs.sum(), len(costs))
