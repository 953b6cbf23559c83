"""The settings of training that every recipe shares, whatever the model, its data and its task.

What is `None` is settled by the job, which knows the model and the amount of data; the settled
values are stated and saved with the run.
"""

from dataclasses import replace
from typing import Annotated, Literal

import torch

from clozeworks.engine.gradients import Precision
from clozeworks.engine.optimizers import OptimizerSpec
from clozeworks.engine.optimizers.adam_w import AdamW
from clozeworks.engine.param_groups import Freezing
from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.engine.schedules.linear import Linear
from clozeworks.errors import SettingError, Stated, shown
from clozeworks.spec import Above, Advice, AtMost, NonNegativeInt, PositiveFloat, PositiveInt, spec

WhenUnwritable = Literal["go on", "stop"]
TrackerName = Literal["tensorboard", "wandb", "trackio", "mlflow"]


@spec
class Training:
    """How a model is trained."""

    steps: PositiveInt | None = None
    """Updates of the weights."""
    epochs: PositiveFloat | None = None
    """How often every item is seen, instead of a number of steps, for fine-tuning; if neither is
    given, 3 (2 for answers), and twice as often if there are few items."""
    batch_tokens: PositiveInt | None = None
    """Tokens of a step, over all micro-batches and processes; 256 texts of 512 are 131072. If
    neither this nor batch_size is given, 4096 for pre-training."""
    batch_size: PositiveInt | None = None
    """Examples of a step, instead of tokens. If neither is given, 32 for fine-tuning."""
    micro_batch_tokens: PositiveInt = 2048
    """The most tokens that go through the model at once on each core or accelerator. A step is cut
    into as many micro-batches as it takes; fewer tokens need less memory and change nothing
    else."""
    learning_rate: PositiveFloat | None = None
    """The peak learning rate, which the schedule multiplies by 0 to 1. If not given, 1e-4 for
    pre-training; for fine-tuning by the size of the model, and ten times that with lora. With an
    optimizer whose steps are relative to the weights, such as adafactor, 0.01 and 0.001."""
    optimizer: OptimizerSpec = AdamW()
    schedule: ScheduleSpec = Linear()
    max_grad_norm: Annotated[float, Above(0), Advice("write 'none' for no limit")] | None = 1.0
    """Gradients are scaled down to at most this norm; "none" for no limit."""
    layer_decay: Annotated[float, Above(0), AtMost(1)] = 1.0
    """The learning rate of a layer is this times that of the layer above it."""
    freezing: Freezing = Freezing()
    precision: Precision = "float32"
    """bfloat16 computes in half precision (autocast), for accelerators."""
    compile: bool = False
    """Whether torch.compile makes kernels for the model first, for accelerators."""

    def __post_init__(self) -> None:
        for one, other in (("steps", "epochs"), ("batch_tokens", "batch_size")):
            one_of(one, getattr(self, one), other, getattr(self, other))
        if self.steps is not None:
            self.schedule.check(self.steps)

    def check_device(self, device: torch.device) -> None:
        """Checks what depends on where the run computes.

        Raises:
            SettingError: If the model is to be compiled for a CPU.
        """
        if self.compile and device.type == "cpu":
            rule = "on a CPU the micro-batches of a step run in parallel, which gains more"
            raise SettingError("training.compile", Stated("true"), rule, "leave it out")


@spec
class Logging:
    """What is written down on the way."""

    every_steps: PositiveInt | None = None
    """Steps between two lines of metrics.jsonl; if not given, 10 for pre-training, a twentieth of
    an epoch for fine-tuning."""
    report: bool = True
    """Whether report.html and curves are drawn when a session ends."""
    trackers: tuple[TrackerName, ...] = ()
    """Experiment trackers that get the settings and the numbers of the run: tensorboard, wandb,
    trackio, mlflow."""
    project: str = ""
    """What trackers file the run under: a project, or an experiment of MLflow; their own default if
    empty."""


@spec
class Evaluation:
    """When the model is measured on held-out data."""

    every_steps: NonNegativeInt | None = None
    """Steps between two evaluations; 0 for a single one at the end. If neither this nor per_epoch
    is given, 500 for pre-training."""
    per_epoch: PositiveInt | None = None
    """Evaluations of an epoch, instead of a number of steps. If neither is given, 2 for
    fine-tuning."""
    tokens: PositiveInt | None = None
    """Tokens of held-out text for each evaluation, always the same ones, hidden alike; if not
    given, 65536 for pre-training. Fine-tuning measures the whole dev set."""

    def __post_init__(self) -> None:
        one_of("every_steps", self.every_steps, "per_epoch", self.per_epoch)

    def settled(self, epoch_steps: float) -> "Evaluation":
        """The same in steps, for an epoch of so many."""
        if self.per_epoch is None:
            return self
        every = max(1, round(epoch_steps / self.per_epoch))
        return replace(self, every_steps=every, per_epoch=None)


@spec
class Checkpointing:
    """When snapshots are written, and how many are kept."""

    every_minutes: PositiveFloat = 10.0
    """Minutes between two snapshots."""
    every_steps: PositiveInt | None = None
    """Steps between two snapshots, whatever the time."""
    keep: PositiveInt = 2
    """How many are kept."""
    when_unwritable: WhenUnwritable = "go on"
    """What to do when a snapshot cannot be written, for example because the disk is full. The one
    before it stays in any case."""


def one_of(one: str, first: float | None, other: str, second: float | None) -> None:
    """Refuses two settings of which each decides the other.

    Raises:
        SettingError: If both are set.
    """
    if first is not None and second is not None:
        rule = f"`{other}` is {shown(second)}, and each decides the other"
        raise SettingError(one, first, rule, "leave one of them out")
