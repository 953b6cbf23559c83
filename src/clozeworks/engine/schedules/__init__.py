"""How the learning rate changes over a run: one file per published schedule.

| schedule | after warm-up the rate | file |
|---|---|---|
| `Linear` | falls on a straight line | `linear.py` |
| `Cosine` | falls on half a cosine | `cosine.py` |
| `InverseSquareRoot` | falls as 1 / sqrt(step), at once or later | `inverse_square_root.py` |
| `Constant` | stays | `constant.py` |

A schedule is a function of the step's number, so there is nothing to save and nothing to replay.
Steps are numbered from 0. During a warm-up of w steps, step s has s / w of the peak learning rate,
so the first update of a run with warm-up has rate 0: it changes no weight, but fills the
optimizer's means. That is how BERT was trained.

A new file here is available to every recipe, as `training.schedule.kind`.
"""

from typing import Annotated, ClassVar

from clozeworks.errors import SettingError
from clozeworks.spec import AtLeast, Below, NonNegativeInt, Slot, spec


@spec
class ScheduleSpec(Slot):
    """Slot: how the learning rate changes over a run."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.engine.schedules"

    warmup_steps: NonNegativeInt | None = None
    """Steps in which the learning rate rises from 0 to its peak; 0 means no warm-up."""
    warmup_fraction: Annotated[float, AtLeast(0), Below(1)] | None = None
    """The same as a fraction of all steps. If neither is given, pre-training has no warm-up and
    fine-tuning has one of 0.1."""

    def __post_init__(self) -> None:
        steps, fraction = self.warmup_steps, self.warmup_fraction
        if steps is not None and fraction is not None:
            rule = f"`warmup_fraction`, {fraction}, says the same thing twice"
            raise SettingError("warmup_steps", steps, rule, "leave one of them out")

    def check(self, steps: int) -> None:
        """Checks the schedule against the length of a run.

        Raises:
            SettingError: If warm-up is longer than the run.
        """
        if self.warmup(steps) > steps:
            rule = f"it must be at most {steps:,}, the steps of the run"
            advice = "make it shorter or the run longer"
            raise SettingError("schedule.warmup_steps", self.warmup(steps), rule, advice)

    def warmup(self, steps: int) -> int:
        """The steps of warm-up in a run of so many steps."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return min(steps - 1, round((self.warmup_fraction or 0.0) * steps))

    def factor(self, step: int, steps: int) -> float:
        """What the peak learning rate is multiplied by, 0 to 1: a pure function.

        Args:
            step: The number of the update, from 0; after the end of the run the end's value stays.
            steps: How many updates the run has.
        """
        assert step >= 0 and steps > 0, "steps are numbered from 0"
        warmup = self.warmup(steps)
        if step < warmup:
            return step / warmup
        return self.after_warmup(min(step, steps), warmup, steps)

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        """The factor once warm-up is over."""
        raise NotImplementedError
