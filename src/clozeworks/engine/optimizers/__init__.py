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

from collections.abc import Iterable
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from clozeworks.engine.param_groups import ScheduleOf, uniform
from clozeworks.spec import Bound, Slot, spec

Betas = Annotated[
    tuple[float, float],
    Bound(
        "two numbers, each at least 0 and below 1",
        lambda betas: len(betas) == 2 and all(0 <= beta < 1 for beta in betas),
    ),
]


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


def length_of(tensor: Tensor) -> Tensor:
    """The norm of all elements."""
    # Trap: torch's norm of all elements at once adds up squares in float32: of eight million it is
    # wrong in the fourth digit on a CPU. The norm of the norms of rows is right to the seventh.
    length: Tensor = torch.linalg.vector_norm(torch.linalg.vector_norm(tensor, dim=-1))
    return length


def fused(parameters: Iterable[Tensor]) -> bool | None:
    """True where torch has a kernel that does a step in one pass, else None: torch decides."""
    return all(parameter.device.type in {"cpu", "cuda"} for parameter in parameters) or None
