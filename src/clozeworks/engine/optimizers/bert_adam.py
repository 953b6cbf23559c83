"""Adam as BERT was trained with it: no bias correction.

Paper: Devlin et al. 2019 (BERT).
The idea: m and v are running means of the gradient and of its square, and
p <- p - rate * (m / (sqrt(v) + eps) + decay * p).
Where paper and code differ: the paper says Adam with L2 weight decay; the code decays the weight
itself, leaves out bias correction, and has 1e-6 for eps. Both means begin at 0, so the first steps
are 0.1 / sqrt(0.001), about three times, as large as corrected ones; warm-up makes up for it.
Used by: BERT.

Bias correction divides the two means by 1 - beta ** step. torch's kernel, which does a whole step
in one pass over memory, always does so; but told that this is step 1e30 it divides by exactly 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from clozeworks.engine.optimizers import Betas, OptimizerSpec, fused
from clozeworks.engine.param_groups import ScheduleOf, param_groups, uniform
from clozeworks.spec import NonNegativeFloat, PositiveFloat, spec

# A step so late that beta ** step is 0 for every beta below 1; adding 1 does not change it.
LATE = 1e30


@spec
class BertAdam(OptimizerSpec):
    """Adam without bias correction, with decoupled weight decay."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    betas: Betas = (0.9, 0.999)
    """How much of the old mean, and of the old mean square, stays at each step."""
    eps: PositiveFloat = 1e-6
    """Added to the root of the mean square."""
    weight_decay: NonNegativeFloat = 0.01
    """The fraction of a weight that is taken away at each step, times the learning rate."""

    def build(
        self, model: nn.Module, learning_rate: float, schedule_of: ScheduleOf = uniform
    ) -> "Uncorrected":
        """Makes the optimizer."""
        settings = {"lr": learning_rate, "betas": self.betas, "eps": self.eps}
        return BertAdamOptimizer(param_groups(model, self.weight_decay, schedule_of), settings)


@dataclass(frozen=True)
class Moments:
    """What a step reads and writes: equally many of each, in the same order."""

    parameters: list[Tensor]
    gradients: list[Tensor]
    means: list[Tensor]
    """Running means of the gradients."""
    squares: list[Tensor]
    """Running means of the squared gradients."""


class Uncorrected(torch.optim.Optimizer):
    """An optimizer whose state is a mean and a mean square of each parameter.

    They are called `exp_avg` and `exp_avg_sq`, as in torch.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of all parameters that have a gradient."""
        loss = closure() if closure is not None else None
        with torch.no_grad():
            for group in self.param_groups:
                if any(parameter.grad is not None for parameter in group["params"]):
                    self.update(group, self._moments(group))
        return loss

    def update(self, group: dict[str, Any], moments: Moments) -> None:
        """One step of the parameters of a group."""
        raise NotImplementedError

    def _moments(self, group: dict[str, Any]) -> Moments:
        moments = Moments([], [], [], [])
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            for name in ("exp_avg", "exp_avg_sq"):
                if name not in state:
                    state[name] = torch.zeros_like(parameter)
            moments.parameters.append(parameter)
            moments.gradients.append(parameter.grad)
            moments.means.append(state["exp_avg"])
            moments.squares.append(state["exp_avg_sq"])
        return moments


class BertAdamOptimizer(Uncorrected):
    """The step, by the kernel of torch's AdamW."""

    def update(self, group: dict[str, Any], moments: Moments) -> None:
        """One step of the parameters of a group."""
        adam_step(moments, group, rate=group["lr"], decay=group["weight_decay"])


def adam_step(moments: Moments, group: dict[str, Any], rate: float, decay: float) -> None:
    """Updates both means, then the parameters.

    p <- (1 - rate * decay) * p - rate * mean / (sqrt(square) + eps)
    """
    beta1, beta2 = group["betas"]
    late = {
        device: torch.full((), LATE, device=device)
        for device in {parameter.device for parameter in moments.parameters}
    }
    adamw(
        moments.parameters,
        moments.gradients,
        moments.means,
        moments.squares,
        [],
        [late[parameter.device] for parameter in moments.parameters],
        fused=fused(moments.parameters),
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=rate,
        weight_decay=decay,
        eps=group["eps"],
        maximize=False,
    )
