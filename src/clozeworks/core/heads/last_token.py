"""Classes of a whole text, read from its last token.

Paper: Radford et al. 2018 (GPT).
The idea: where no token sees a later one, the last token alone has read the whole text.
Used by: GPT, GPT-2, LLaMA.

Shapes: N tokens, B texts, W width, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.heads import HeadSpec, Reads
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class LastTokenClasses(HeadSpec):
    """project(last token)."""

    paper: ClassVar[str] = "Radford et al. 2018"
    reads: ClassVar[Reads] = "texts"

    count: int

    def build(self, width: int, embeddings: Embeddings) -> "LastTokenClassesModule":
        """Makes the module."""
        return LastTokenClassesModule(width, self.count)


class LastTokenClassesModule(nn.Module):
    """One projection, without a bias."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, count, bias=False)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Tokens (N, W) to scores (B, C)."""
        scores: Tensor = self.project(x[layout.last(x.device)])
        return scores
