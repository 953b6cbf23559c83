"""A recipe of fine-tuning: a checkpoint, labelled files, and how the one learns from the other.

Everything has a default that suits the task and the size of the model; what was chosen is said and
written down with the run.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clozeworks import config, registry
from clozeworks.checkpoints.tasks import OldHead
from clozeworks.compress.lora import Lora
from clozeworks.data.augment import AugmentSpec
from clozeworks.data.labelled.mixing import Mixture
from clozeworks.data.labelled.reading import Reading
from clozeworks.engine.settings import (
    Checkpointing,
    Evaluation,
    Logging,
    Training,
    at_least,
)
from clozeworks.errors import SettingError, UnknownName
from clozeworks.jobs.pretrain.recipe import changed
from clozeworks.objectives.adversarial import Move
from clozeworks.objectives.scheduled_sampling import Sampling
from clozeworks.spec import spec
from clozeworks.tasks.task import task_classes


@spec
class LabelledData:
    """Where labelled examples are, and how they are read."""

    train: tuple[str, ...]
    """Files to learn from: csv, tsv, jsonl, parquet, CoNLL columns, CoNLL-U, SQuAD json."""
    dev: tuple[str, ...] = ()
    """Files to be judged by; a part of the training files if none is given."""
    dev_fraction: float = 0.1
    """How much of the training files is held out to measure on, where no other file is given."""
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
        if not 0 < self.dev_fraction < 1:
            raise SettingError(
                f"data.dev_fraction is {self.dev_fraction}; it must be between 0 and 1."
            )
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
            by_file=self.mixture is not None,
        )


@spec
class Selection:
    """How the best weights are chosen."""

    patience: int | None = None
    """Evaluations without a better value after which a seed ends."""

    def __post_init__(self) -> None:
        at_least("selection.patience", self.patience, 1)


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
    training: Training = Training()
    lora: Lora | None = None
    """Low-rank differences are learned instead of the weights of the encoder."""
    augment: AugmentSpec | None = None
    """How texts are changed, anew in every epoch."""
    adversarial: Move | None = None
    """Answers are asked to stay the same when vectors move a little (SiFT)."""
    scheduled_sampling: Sampling | None = None
    """Some tokens before those of a target are what the model would have said, for text_to_text."""
    logging: Logging = Logging()
    evaluation: Evaluation = Evaluation()
    selection: Selection = Selection()
    checkpointing: Checkpointing = Checkpointing()
    seeds: tuple[int, ...] = (0,)
    """One model is trained for each; the best on the dev set is kept."""

    def __post_init__(self) -> None:
        if not self.run:
            raise SettingError("run is ''; it must name the folder of the run.")
        kind = self.task.get("kind")
        if kind not in task_classes():
            raise UnknownName("task.kind", str(kind), task_classes())
        task = task_classes()[str(kind)]
        if "labels" in self.task:
            raise SettingError(
                f"task.labels is {self.task['labels']}; labels come from the data; leave it out."
            )
        if self.data.mixture is not None and not task.writes:
            raise SettingError(
                f"data.mixture is set, and task.kind is {kind!r}; only text_to_text mixes tasks; "
                "leave it out."
            )
        if self.scheduled_sampling is not None and not task.writes:
            raise SettingError(
                f"scheduled_sampling is set, and task.kind is {kind!r}; only the answers of "
                "text_to_text are texts; leave it out."
            )
        if self.augment is not None and not task.can_augment:
            raise SettingError(
                f"augment is set, and task.kind is {kind!r}; a changed source may "
                "want another target; leave it out."
            )
        if "problem" in self.task:
            raise SettingError(
                f"task.problem is {self.task['problem']!r}; it follows from the labels; leave it "
                "out, and say what they are with data.labels: one, several or numbers."
            )
        if self.lora is not None and self.training.optimizer.relative_steps:
            optimizer = registry.kind(type(self.training.optimizer))
            raise SettingError(
                f"lora is set and training.optimizer.kind is {optimizer!r}; what lora adds begins "
                "at 0, and a fraction of nothing is no step; leave one of them out."
            )
        if self.lora is not None and self.training.freezing.heads_only:
            raise SettingError(
                "training.freezing.heads_only is true and lora is set; then nothing it adds ever "
                "changes; leave one of them out."
            )
        if self.evaluation.tokens is not None:
            raise SettingError(
                f"evaluation.tokens is {self.evaluation.tokens:,}; fine-tuning measures the whole "
                "dev set; leave it out, or use a smaller one (data.dev)."
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
        SettingError: If a setting has a value it may not have.
        UnknownName: If there is no such setting; the nearest is shown.
    """
    recipe: FinetuneRecipe = config.read(FinetuneRecipe, changed(source, changes))
    return recipe
