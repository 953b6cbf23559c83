"""The rate falls as one over the square root of the step.

Paper: Vaswani et al. 2017 (the Transformer).
The idea: the rate does not depend on the length of the run, so a run can be made longer, and every
step before stays what it was.
Where paper and ours differ: the paper numbers steps from 1, and its peak follows from the width;
here steps are numbered from 0, and the peak is the optimiser's rate.
Relations: T5 pre-trains with the same fall, but stays at the highest rate before it instead of
rising to it.
Used by: the Transformer.
"""

import math
from typing import ClassVar

from clozeworks.core.spec import spec
from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.errors import SettingError


@spec
class InverseSquareRoot(ScheduleSpec):
    """Up in warm-up, then down as sqrt(warmup / step)."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    def __post_init__(self) -> None:
        if self.warmup < 1:
            raise SettingError(
                f"schedule.warmup is {self.warmup}; it must be at least 1; it says how fast the "
                "rate falls, too."
            )

    def after_warmup(self, step: int, steps: int) -> float:
        """The factor from step `warmup` on."""
        return math.sqrt(self.warmup / step)
