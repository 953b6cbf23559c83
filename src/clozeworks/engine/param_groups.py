"""How the rate differs from layer to layer: smaller below, nothing where layers are frozen.

Papers: Howard & Ruder 2018 (discriminative rates, gradual unfreezing); Clark et al. 2020
(layer-wise decay for fine-tuning); Devlin et al. 2019 (one rate for all).
The idea: what lies near the text is general and should change little; what lies near the task is
fresh and should change much.
Where papers and code differ: definitions of layer-wise decay differ by one power. Here heads have
the full rate, the top layer the full rate times the decay, and so on down to the embeddings.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from torch import nn

from clozeworks.errors import SettingError
from clozeworks.spec import spec
from clozeworks.wording import counted

_LAYER = re.compile(r"encoder\.layers\.(\d+)\.")

# The name of a parameter to what its rate is multiplied with, and the step from which it changes.
LayerOf = Callable[[str], tuple[float, int]]


@spec
class Rates:
    """What is frozen, and how the rate falls from the heads to the embeddings."""

    paper: ClassVar[str] = "Howard & Ruder 2018; Clark et al. 2020"

    layer_decay: float = 1.0
    """The rate of a layer is this times that of the layer above it."""
    freeze: int = 0
    """Layers from the bottom that never change, and the embeddings with them. Layers that share
    their weights (ALBERT) are one."""
    heads_only: bool = False
    """Whether nothing changes but the heads and the pooler."""
    thaw: int = 0
    """Gradual unfreezing: the heads begin alone, and every so many steps one more layer joins them,
    from the top; 0: all begin at once."""

    def __post_init__(self) -> None:
        if not 0 < self.layer_decay <= 1:
            raise SettingError(
                f"rates.layer_decay is {self.layer_decay}; it must be above 0 and at most 1."
            )
        for name, value in (("freeze", self.freeze), ("thaw", self.thaw)):
            if value < 0:
                raise SettingError(f"rates.{name} is {value}; it must be at least 0.")
        if self.heads_only and (self.freeze or self.thaw):
            raise SettingError(
                "rates.heads_only is true, so nothing else ever changes; freeze and thaw have no "
                "effect; leave them out."
            )

    def apply(self, model: nn.Module) -> LayerOf:
        """Freezes what never changes; says how fast and from when everything else does.

        What was frozen before stays so.

        Raises:
            SettingError: There are fewer layers than are to be frozen.
        """
        names = [name for name, _ in model.named_parameters()]
        layers = 1 + max((_layer(name) for name in names), default=-1)
        if self.freeze > layers:
            have = counted(layers, "layer")
            raise SettingError(f"rates.freeze is {self.freeze}; the model has {have}; lower it.")
        for name, parameter in model.named_parameters():
            below = _depth(name, layers)
            frozen = self.heads_only or (self.freeze and below <= self.freeze)
            if frozen and below <= layers:
                parameter.requires_grad_(False)
        return lambda name: self._place(_depth(name, layers), layers)

    def _place(self, depth: int, layers: int) -> tuple[float, int]:
        above = layers + 1 - depth
        return self.layer_decay**above, self.thaw * above

    def said(self, model: nn.Module) -> str:
        """What is frozen, in a sentence; nothing if all is free."""
        frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
        if not frozen:
            return ""
        every = sum(parameter.numel() for parameter in model.parameters())
        return f"{every - frozen:,} of {every:,} parameters change; the others are frozen."


def _layer(name: str) -> int:
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def _depth(name: str, layers: int) -> int:
    """0 for embeddings, 1 for the lowest layer, one more than the layers for heads and pooler."""
    if _layer(name) >= 0:
        return _layer(name) + 1
    if name.startswith("embeddings."):
        return 0
    # What stands behind the last layer, such as a final norm, belongs to it.
    return layers if name.startswith("encoder.") else layers + 1
