"""Classes of a whole text, read from its last token.

Paper: Radford et al. 2018 (GPT).
The idea: where no token sees a later one, the last token alone has read the whole text.
Used by: GPT, GPT-2, LLaMA.

Shapes: N tokens, B texts, W width, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class LastTokenClasses(HeadSpec):
    """project(last token)."""

    paper: ClassVar[str] = "Radford et al. 2018"

    count: int

    def build(self, width: int, embeddings: Embeddings) -> "LastTokenClassesModule":
        """Makes the module."""
        return LastTokenClassesModule(width, self.count)


class LastTokenClassesModule(Head):
    """One projection, without a bias."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, count, bias=False)

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """The last token of each text, (B, W)."""
        return hidden_states[layout.last(hidden_states.device)]

    def forward(self, x: Tensor) -> Tensor:
        """Last tokens (B, W) to logits (B, C)."""
        logits: Tensor = self.project(x)
        return logits
