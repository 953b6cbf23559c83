"""Matryoshka: the first dimensions of a vector are a good vector by themselves.

Paper: Kusupati et al. 2022.
Data: those of the loss inside.
Loss: the sum over some widths of the loss inside of the first dimensions, scaled to length 1.
Relations: inference truncates a vector and then normalises it (`truncate_dim`).
Trap: the full width must be among the widths, or the whole vector is not trained; margins and
squared differences see unit vectors.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.loss import LossTerm
from clozeworks.errors import SettingError
from clozeworks.spec import Bound, PositiveInt, spec
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts, unit


@spec
class Matryoshka(EmbeddingLoss):
    """The first dimensions count, too."""

    paper: ClassVar[str] = "Kusupati et al. 2022"

    loss: EmbeddingLoss
    """What vectors of each width cost."""
    widths: Annotated[tuple[PositiveInt, ...], Bound("one width or more", bool)]
    """How many of the first dimensions; the full width is added if it is missing."""
    weights: tuple[float, ...] = ()
    """How much each width counts; 1 if not given."""

    def __post_init__(self) -> None:
        if self.weights and len(self.weights) != len(self.widths):
            rule = f"there are {len(self.widths)} widths"
            raise SettingError("weights", self.weights, rule, "give one for each")

    @property
    def takes(self) -> frozenset[str]:  # type: ignore[override]
        """What the loss inside takes."""
        return self.loss.takes

    @property
    def in_batch(self) -> bool:  # type: ignore[override]
        """As the loss inside."""
        return self.loss.in_batch

    def settled_by(self, items: Sequence[Any]) -> "Matryoshka":
        """With the loss inside settled."""
        return replace(self, loss=self.loss.settled_by(items))

    def fitted_to(self, width: int) -> "Matryoshka":
        """With the full width of a model among its own.

        Raises:
            SettingError: If a vector has not so many dimensions.
        """
        if max(self.widths) > width:
            rule = f"vectors of this model have {width:,} dimensions"
            raise SettingError("loss.widths", max(self.widths), rule, "leave it out")
        if width in self.widths:
            return self
        weights = (*self.weights, 1.0) if self.weights else ()
        return replace(self, widths=(*self.widths, width), weights=weights)

    @property
    def cut_to(self) -> tuple[int, ...]:
        """Its widths."""
        return self.widths

    def number_of(self, label: Any) -> float:
        """As the loss inside."""
        return self.loss.number_of(label)

    def heads(self, width: int, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A loss that learns something itself sees one width only."""
        if heads := self.loss.heads(width, blueprint):
            rule = "it learns a layer for vectors of one width"
            raise SettingError("loss.loss.kind", next(iter(heads)), rule, "use another loss")
        return {}

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """What all widths cost together."""
        weights = self.weights or (1.0,) * len(self.widths)
        terms = [self.loss.cost(model, unit(vectors[:, :width]), texts) for width in self.widths]
        costs = [weight * term.total for weight, term in zip(weights, terms, strict=True)]
        widest = max(range(len(terms)), key=lambda number: self.widths[number])
        return replace(terms[widest], total=torch.stack(costs).sum())
