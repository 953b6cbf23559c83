"""How much of the right answer a model is told while it learns to write, less with every step.

Paper: Bengio et al. 2015 (scheduled sampling), the three schedules of its section 2.4.
The idea: begin with the right answer before each token, as in teacher forcing; end with the model's
own, as where it writes. A model that has learned nothing says nothing worth reading, so any of them
can begin with `hold` steps that tell everything.
Used by: `ScheduledSampling`.
"""

import math
from typing import Annotated, ClassVar

from clozeworks.spec import (
    Above,
    AtLeast,
    Below,
    NonNegativeFloat,
    NonNegativeInt,
    Probability,
    Slot,
    spec,
)


@spec
class TeacherForcingSchedule(Slot):
    """Slot: the probability that the decoder reads the right token, by step."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives"

    hold: NonNegativeInt = 0
    """Steps of full teacher forcing before the schedule begins; the formula counts from there."""

    def probability(self, step: int) -> float:
        """The probability that a token is the right one, a pure function of the step."""
        return 1.0 if step < self.hold else self.held(step - self.hold)

    def held(self, step: int) -> float:
        """The same, where step 0 is the first after `hold`."""
        raise NotImplementedError


@spec
class LinearTeacherForcing(TeacherForcingSchedule):
    """max(least, begin - fall * step)."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    fall: NonNegativeFloat
    """What is taken away at each step."""
    begin: Probability = 1.0
    """The probability at step 0, the first after `hold`."""
    least: Probability = 0.0
    """Where it stays in the end."""

    def held(self, step: int) -> float:
        """The probability of each token to be the right one."""
        return max(self.least, self.begin - self.fall * step)


@spec
class ExponentialTeacherForcing(TeacherForcingSchedule):
    """base ** step."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    base: Annotated[float, Above(0), Below(1)]
    """Below 1, and very near to it for long runs: 0.9999 leaves a third after 11,000 steps."""

    def held(self, step: int) -> float:
        """The probability of each token to be the right one."""
        return self.base**step


@spec
class InverseSigmoidTeacherForcing(TeacherForcingSchedule):
    """k / (k + exp(step / k))."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    k: Annotated[float, AtLeast(1)]
    """How slowly it falls: to one half at about k * log(k) steps."""

    def held(self, step: int) -> float:
        """The probability of each token to be the right one."""
        # The same as above, without a number that is too large for a float.
        return 1 / (1 + math.exp(min(step / self.k - math.log(self.k), 700.0)))
