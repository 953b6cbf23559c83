"""The rate falls as one over the square root of the step.

Paper: Vaswani et al. 2017 (the Transformer); Raffel et al. 2020 (T5).
The idea: the rate does not depend on the length of the run, so a run can be made longer, and every
step before stays what it was.
Where paper and ours differ: the paper numbers steps from 1, and its peak follows from the width;
here steps are numbered from 0, and the peak is the recipe's learning rate.
Relations: T5 pre-trains with the same fall, but stays at the highest rate before it instead of
rising to it: with a rate of 0.01, no warm-up and `hold = 10_000` the rate of step s is
1 / sqrt(max(s, 10,000)).
Used by: the Transformer; T5, mT5, ByT5 and UL2.
"""

import math
from typing import ClassVar

from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.errors import SettingError
from clozeworks.spec import NonNegativeInt, spec


@spec
class InverseSquareRoot(ScheduleSpec):
    """Up in warm-up, then down as sqrt(warmup / step), or as sqrt(hold / step)."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    hold: NonNegativeInt = 0
    """The step up to which the rate stays at its highest; 0: it falls where warm-up ends."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.warmup_steps or self.warmup_fraction or self.hold):
            rule = "without warm-up it says how fast the rate falls"
            advice = "set it, such as hold = 10000, or `warmup_steps` or `warmup_fraction`"
            raise SettingError("hold", self.hold, rule, advice)
        if 0 < self.hold < (self.warmup_steps or 0):
            rule = f"`warmup_steps` is {self.warmup_steps:,}, and the rate rises until then"
            raise SettingError("hold", self.hold, rule, "raise it, or leave it out")

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        """The factor once warm-up is over."""
        top = max(self.hold or warmup, 1)
        return math.sqrt(top / max(step, top))
