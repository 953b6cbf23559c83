"""The rate stays.

Paper: Raffel et al. 2020 (T5) fine-tune with one rate from beginning to end.
The idea: nothing to choose; a run can go on for as long as it is worth it.
Used by: T5's fine-tuning.
"""

from typing import ClassVar

from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.spec import spec


@spec
class Constant(ScheduleSpec):
    """Up in warm-up, then the peak rate."""

    paper: ClassVar[str] = "Raffel et al. 2020"

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        """The factor once warm-up is over."""
        return 1.0
