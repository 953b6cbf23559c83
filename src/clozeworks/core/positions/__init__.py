"""How order enters a model: three slots.

1. *Added to the input*: a vector per position joins the token's embedding (`InputPositionSpec`).
2. *Inside attention*: q and k are turned by their positions, or scores get a bias (`PositionSpec`).
3. *Shared by all layers*: a table that the schemes of all layers read (`SharedPositionSpec`). The
   tower owns it and makes it once per forward pass.

One file per scheme; the folder is the list.

Shapes: N queries, M keys, H heads, D head width, W width.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.attention.attend import Relate
from clozeworks.core.context import ForwardContext
from clozeworks.spec import Slot


class InputPositionSpec(Slot):
    """Slot: positions that are added to the input."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.positions"

    def max_length(self) -> int | None:
        """The longest text the scheme can number; None if there is no limit."""
        raise NotImplementedError

    def build(self, width: int) -> nn.Module:
        """Makes the module: a layout to vectors (N, W)."""
        raise NotImplementedError


class PositionSpec(Slot):
    """Slot: positions inside attention."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.positions"

    def build(self, width: int, heads: int, head_width: int) -> "PositionModule":
        """Makes the module."""
        raise NotImplementedError


class PositionModule(nn.Module):
    """What a `PositionSpec` builds: one for each attention."""

    def turned(self, q: Tensor, k: Tensor, context: ForwardContext) -> tuple[Tensor, Tensor]:
        """Packed queries (N, H, D) and keys (M, H, D), each turned by its position.

        What a cache keeps is turned already, so this may depend on nothing but the position and
        how long the text is by then.
        """
        return q, k

    def forward(self, attention: nn.Module, context: ForwardContext) -> Relate | None:
        """How queries and keys are related, called once per layer and pass.

        `attend` calls what it returns once per group: `relate(q, k, group) -> (q, k, bias)`.
        """
        return None


class SharedPositionSpec(Slot):
    """Slot: what the position schemes of all layers share."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.positions"

    def build(self, width: int) -> nn.Module:
        """Makes the module: the context of a pass to what its `shared` is to hold."""
        raise NotImplementedError

    def for_heads(self, heads: int) -> "SharedPositionSpec":
        """The same for layers with another number of attention heads."""
        return self
