"""The rate falls on a straight line.

Paper: Devlin et al. 2019 (BERT).
The idea: large steps while there is much to learn, ever smaller ones to settle down.
Where paper and code differ: BERT's code draws the line from step 0, not from the end of warm-up, so
the rate drops by warmup / steps (1 % with 10,000 of a million) where warm-up ends. That is the
anchor "start". Most later code draws it from the end of warm-up, without a drop: "warmup".
Used by: "start" in BERT and ALBERT; "warmup" in the linear schedule of transformers.
"""

from typing import ClassVar, Literal

from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.spec import Probability, spec


@spec
class Linear(ScheduleSpec):
    """Up in warm-up, then down to `end` on a straight line."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    anchor: Literal["start", "warmup"] = "warmup"
    """Where the falling line begins at 1: at step 0, as in BERT, or where warm-up ends."""
    end: Probability = 0.0
    """The factor when the run is over."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        """The factor once warm-up is over."""
        begin = {"start": 0, "warmup": warmup}[self.anchor]
        left = (steps - step) / max(steps - begin, 1)
        return self.end + (1 - self.end) * left
