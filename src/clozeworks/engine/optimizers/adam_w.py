"""Adam with weight decay beside the gradient.

Paper: Loshchilov, Hutter 2019 (decoupled weight decay); Kingma, Ba 2015 (Adam).
The idea: divide a running mean of the gradient by the root of a running mean of its square, so that
every weight moves at about the rate. Decay shrinks the weight itself; put into the gradient it
would be divided, too, and shrink least where gradients are large.
Where paper and code differ: the paper multiplies the decay by the schedule only, torch by schedule
times rate. Half the rate is half the decay here.
Used by: RoBERTa and most later models; RoBERTa with betas 0.9 and 0.98 and eps 1e-6.
"""

from typing import ClassVar

import torch
from torch import nn

from clozeworks.engine.optimizers import Betas, OptimizerSpec, fused
from clozeworks.engine.param_groups import ScheduleOf, param_groups, uniform
from clozeworks.spec import NonNegativeFloat, PositiveFloat, spec


@spec
class AdamW(OptimizerSpec):
    """Adam with bias correction and decoupled weight decay."""

    paper: ClassVar[str] = "Loshchilov & Hutter 2019"

    betas: Betas = (0.9, 0.999)
    """How much of the old mean, and of the old mean square, stays at each step."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the mean square."""
    weight_decay: NonNegativeFloat = 0.01
    """The fraction of a weight that is taken away at each step, times the learning rate."""

    def build(
        self, model: nn.Module, learning_rate: float, schedule_of: ScheduleOf = uniform
    ) -> torch.optim.AdamW:
        """Makes the optimizer."""
        return torch.optim.AdamW(
            param_groups(model, self.weight_decay, schedule_of),
            lr=learning_rate,
            betas=self.betas,
            eps=self.eps,
            fused=fused(model.parameters()),
        )
