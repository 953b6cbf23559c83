"""How gradients become steps: one file per published optimiser.

| optimiser | what is special | file |
|---|---|---|
| `AdamW` | weight decay beside the gradient, not in it | `adam_w.py` |
| `BertAdam` | the same without bias correction, as BERT was trained | `bert_adam.py` |
| `Adafactor` | mean squares as rows and columns; the rate is a share of a tensor | `adafactor.py` |
| `Lamb` | each tensor's step is scaled by its own norm: very large batches | `lamb.py` |

Rules all of them keep:

- The rate is read from `group["lr"]` at every step, so that a schedule can change it from outside;
  what it is multiplied with there is the group's `factor`.
- Biases and everything that belongs to a norm are not decayed; everything else is, embeddings too.
- All state is tensors in `optimizer.state[parameter]`. Copies of them put into a fresh optimiser of
  the same spec go on bit for bit.
- A parameter without a gradient is left alone: no decay, no state.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from clozeworks.engine.param_groups import LayerOf
from clozeworks.errors import SettingError
from clozeworks.spec import Slot, spec

DECAYED = "decayed"
NOT_DECAYED = "not decayed"


def everywhere_alike(name: str) -> tuple[float, int]:
    """The full rate for every parameter, from the first step on."""
    return 1.0, 0


@spec
class OptimizerSpec(Slot):
    """Slot: how gradients become steps."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.engine.optimizers"

    rate: float
    """The highest learning rate; a schedule multiplies it by 0 to 1."""

    def __post_init__(self) -> None:
        check_number("optimizer.rate", self.rate)
        if self.rate <= 0:
            raise SettingError(f"optimizer.rate is {self.rate}; it must be above 0.")

    def build(self, model: nn.Module, places: LayerOf = everywhere_alike) -> torch.optim.Optimizer:
        """Makes the optimiser of a model's parameters, which are on their device already.

        Args:
            model: The model.
            places: How the rate differs from parameter to parameter.

        Raises:
            SettingError: The model has no parameter that may change.
        """
        raise NotImplementedError


def check_number(where: str, value: float) -> None:
    """Complains about infinity and what is not a number.

    Raises:
        SettingError: It is one of these.
    """
    if not math.isfinite(value):
        raise SettingError(f"{where} is {value}; it must be a finite number.")


def check_moments(betas: tuple[float, ...], eps: float, decay: float) -> None:
    """Complains about settings that all relatives of Adam share.

    Raises:
        SettingError: The first that cannot be used.
    """
    if len(betas) != 2:
        raise SettingError(f"optimizer.betas is {list(betas)}; it must be two numbers.")
    for number, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise SettingError(
                f"optimizer.betas[{number}] is {beta}; it must be at least 0 and below 1."
            )
    check_number("optimizer.eps", eps)
    if eps <= 0:
        # Where no gradient ever came, 0 is divided by 0 + eps.
        raise SettingError(f"optimizer.eps is {eps}; it must be above 0.")
    check_number("optimizer.decay", decay)
    if decay < 0:
        raise SettingError(f"optimizer.decay is {decay}; it must be at least 0.")


def by_role(
    model: nn.Module, decay: float, places: LayerOf = everywhere_alike
) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser: what is decayed, and what is not, at which rate.

    Tied parameters are taken once, by their first name; frozen ones are left out. A group has its
    `role`, `"decayed"` or `"not decayed"`, the `factor` of its rate, and the step it changes
    `since`; a group without parameters is left out.

    Args:
        model: Any module.
        decay: The weight decay of what is decayed.
        places: How the rate differs from parameter to parameter.

    Raises:
        SettingError: No parameter may change.
    """
    groups: dict[tuple[str, float, int], list[nn.Parameter]] = {}
    done: set[int] = set()
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix=path, recurse=False):
            if id(parameter) in done:
                continue
            done.add(id(parameter))
            if not parameter.requires_grad:
                continue
            spared = isinstance(module, nn.LayerNorm | nn.RMSNorm) or name.endswith("bias")
            place = (NOT_DECAYED if spared else DECAYED, *places(name))
            groups.setdefault(place, []).append(parameter)
    if not groups:
        raise SettingError(
            f"all {len(done):,} parameter tensors of the model are frozen; at least one must be "
            "free to change; freeze fewer."
        )
    decays = {DECAYED: decay, NOT_DECAYED: 0.0}
    return [
        {
            "params": groups[role, factor, since],
            "role": role,
            "weight_decay": decays[role],
            "factor": factor,
            "since": since,
        }
        for role, factor, since in sorted(groups)
    ]


def fused(parameters: Iterable[Tensor]) -> bool | None:
    """True where torch has a kernel that does a step in one pass, else None: torch decides."""
    return all(parameter.device.type in {"cpu", "cuda"} for parameter in parameters) or None
