"""How the learning rate changes over a run: one file per published schedule.

| schedule | after warm-up the rate | file |
|---|---|---|
| `Linear` | falls on a straight line | `linear.py` |
| `Cosine` | falls on half a cosine | `cosine.py` |
| `InverseSquareRoot` | falls as 1 / sqrt(step), at once or later | `inverse_square_root.py` |
| `Constant` | stays | `constant.py` |

A schedule is a function of the step's number, so there is nothing to save and nothing to replay.
Steps are numbered from 0. During warm-up step s has the share s / warmup of the highest rate, so
the first update of a run with warm-up has rate 0: it changes no weight, but fills the optimiser's
means. That is how BERT was trained.
"""

from typing import ClassVar

from clozeworks.errors import SettingError
from clozeworks.spec import Slot, spec


@spec
class ScheduleSpec(Slot):
    """Slot: how the learning rate changes over a run."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.engine.schedules"

    warmup: int
    """Steps in which the rate rises from 0 to its highest value; 0 means none."""

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise SettingError(f"schedule.warmup is {self.warmup}; it must be at least 0.")

    def check(self, steps: int) -> None:
        """Complains if warm-up is longer than the run.

        Raises:
            SettingError: It is.
        """
        if self.warmup > steps:
            raise SettingError(
                f"schedule.warmup is {self.warmup:,}; it must be at most {steps:,}, the steps of "
                "the run; make it shorter or the run longer."
            )

    def factor(self, step: int, steps: int) -> float:
        """What the highest rate is multiplied by, 0 to 1: a pure function.

        Args:
            step: The number of the update, from 0; behind the end of the run the end's value stays.
            steps: How many updates the run has.
        """
        assert step >= 0 and steps > 0, "steps are numbered from 0"
        if step < self.warmup:
            return step / self.warmup
        return self.after_warmup(min(step, steps), steps)

    def after_warmup(self, step: int, steps: int) -> float:
        """The factor from step `warmup` on.

        Args:
            step: `warmup` to `steps`.
            steps: How many updates the run has.
        """
        raise NotImplementedError


def check_end(end: float) -> None:
    """Complains about a last factor that is none.

    Raises:
        SettingError: It is not within 0 and 1.
    """
    if not 0 <= end <= 1:
        raise SettingError(f"schedule.end is {end}; it must be at least 0 and at most 1.")
