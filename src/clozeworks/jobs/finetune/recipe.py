"""A recipe of fine-tuning: a checkpoint, labelled files, and how the one learns from the other.

Everything has a default that suits the task and the size of the model; what was chosen is said and
written down with the run.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from clozeworks import config
from clozeworks.checkpoints.tasks import OldHead
from clozeworks.compress.lora import Lora
from clozeworks.data.augment import AugmentSpec
from clozeworks.data.labelled.mixing import Mixture
from clozeworks.data.labelled.reading import Reading
from clozeworks.engine.gradients import Precision
from clozeworks.engine.param_groups import Rates
from clozeworks.engine.settings import Checkpointing, at_least
from clozeworks.errors import SettingError, UnknownName
from clozeworks.jobs.pretrain.recipe import changed
from clozeworks.objectives.adversarial import Move
from clozeworks.objectives.scheduled_sampling import Sampling
from clozeworks.spec import spec

TASKS = ("answer", "classify", "compare", "tag", "text_to_text")
# Below so many items a set is small, and is gone through more often.
_FEW = 5_000
# Parameters of a model, and the rate that suits a model of at least that many.
# Thin matrices that begin at nothing need larger steps: the published rates of low-rank adaptation
# are about ten times those of whole models.
_LORA_TIMES = 10
# T5 and its relatives begin with larger weights than others, and are trained with larger steps.
_TOWERS_TIMES = 5
_RATES = ((200_000_000, 2e-5), (60_000_000, 3e-5), (15_000_000, 5e-5), (0, 2e-4))


@spec
class LabelledData:
    """Where labelled examples are, and how they are read."""

    train: tuple[str, ...]
    """Files to learn from: csv, tsv, jsonl, parquet, CoNLL columns, CoNLL-U, SQuAD json."""
    dev: tuple[str, ...] = ()
    """Files to be judged by; a part of the training files if none is given."""
    dev_share: float = 0.1
    """How much of the training files is taken to judge by, where no other file is."""
    columns: dict[str, str] = dataclasses.field(default_factory=dict)
    """Which column is what, such as {text = "review", label = "stars"}; found if not given."""
    header: bool | None = None
    """Whether the first row of csv or tsv is a header; found out if not given."""
    labels: str | None = None
    """one, several or numbers; found out if not given."""
    separator: str | None = None
    """What stands between several labels of one cell."""
    encoding: str = "utf-8"
    skip_bad_rows: bool = False
    """Whether rows that cannot be used are dropped and counted rather than refused."""
    mixture: Mixture | None = None
    """How several tasks are mixed, for text_to_text: each file is a task, or a column says it."""

    def __post_init__(self) -> None:
        if not self.train:
            raise SettingError("data.train is empty; name at least one labelled file.")
        if not 0 < self.dev_share < 1:
            raise SettingError(f"data.dev_share is {self.dev_share}; it must be between 0 and 1.")
        if self.labels not in (None, "one", "several", "numbers"):
            raise UnknownName("data.labels", str(self.labels), ("one", "several", "numbers"))

    def reading(self) -> Reading:
        """How the files are read."""
        return Reading(
            columns=self.columns,
            header=self.header,
            labels=self.labels,  # type: ignore[arg-type]
            separator=self.separator,
            encoding=self.encoding,
        )


@spec
class Update:
    """How gradients become a step."""

    optimizer: Literal["adam_w", "adafactor"] = "adam_w"
    """adam_w, or adafactor, which T5 was taught with: each step is a share of the weights it
    changes, so the same rate does for large and small ones."""
    schedule: Literal["linear", "constant"] = "linear"
    """What the rate does once it has risen: linear falls to 0, constant stays."""
    warmup: float = 0.1
    """The share of the steps over which the rate rises."""
    decay: float | None = None
    """Weight decay of adam_w; 0.01 if not given."""
    precision: Precision = "float32"
    """bfloat16 computes in half precision (autocast), for accelerators."""

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1:
            raise SettingError(
                f"training.update.warmup is {self.warmup}; it must be from 0 to below 1."
            )
        if self.optimizer == "adafactor" and self.decay is not None:
            raise SettingError(
                f"training.update.decay is {self.decay} and training.update.optimizer is "
                "adafactor, which decays nothing; leave one of them out."
            )


@spec
class FinetuneTraining:
    """How a model learns a task."""

    epochs: float | None = None
    """How often every item is seen; 3 if not given, 2 for answers, more for small sets."""
    items: int = 32
    """Items of a step."""
    rate: float | None = None
    """The highest learning rate; by the size of the model if not given, and ten times that with
    lora; with adafactor 0.001."""
    update: Update = Update()
    """How the rate rises, weight decay, and precision."""
    rates: Rates = Rates()
    """What is frozen, and how the rate falls from layer to layer."""
    augment: AugmentSpec | None = None
    """How texts are changed, anew in every epoch."""
    lora: Lora | None = None
    """Low-rank differences are learned instead of the weights of the encoder."""
    adversarial: Move | None = None
    """Answers are asked to stay the same when vectors move a little (SiFT)."""
    sampling: Sampling | None = None
    """Some tokens before those of a target are what the model would have said (scheduled sampling),
    for text_to_text."""

    def __post_init__(self) -> None:
        at_least("training.items", self.items, 1)
        if self.epochs is not None and not self.epochs > 0:
            raise SettingError(f"training.epochs is {self.epochs}; it must be above 0.")
        if self.rate is not None and not self.rate > 0:
            raise SettingError(f"training.rate is {self.rate}; it must be above 0.")
        if self.lora is not None and self.update.optimizer == "adafactor":
            raise SettingError(
                "training.lora is set and training.update.optimizer is adafactor; what lora adds "
                "begins at 0, and a share of nothing is no step; leave one of them out."
            )
        if self.lora is not None and self.rates.heads_only:
            raise SettingError(
                "training.rates.heads_only is true and training.lora is set; then nothing it adds "
                "ever changes; leave one of them out."
            )


@spec
class Selection:
    """How the best weights are chosen."""

    evaluations: int = 2
    """How often an epoch the model is judged on the dev set."""
    patience: int | None = None
    """Evaluations without a better value after which a seed ends."""
    every: int | None = None
    """Steps between two evaluations, instead of a number of them per epoch."""

    def __post_init__(self) -> None:
        at_least("choosing.evaluations", self.evaluations, 1)
        if self.patience is not None:
            at_least("choosing.patience", self.patience, 1)
        if self.every is not None:
            at_least("choosing.every", self.every, 1)


@spec
class FinetuneRecipe:
    """A run of fine-tuning."""

    run: str
    """The folder of the run: a folder for each seed, the report, and the model at the end."""
    model: str
    """A model folder or hub name."""
    task: dict[str, Any]
    """kind (classify, compare, tag, answer or text_to_text) and its settings; labels come from the
    data."""
    data: LabelledData
    head: OldHead = "fit"
    """What becomes of a head the model has for such a task. fit: it is kept if it has the same
    labels. remap: labels it knows keep what was learned. fresh: it begins anew. refuse: it must
    have the same labels."""
    training: FinetuneTraining = FinetuneTraining()
    choosing: Selection = Selection()
    snapshots: Checkpointing = Checkpointing()
    seeds: tuple[int, ...] = (0,)
    """One model is trained for each; the best on the dev set is kept."""

    def __post_init__(self) -> None:
        if not self.run:
            raise SettingError("run is ''; it must name the folder of the run.")
        kind = self.task.get("kind")
        if kind not in TASKS:
            raise UnknownName("task.kind", str(kind), TASKS)
        if "labels" in self.task:
            raise SettingError(
                f"task.labels is {self.task['labels']}; labels come from the data; leave it out."
            )
        if self.data.mixture is not None and kind != "text_to_text":
            raise SettingError(
                f"data.mixture is set, and task.kind is {kind!r}; only text_to_text mixes tasks; "
                "leave it out."
            )
        if self.training.sampling is not None and kind != "text_to_text":
            raise SettingError(
                f"training.sampling is set, and task.kind is {kind!r}; only the answers of "
                "text_to_text are texts; leave it out."
            )
        if self.training.augment is not None and kind == "text_to_text":
            raise SettingError(
                "training.augment is set, and task.kind is 'text_to_text'; a changed source may "
                "want another target; leave it out."
            )
        if "problem" in self.task:
            raise SettingError(
                f"task.problem is {self.task['problem']!r}; it follows from the labels; leave it "
                "out, and say what they are with data.labels: one, several or numbers."
            )
        if not self.seeds:
            raise SettingError("seeds is empty; name at least one, such as 0.")
        for seed in self.seeds:
            if not 0 <= seed < 2**63 or self.seeds.count(seed) > 1:
                raise SettingError(
                    f"seeds holds {seed}; each must be at least 0, below 2**63, and stand once."
                )


def read_finetune_recipe(
    source: Path | str | dict[str, Any], changes: Sequence[str] = ()
) -> FinetuneRecipe:
    """A recipe from a file or from plain data, with some settings changed.

    Args:
        source: A TOML file, or what it would hold.
        changes: Settings as a command line has them: `training.epochs=5`.

    Raises:
        SettingError: A setting has a value it may not have.
        UnknownName: There is no such setting; the nearest is shown.
    """
    recipe: FinetuneRecipe = config.read(FinetuneRecipe, changed(source, changes))
    return recipe


def usual_rate(
    parameters: int, lora: Lora | None = None, *, encoder_decoder: bool = False
) -> float:
    """The rate that suits a model of so many parameters, or low-rank differences of it."""
    rate = next(rate for least, rate in _RATES if parameters >= least)
    rate *= _TOWERS_TIMES if encoder_decoder else 1
    return rate if lora is None else _LORA_TIMES * rate


def usual_epochs(kind: str, items: int) -> float:
    """How often a set of so many items is gone through."""
    usual = 2.0 if kind == "answer" else 3.0
    return usual if items >= _FEW else 2 * usual
