"""Adam as BERT was trained with it: no bias correction.

Paper: Devlin et al. 2019 (BERT).
The idea: m and v are running means of the gradient and of its square, and
p <- p - rate * (m / (sqrt(v) + eps) + decay * p).
Where paper and code differ: the paper says Adam with L2 weight decay; the code decays the weight
itself, leaves out bias correction, and has 1e-6 for eps. Both means begin at 0, so the first steps
are 0.1 / sqrt(0.001), about three times, as large as corrected ones; warm-up makes up for it.
Used by: BERT.
"""

from typing import Any, ClassVar

from torch import nn

from clozeworks.engine.optimizers import OptimizerSpec, by_role, check_moments, everywhere_alike
from clozeworks.engine.optimizers.uncorrected import Moments, Uncorrected, adam_step
from clozeworks.engine.param_groups import LayerOf
from clozeworks.spec import spec


@spec
class BertAdam(OptimizerSpec):
    """Adam without bias correction, with decoupled weight decay."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    betas: tuple[float, float] = (0.9, 0.999)
    """How much of the old mean, and of the old mean square, stays at each step."""
    eps: float = 1e-6
    """Added to the root of the mean square."""
    decay: float = 0.01
    """The share of a weight that is taken away at each step, times the rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_moments(self.betas, self.eps, self.decay)

    def build(self, model: nn.Module, places: LayerOf = everywhere_alike) -> "BertAdamOptimizer":
        """Makes the optimiser."""
        settings = {"lr": self.rate, "betas": self.betas, "eps": self.eps}
        return BertAdamOptimizer(by_role(model, self.decay, places), settings)


class BertAdamOptimizer(Uncorrected):
    """The step, by the kernel of torch's AdamW."""

    def update(self, group: dict[str, Any], moments: Moments) -> None:
        """One step of the parameters of a group."""
        adam_step(moments, group, rate=group["lr"], decay=group["weight_decay"])
