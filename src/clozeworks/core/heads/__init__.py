"""Heads: what is computed from the hidden states of a tower. One file per kind of head.

A `Head` needs hidden states alone: `read` takes what it needs of them (tokens, one vector per text,
the pooler's vector), the forward makes logits of that, `loss` compares them with targets.
Other heads are handed more by the objective that brings them, such as both ends of a span.

Shapes: N tokens, B texts, n tokens or texts with logits, W width, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.core.loss import LossTerm
from clozeworks.spec import Slot

TOKEN_TABLE = "embeddings.tokens.weight"
POSITION_TABLE = "embeddings.positions.table.weight"


class HeadSpec(Slot):
    """Slot: a head."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.heads"
    reads_pooler: ClassVar[bool] = False
    """Whether it needs the model's pooler."""
    has_bias: ClassVar[bool] = True
    """Whether its last projection has a bias."""

    def build(self, width: int, embeddings: Embeddings) -> nn.Module:
        """Makes the module: (n, W) to (n, outputs)."""
        raise NotImplementedError

    def shared(self) -> dict[str, str]:
        """Parameters it has in common with the body: its own name of each to the model's."""
        return {}


class Head(nn.Module):
    """A head that needs hidden states alone; its forward takes what `read` returns."""

    @property
    def reads_first(self) -> bool:
        """Whether the first token of each text is all it reads."""
        return False

    def attach(self, pooler: nn.Module | None) -> None:
        """Lets the head use the model's pooler; most heads do not."""

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """The vectors that logits are computed from, (n, W), at all positions or some, (n,)."""
        return hidden_states if positions is None else hidden_states[positions]

    def logits(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """Logits of all texts or tokens, or of the tokens at some positions only, (n, C)."""
        logits: Tensor = self(self.read(hidden_states, layout, positions))
        return logits

    def loss(self, x: Tensor, targets: Tensor) -> LossTerm:
        """The cross-entropy of what `read` returned (n, W) with the right classes (n,)."""
        return LossTerm.of(self(x), targets)
