"""The slot of a sub-layer's content: something that maps tokens to tokens, (N, W) to (N, W)."""

from typing import ClassVar

from torch import nn

from clozeworks.spec import Slot


class PartSpec(Slot):
    """Slot: what a sub-layer computes. `role` names its weights within the layer."""

    is_slot: ClassVar[bool] = True
    role: ClassVar[str]

    def build(self, width: int) -> nn.Module:
        """Makes the module: tokens (N, W) and the flow to tokens (N, W)."""
        raise NotImplementedError
