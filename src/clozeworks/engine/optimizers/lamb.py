"""Steps as large as the tensor they change allows.

Paper: You et al. 2020 (LAMB).
The idea: take Adam's step u = m / (sqrt(v) + eps) + decay * p, and stretch it to the length of the
tensor: p <- p - rate * |p| / |u| * u. Every tensor then changes by the same share, which keeps
training stable when the batch, and with it the rate, is very large.
Where paper and code differ: the paper's algorithm corrects the bias of m and v; the code that
trained ALBERT does not, and neither do we. Biases and norms get neither decay nor stretching there
and here, and a tensor or a step of length 0 is not stretched.
Used by: ALBERT, with rate 0.00176 for 4,096 texts a step.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from clozeworks.engine.optimizers import length_of
from clozeworks.engine.optimizers.bert_adam import BertAdam, Moments, Uncorrected, adam_step
from clozeworks.engine.param_groups import DECAYED, ScheduleOf, param_groups, uniform
from clozeworks.spec import NonNegativeFloat, spec


@spec
class Lamb(BertAdam):
    """Adam's steps, stretched to the length of each tensor."""

    paper: ClassVar[str] = "You et al. 2020"

    weight_decay: NonNegativeFloat = 0.01
    """The fraction of a weight that is added to its step before stretching."""

    def build(
        self, model: nn.Module, learning_rate: float, schedule_of: ScheduleOf = uniform
    ) -> "LambOptimizer":
        """Makes the optimizer."""
        settings = {"lr": learning_rate, "betas": self.betas, "eps": self.eps}
        return LambOptimizer(param_groups(model, self.weight_decay, schedule_of), settings)


class LambOptimizer(Uncorrected):
    """The step, most of it by the kernel of torch's AdamW."""

    def update(self, group: dict[str, Any], moments: Moments) -> None:
        """One step of the parameters of a group."""
        if group["role"] != DECAYED:
            adam_step(moments, group, rate=group["lr"], decay=0.0)
            return
        # A step of rate 1 that begins at -decay * p instead of p ends at -u: both means are
        # updated and u is made in one pass over memory.
        minus_u = torch._foreach_mul(moments.parameters, -group["weight_decay"])
        adam_step(replace(moments, parameters=list(minus_u)), group, rate=1.0, decay=0.0)
        for parameter, step in zip(moments.parameters, minus_u, strict=True):
            weight, change = length_of(parameter), length_of(step)
            trust = torch.where((weight > 0) & (change > 0), weight / change, 1.0)
            parameter.addcmul_(step, trust, value=group["lr"])
