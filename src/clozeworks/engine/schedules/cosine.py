"""The rate falls on half a cosine.

Paper: Loshchilov, Hutter 2017 (SGDR), whose restarts are left out here as in language models.
The idea: stay near the highest rate for longer than a straight line does, and near the lowest.
Used by: GPT, down to 0; LLaMA, down to a tenth.
"""

import math
from typing import ClassVar

from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.spec import Probability, spec


@spec
class Cosine(ScheduleSpec):
    """Up in warm-up, then down to `end` on half a cosine."""

    paper: ClassVar[str] = "Loshchilov & Hutter 2017"

    end: Probability = 0.0
    """The factor when the run is over."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        """The factor once warm-up is over."""
        left = (steps - step) / max(steps - warmup, 1)
        return self.end + (1 - self.end) * (1 - math.cos(math.pi * left)) / 2
