"""Whether each token is the original one, or a replacement.

Paper: Clark et al. 2020 (ELECTRA): a dense layer, its activation, and one number for each token. He
et al. 2023 (DeBERTa v3): each token beside the first of its text, which speaks for the whole.
The idea: every token is a target, not only the few that were masked, so a text teaches more.
Where paper and code differ: one number and a sigmoid are published; here the number stands beside
a 0 for "original". Softmax over the two is that sigmoid, and this head is classes like any other.
Used by: the discriminators of ELECTRA and DeBERTa v3; the objective that trains them.

Shapes: n tokens, W width.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class Replaced(HeadSpec):
    """[0, score(activation(dense(x)))]: original, replaced."""

    paper: ClassVar[str] = "Clark et al. 2020"

    activation: str = "gelu"

    def build(self, width: int, embeddings: Embeddings) -> "ReplacedModule":
        """Makes the module."""
        return ReplacedModule(width, self.activation)


class ReplacedModule(Head):
    """Bends once more, then one number."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = activation_named(activation)
        self.score = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, W) to logits of "original" and "replaced" (n, 2)."""
        replaced: Tensor = self.score(self.activation(self.dense(x)))  # (n, 1)
        return torch.cat([torch.zeros_like(replaced), replaced], dim=1)


@spec
class ReplacedInText(HeadSpec):
    """[0, score(activation(dense(norm(x + first))))]: original, replaced."""

    paper: ClassVar[str] = "He et al. 2023"

    norm: NormSpec
    activation: str = "gelu"

    def build(self, width: int, embeddings: Embeddings) -> "ReplacedInTextModule":
        """Makes the module."""
        return ReplacedInTextModule(width, self.activation, self.norm.build(width))


class ReplacedInTextModule(ReplacedModule):
    """The same, of each token and its text."""

    def __init__(self, width: int, activation: str, norm: nn.Module) -> None:
        super().__init__(width, activation)
        self.norm = norm

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """The tokens, each added to the first of its text, (n, W)."""
        rows = layout.rows(hidden_states.device)
        first = layout.first(hidden_states.device)[rows if positions is None else rows[positions]]
        return super().read(hidden_states, layout, positions) + hidden_states[first]

    def forward(self, x: Tensor) -> Tensor:
        """Tokens with the first of their text (n, W) to logits (n, 2)."""
        return super().forward(self.norm(x))
