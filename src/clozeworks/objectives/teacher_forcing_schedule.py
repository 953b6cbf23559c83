"""How much of the right answer a model is told while it learns to write, less with every step.

Paper: Bengio et al. 2015 (scheduled sampling), the three schedules of its section 2.4.
The idea: begin with the right answer before each token, as in teacher forcing; end with the model's
own, as where it writes. A model that has learned nothing says nothing worth reading, so any of them
can begin with `hold` steps that tell everything.
Used by: `ScheduledSampling`.
"""

import math
from typing import ClassVar

from clozeworks.errors import SettingError
from clozeworks.spec import Slot, spec


@spec
class TeacherForcingSpec(Slot):
    """Slot: the share of right tokens that are told, by step."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives"

    hold: int = 0
    """Steps that come first and tell everything; the formula counts from there."""

    def __post_init__(self) -> None:
        if not self.hold >= 0:
            raise SettingError(f"told.hold is {self.hold}; it must be at least 0.")

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

    fall: float
    """What is taken away at each step."""
    begin: float = 1.0
    """The share at step 0, the first after `hold`."""
    least: float = 0.0
    """Where it stays in the end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("begin", "least"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(
                    f"told.{name} is {getattr(self, name)}; it must be at least 0 and at most 1."
                )
        if not self.fall >= 0:
            raise SettingError(f"told.fall is {self.fall}; it must be at least 0.")

    def held(self, step: int) -> float:
        """The chance of each token to be told."""
        return max(self.least, self.begin - self.fall * step)


@spec
class ExponentialShare(TeacherForcingSpec):
    """base ** step."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    base: float
    """Below 1, and very near to it for long runs: 0.9999 leaves a third after 11,000 steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.base < 1:
            raise SettingError(f"told.base is {self.base}; it must be above 0 and below 1.")

    def held(self, step: int) -> float:
        """The chance of each token to be told."""
        return self.base**step


@spec
class InverseSigmoidShare(TeacherForcingSpec):
    """k / (k + exp(step / k))."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    k: float
    """How long most is told: half of it is left at about k * log(k) steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.k >= 1:
            raise SettingError(f"told.k is {self.k}; it must be at least 1.")

    def held(self, step: int) -> float:
        """The chance of each token to be told."""
        # The same as above, without a number that is too large for a float.
        return 1 / (1 + math.exp(min(step / self.k - math.log(self.k), 700.0)))
