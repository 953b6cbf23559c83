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
class TeacherForcingSpec(Slot):
    """Slot: the share of right tokens that are told, by step."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives"

    hold: NonNegativeInt = 0
    """Steps that come first and tell everything; the formula counts from there."""

    def share(self, step: int) -> float:
        """The chance of each token to be told, 0 to 1: a pure function of the step, from 0."""
        return 1.0 if step < self.hold else self.held(step - self.hold)

    def held(self, step: int) -> float:
        """The same, where step 0 is the first that may tell less than everything."""
        raise NotImplementedError


@spec
class FallingShare(TeacherForcingSpec):
    """max(least, begin - fall * step)."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    fall: NonNegativeFloat
    """What is taken away at each step."""
    begin: Probability = 1.0
    """The share at step 0, the first after `hold`."""
    least: Probability = 0.0
    """Where it stays in the end."""

    def held(self, step: int) -> float:
        """The chance of each token to be told."""
        return max(self.least, self.begin - self.fall * step)


@spec
class ExponentialShare(TeacherForcingSpec):
    """base ** step."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    base: Annotated[float, Above(0), Below(1)]
    """Below 1, and very near to it for long runs: 0.9999 leaves a third after 11,000 steps."""

    def held(self, step: int) -> float:
        """The chance of each token to be told."""
        return self.base**step


@spec
class InverseSigmoidShare(TeacherForcingSpec):
    """k / (k + exp(step / k))."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    k: Annotated[float, AtLeast(1)]
    """How long most is told: half of it is left at about k * log(k) steps."""

    def held(self, step: int) -> float:
        """The chance of each token to be told."""
        # The same as above, without a number that is too large for a float.
        return 1 / (1 + math.exp(min(step / self.k - math.log(self.k), 700.0)))
