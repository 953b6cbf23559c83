"""Classes for each token: tagging, and the start and end of an answer.

Paper: Devlin et al. 2019.
Used by: token classification and extractive question answering in every encoder family.

Shapes: N tokens, W width, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.spec import spec


@spec
class TokenClasses(HeadSpec):
    """A logit per class for every token."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    count: int
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> "ClassesModule":
        """Makes the module."""
        return ClassesModule(width, self.count, self.dropout)


class ClassesModule(Head):
    """Dropout and one projection."""

    def __init__(self, width: int, count: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.project = nn.Linear(width, count)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors of tokens or of whole texts (n, W) to logits (n, C)."""
        logits: Tensor = self.project(self.dropout(x))
        return logits
