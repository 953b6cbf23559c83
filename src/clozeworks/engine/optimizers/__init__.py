"""How gradients become steps: one file per published optimizer.

| optimizer | what is special | file |
|---|---|---|
| `AdamW` | weight decay beside the gradient, not in it | `adam_w.py` |
| `BertAdam` | the same without bias correction, as BERT was trained | `bert_adam.py` |
| `Adafactor` | mean squares as rows and columns; steps relative to the weights | `adafactor.py` |
| `Lamb` | each tensor's step is scaled by its own norm: very large batches | `lamb.py` |

Rules all of them keep:

- The learning rate is read from `group["lr"]` at every step, so that a schedule can change it from
  outside; the group's `lr_scale` is already part of it.
- Biases and everything that belongs to a norm are not decayed; everything else is, embeddings too.
- All state is tensors in `optimizer.state[parameter]`. Copies of them put into a fresh optimizer of
  the same spec go on bit for bit.
- A parameter without a gradient is left alone: no decay, no state.

A new file here is available to every recipe, as `training.optimizer.kind`.
"""

import math
from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.engine.param_groups import ScheduleOf, uniform
from clozeworks.errors import SettingError
from clozeworks.spec import Slot, spec


@spec
class OptimizerSpec(Slot):
    """Slot: how gradients become steps."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.engine.optimizers"

    @property
    def relative_steps(self) -> bool:
        """Whether the learning rate is a fraction of the weights rather than a distance."""
        return False

    def build(
        self, model: nn.Module, learning_rate: float, schedule_of: ScheduleOf = uniform
    ) -> torch.optim.Optimizer:
        """Makes the optimizer of a model's parameters, which are on their device already.

        Args:
            model: The model.
            learning_rate: The learning rate until another one is put into the groups.
            schedule_of: How parameters differ from each other.

        Raises:
            SettingError: If every parameter of the model is frozen.
        """
        raise NotImplementedError


def check_finite(setting: str, value: float) -> None:
    """Refuses infinity and NaN.

    Raises:
        SettingError: If the value is not a finite number.
    """
    if not math.isfinite(value):
        raise SettingError(f"{setting} is {value}; it must be a finite number.")


def check_moments(betas: tuple[float, ...], eps: float, weight_decay: float) -> None:
    """Checks the settings that all relatives of Adam share.

    Raises:
        SettingError: If one of them is out of its range.
    """
    if len(betas) != 2:
        raise SettingError(f"optimizer.betas is {list(betas)}; it must be two numbers.")
    for number, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise SettingError(
                f"optimizer.betas[{number}] is {beta}; it must be at least 0 and below 1."
            )
    check_finite("optimizer.eps", eps)
    if eps <= 0:
        # Where no gradient ever came, 0 is divided by 0 + eps.
        raise SettingError(f"optimizer.eps is {eps}; it must be above 0.")
    check_finite("optimizer.weight_decay", weight_decay)
    if weight_decay < 0:
        raise SettingError(f"optimizer.weight_decay is {weight_decay}; it must be at least 0.")


def fused(parameters: Iterable[Tensor]) -> bool | None:
    """True where torch has a kernel that does a step in one pass, else None: torch decides."""
    return all(parameter.device.type in {"cpu", "cuda"} for parameter in parameters) or None
