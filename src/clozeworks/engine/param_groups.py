"""Parameter groups: what is decayed, what is frozen, and how the learning rate falls with depth.

Papers: Howard & Ruder 2018 (discriminative rates, gradual unfreezing); Clark et al. 2020
(layer-wise decay for fine-tuning); Devlin et al. 2019 (one rate for all).
The idea: what lies near the text is general and should change little; what lies near the task is
fresh and should change much.
Where papers and code differ: definitions of layer-wise decay differ by one power. Here heads have
the full rate, the top layer the full rate times the decay, and so on down to the embeddings.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from torch import nn

from clozeworks.errors import SET, SettingError, Stated
from clozeworks.spec import NonNegativeInt, PositiveInt, spec
from clozeworks.wording import counted

DECAYED = "decayed"
NOT_DECAYED = "not decayed"

_LAYER = re.compile(r"encoder\.layers\.(\d+)\.")


class ParameterSchedule(NamedTuple):
    """How one parameter differs from the others."""

    lr_scale: float = 1.0
    """What its learning rate is multiplied by."""
    start_step: int = 0
    """The first step that changes it."""


# From the name of a parameter to how it differs from the others.
ScheduleOf = Callable[[str], ParameterSchedule]


def uniform(name: str) -> ParameterSchedule:
    """The full learning rate for every parameter, from the first step on."""
    return ParameterSchedule()


@spec
class Freezing:
    """Which parameters never change, or change later than the others."""

    paper: ClassVar[str] = "Howard & Ruder 2018"

    layers: NonNegativeInt = 0
    """Layers from the bottom that never change, and the embeddings with them. Layers that share
    their weights (ALBERT) count as one."""
    heads_only: bool = False
    """Whether only the heads and the pooler change."""
    unfreeze_every_steps: PositiveInt | None = None
    """Gradual unfreezing: the heads begin alone, and every so many steps one more layer joins them,
    from the top; none: all begin at once."""

    def __post_init__(self) -> None:
        if self.heads_only and (self.layers or self.unfreeze_every_steps):
            rule = "nothing else ever changes: `layers` and `unfreeze_every_steps` have no effect"
            raise SettingError("heads_only", Stated("true"), rule, "leave them out")

    def check(self, model: nn.Module) -> int:
        """Checks that the model has as many layers as are to be frozen, and counts them.

        Raises:
            SettingError: If more layers are to be frozen than the model has.
        """
        names = [name for name, _ in model.named_parameters()]
        layers = 1 + max((_layer(name) for name in names), default=-1)
        if self.layers > layers:
            rule = f"the model has {counted(layers, 'layer')}"
            raise SettingError("training.freezing.layers", self.layers, rule, "lower it")
        return layers

    def apply(self, model: nn.Module, layer_decay: float = 1.0) -> ScheduleOf:
        """Freezes what never changes, and tells how fast and from when everything else does.

        What was frozen before stays frozen.

        Raises:
            SettingError: If more layers are to be frozen than the model has.
        """
        layers = self.check(model)
        for name, parameter in model.named_parameters():
            depth = _depth(name, layers)
            frozen = self.heads_only or (self.layers and depth <= self.layers)
            if frozen and depth <= layers:
                parameter.requires_grad_(False)

        def schedule_of(name: str) -> ParameterSchedule:
            below_heads = layers + 1 - _depth(name, layers)
            start = (self.unfreeze_every_steps or 0) * below_heads
            return ParameterSchedule(layer_decay**below_heads, start)

        return schedule_of


def frozen_message(model: nn.Module) -> str:
    """How many parameters change, in a sentence; empty if all of them do."""
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    if not frozen:
        return ""
    total = sum(parameter.numel() for parameter in model.parameters())
    return f"{total - frozen:,} of {total:,} parameters change; the others are frozen."


def param_groups(
    model: nn.Module, weight_decay: float, schedule_of: ScheduleOf = uniform
) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer.

    Tied parameters are taken once, by their first name; frozen ones are left out. A group has its
    `role`, `"decayed"` or `"not decayed"`, its `lr_scale`, and the `start_step` from which it
    changes; a group without parameters is left out.

    Raises:
        SettingError: If every parameter is frozen.
    """
    groups: dict[tuple[str, float, int], list[nn.Parameter]] = {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix=path, recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            if not parameter.requires_grad:
                continue
            spared = isinstance(module, nn.LayerNorm | nn.RMSNorm) or name.endswith("bias")
            key = (NOT_DECAYED if spared else DECAYED, *schedule_of(name))
            groups.setdefault(key, []).append(parameter)
    if not groups:
        rule = f"all {len(seen):,} parameter tensors of the model are frozen"
        raise SettingError("training.freezing", SET, rule, "freeze fewer")
    return [
        {
            "params": groups[role, lr_scale, start_step],
            "role": role,
            "weight_decay": weight_decay if role == DECAYED else 0.0,
            "lr_scale": lr_scale,
            "start_step": start_step,
        }
        for role, lr_scale, start_step in sorted(groups)
    ]


def _layer(name: str) -> int:
    match = _LAYER.match(name)
    return int(match[1]) if match else -1


def _depth(name: str, layers: int) -> int:
    """0 for embeddings, 1 for the lowest layer, one more than the layers for heads and pooler."""
    if _layer(name) >= 0:
        return _layer(name) + 1
    if name.startswith("embeddings."):
        return 0
    # What comes after the last layer, such as a final norm, belongs to it.
    return layers if name.startswith("encoder.") else layers + 1
