"""How order enters a model: two slots.

1. *Added to the input*: a vector per position joins the token's embedding (`InputPositionSpec`).
2. *Inside attention*: q and k are turned, or a bias is added to the scores (`PositionSpec`).

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

    def build(self, heads: int, head_width: int) -> nn.Module:
        """Makes the module that `attend` calls as `relate(q, k, group) -> (q, k, bias)`."""
        raise NotImplementedError
