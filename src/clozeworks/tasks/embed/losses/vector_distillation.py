"""Vector distillation: a text gets the vector that a teacher gives it.

Paper: Reimers & Gurevych 2020 (a student for other languages); Kim et al. 2023 (EmbedDistill).
Data: texts, each with the vector of a teacher.
Loss: 1 - cosine, or the mean squared difference, or the Euclidean distance, summed over texts. If
the teacher's vectors have another width, a projection is learned with the student and left out
afterwards.

Shapes: A texts, W width, T width of the teacher.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.loss import LossTerm
from clozeworks.spec import PositiveInt, spec
from clozeworks.tasks.embed.losses import HEAD, EmbeddingLoss, StepTexts, cosines, summed


@spec
class TeacherProjection(HeadSpec):
    """From the student's vectors to the width of the teacher's."""

    paper: ClassVar[str] = "Kim et al. 2023"

    student: PositiveInt
    teacher: PositiveInt

    def build(self, width: int, embeddings: Embeddings) -> nn.Module:
        """Makes the module."""
        return nn.Linear(self.student, self.teacher)


@spec
class VectorDistillation(EmbeddingLoss):
    """Vectors are those of a teacher."""

    paper: ClassVar[str] = "Reimers & Gurevych 2020"
    takes: ClassVar[frozenset[str]] = frozenset({"vectors"})

    distance: Literal["cosine", "mse", "l2"] = "cosine"
    """What is small when two vectors are alike."""
    width: PositiveInt | None = None
    """How many dimensions the teacher's vectors have; it follows from the rows."""

    def settled_by(self, items: Sequence[Any]) -> "VectorDistillation":
        """With the width of the teacher."""
        return replace(self, width=len(items[0].teacher))

    def heads(self, width: int, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A projection where the widths differ."""
        if self.width is None or self.width == width:
            return {}
        return {HEAD: TeacherProjection(student=width, teacher=self.width)}

    def cost(self, model: Any, vectors: Tensor, texts: StepTexts) -> LossTerm:
        """How far each text is from where it should be."""
        assert texts.teacher is not None
        found = vectors[texts.anchors]
        if model is not None and HEAD in model.heads:
            found = model.heads[HEAD](found)
        right = texts.teacher[texts.anchors].to(found.dtype)
        if self.distance == "cosine":
            return summed(1 - cosines(found, right))
        if self.distance == "mse":
            return summed(((found - right) ** 2).mean(1))
        return summed((found - right).norm(dim=1))
