"""What can be set for a run, beside the model, its data and its objective."""

from typing import Literal

from clozeworks.engine.gradients import Precision
from clozeworks.engine.optimizers import OptimizerSpec
from clozeworks.engine.optimizers.adam_w import AdamW
from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.engine.schedules.linear import Linear
from clozeworks.errors import SettingError
from clozeworks.spec import spec


@spec
class Training:
    """How a model is trained."""

    steps: int
    """Updates of the weights."""
    tokens: int = 4096
    """Tokens of a step, over all pieces and ranks: the batch size. 256 texts of 512 are 131072."""
    piece: int = 2048
    """The most tokens that go through the model at once on each core or accelerator. A step is cut
    into as many pieces as it takes; fewer tokens need less memory and change nothing else."""
    optimizer: OptimizerSpec = AdamW(rate=1e-4)
    schedule: ScheduleSpec = Linear(warmup=0)
    clip: float | None = 1.0
    """Gradients are scaled down to at most this norm; "none" for no limit."""
    precision: Precision = "float32"
    """bfloat16 computes in half precision (autocast), for accelerators."""
    compile: bool = False
    """Whether torch.compile makes kernels for the model first, for accelerators."""

    def __post_init__(self) -> None:
        for name in ("steps", "tokens", "piece"):
            at_least(f"training.{name}", getattr(self, name), 1)
        if self.clip is not None and not self.clip > 0:
            raise SettingError(
                f"training.clip is {self.clip}; it must be above 0, or 'none' for no limit."
            )
        self.schedule.check(self.steps)


@spec
class Logging:
    """What is measured on the way."""

    every: int = 10
    """Steps between two lines of metrics.jsonl."""
    evaluate: int = 500
    """Steps between two evaluations on held-out text; 0 for one at the end only."""
    tokens: int = 65536
    """Tokens of held-out text for each evaluation: always the same ones, hidden alike."""
    tensorboard: bool = False
    """Whether the numbers are written for TensorBoard, too."""

    def __post_init__(self) -> None:
        at_least("watching.every", self.every, 1)
        at_least("watching.evaluate", self.evaluate, 0)
        at_least("watching.tokens", self.tokens, 1)


@spec
class Checkpointing:
    """When snapshots are written, and how many are kept."""

    minutes: float = 10.0
    """Minutes between two snapshots."""
    every: int | None = None
    """Steps between two snapshots, whatever the time."""
    keep: int = 2
    """How many are kept."""
    when_unwritable: Literal["go on", "stop"] = "go on"
    """What to do when a snapshot cannot be written, for example because the disk is full. The one
    before it stays in any case."""

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise SettingError(f"snapshots.minutes is {self.minutes}; it must be above 0.")
        if self.every is not None:
            at_least("snapshots.every", self.every, 1)
        at_least("snapshots.keep", self.keep, 1)


def at_least(where: str, value: int, least: int) -> None:
    """Complains about a number that is too small.

    Raises:
        SettingError: It is.
    """
    if value < least:
        raise SettingError(f"{where} is {value}; it must be at least {least}.")
