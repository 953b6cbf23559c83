"""How order enters a model: three slots.

1. *Added to the input*: a vector per position joins the token's embedding (`InputPositionSpec`).
2. *Inside attention*: q and k are turned, or a bias is added to the scores (`PositionSpec`).
3. *Shared by all layers*: a table that the schemes of all layers read (`SharedPositionSpec`). The
   tower owns it and makes it once per forward pass.

One file per scheme; the folder is the list.
"""

from typing import ClassVar

from torch import nn

from clozeworks.core.spec import Slot


class InputPositionSpec(Slot):
    """Slot: positions that are added to the input."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.positions"

    def room(self) -> int | None:
        """The longest text the scheme can number; None if there is no limit."""
        raise NotImplementedError

    def build(self, width: int) -> nn.Module:
        """Makes the module: a layout to vectors (N, W)."""
        raise NotImplementedError


class PositionSpec(Slot):
    """Slot: positions inside attention."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.positions"

    def build(self, width: int, heads: int, head_width: int) -> nn.Module:
        """Makes the module: the attention and the flow to a `Relate`, which `attend` calls.

        The module is called once per layer and pass; the `Relate` it returns once per group, as
        `relate(q, k, group) -> (q, k, bias)`.
        """
        raise NotImplementedError


class SharedPositionSpec(Slot):
    """Slot: what the position schemes of all layers share."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.positions"

    def build(self, width: int) -> nn.Module:
        """Makes the module: the flow to what its `shared` is to hold."""
        raise NotImplementedError
