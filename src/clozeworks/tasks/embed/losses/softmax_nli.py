"""Softmax NLI: a classifier reads the relation of two texts from their vectors.

Paper: Reimers & Gurevych 2019 (the classification objective); Conneau et al. 2017.
Data: pairs of texts with a class, such as entailment.
Loss: cross-entropy of W [u; v; |u - v|] + b with the class, summed over rows. The classifier is
left out afterwards.
Relations: for vectors to be compared by cosine, `MultipleNegativesRanking` on entailed pairs with
contradictions as hard negatives learns more.

Shapes: A rows, W width, C classes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.loss import LossTerm
from clozeworks.data.labelled.labels import ordered
from clozeworks.errors import SettingError
from clozeworks.spec import PositiveInt, spec
from clozeworks.tasks.embed.losses import HEAD, EmbeddingLoss, StepTexts, pairs


@spec
class PairClasses(HeadSpec):
    """Classes from a few vectors side by side."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019"

    count: PositiveInt
    """How many classes there are."""
    width: PositiveInt
    """How many numbers are read, those of all vectors together."""

    def build(self, width: int, embeddings: Embeddings) -> nn.Module:
        """Makes the module."""
        return nn.Linear(self.width, self.count)


@spec
class SoftmaxNLI(EmbeddingLoss):
    """The class of a pair is read from its vectors."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019"
    takes: ClassVar[frozenset[str]] = frozenset({"classes", "judged"})

    product: bool = False
    """Whether u * v is read, too."""
    labels: tuple[str, ...] = ()
    """The classes; they follow from the rows."""

    def settled_by(self, items: Sequence[Any]) -> "SoftmaxNLI":
        """With the classes of the rows."""
        labels = ordered(str(item.label) for item in items)
        if len(labels) < 2:
            raise SettingError("loss.kind", "softmax_nli", f"every row has the class {labels[0]!r}")
        return replace(self, labels=labels)

    def number_of(self, label: Any) -> float:
        """The number of a class."""
        return float(self.labels.index(str(label)))

    def heads(self, width: int, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The classifier."""
        read = (4 if self.product else 3) * width
        return {HEAD: PairClasses(count=max(1, len(self.labels)), width=read)}

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """The cross-entropy of each row."""
        u, v = pairs(vectors, texts)
        read = [u, v, (u - v).abs(), *([u * v] if self.product else [])]
        logits = model.heads[HEAD](torch.cat(read, 1))
        return LossTerm.of(logits, texts.scores.long())
