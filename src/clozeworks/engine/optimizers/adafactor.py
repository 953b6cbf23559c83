"""Adam's second mean kept as rows and columns, steps in proportion to the weights.

Paper: Shazeer, Stern 2018 (Adafactor).
The idea: of a matrix of mean squares keep the means of its rows and of its columns, whose product
stands for it: R + C numbers instead of R * C. Without a mean of the gradients nothing else is kept.
A step that is larger than usual as a whole is shrunk, and its rate is relative to the tensor's own
size, so that one rate serves all tensors.
How much of the old means stays at step t is 1 - t ** -power: nothing at the first, ever more later.
Where paper and code differ: the paper's rate is min(0.01, 1 / sqrt(t)); T5's code and this leave
that to a schedule, `inverse_square_root` with `hold = 10_000` and a rate of 0.01. That of torch
takes the smaller of the rate and 1 / sqrt(t) and puts `eps` elsewhere, so it is another optimizer.
Used by: T5, mT5, ByT5 and UL2, for fine-tuning with a constant rate of 0.001.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from clozeworks.engine.optimizers import OptimizerSpec, length_of
from clozeworks.engine.param_groups import ScheduleOf, param_groups, uniform
from clozeworks.spec import Above, AtMost, PositiveFloat, spec


@spec
class Adafactor(OptimizerSpec):
    """Steps divided by the product of row and column means, in proportion to each tensor."""

    paper: ClassVar[str] = "Shazeer & Stern 2018"

    power: Annotated[float, Above(0), AtMost(1)] = 0.8
    """How fast old means become slow to change: 1 - step ** -power of them stays."""
    clip_threshold: PositiveFloat = 1.0
    """The largest root mean square of a tensor's step before it is multiplied by the rate."""
    scale_parameter: bool = True
    """Whether the rate is multiplied by the root mean square of the tensor it changes."""
    floor: PositiveFloat = 1e-3
    """What a tensor's root mean square is at least taken for."""
    eps: PositiveFloat = 1e-30
    """Added to every square."""

    @property
    def relative_steps(self) -> bool:
        """Whether the learning rate is a fraction of the weights rather than a distance."""
        return self.scale_parameter

    def build(
        self, model: nn.Module, learning_rate: float, schedule_of: ScheduleOf = uniform
    ) -> "AdafactorOptimizer":
        """Makes the optimizer; nothing is decayed."""
        settings = {
            "lr": learning_rate,
            "power": self.power,
            "clip_threshold": self.clip_threshold,
            "scale_parameter": self.scale_parameter,
            "floor": self.floor,
            "eps": self.eps,
        }
        return AdafactorOptimizer(param_groups(model, 0.0, schedule_of), settings)


class AdafactorOptimizer(torch.optim.Optimizer):
    """The step; its state is `step` and `row` and `column`, or `square` for a vector."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of all parameters that have a gradient."""
        loss = closure() if closure is not None else None
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state.update(_zeros(grad))
        state["step"] += 1
        new = float(state["step"]) ** -group["power"]
        squares = grad.square().add_(group["eps"])
        if "row" in state:
            row, column = state["row"], state["column"]
            row.lerp_(squares.mean(dim=-1), new)
            column.lerp_(squares.mean(dim=-2), new)
            # The product has the right mean once one side is divided by its own.
            along = (row / row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
            step = grad * along * column.rsqrt().unsqueeze(-2)
        else:
            step = grad * state["square"].lerp_(squares, new).rsqrt()
        rate = group["lr"]
        if group["scale_parameter"]:
            rate = rate * _size(parameter).clamp_(min=group["floor"])
        step *= rate / (_size(step) / group["clip_threshold"]).clamp_(min=1.0)
        parameter -= step


def _zeros(grad: Tensor) -> dict[str, Tensor]:
    """What is kept of a tensor's squares, all 0."""
    if grad.dim() < 2:
        return {"square": torch.zeros_like(grad)}
    return {
        "row": grad.new_zeros(grad.shape[:-1]),
        "column": grad.new_zeros((*grad.shape[:-2], grad.shape[-1])),
    }


def _size(tensor: Tensor) -> Tensor:
    """The root mean square of all elements."""
    return length_of(tensor) / math.sqrt(tensor.numel())
