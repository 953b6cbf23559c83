"""A recipe of fine-tuning: a checkpoint, labelled files, and how the one learns from the other.

Everything has a default that suits the task and the size of the model; what was chosen is said and
written down with the run.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from clozeworks import config, registry
from clozeworks.checkpoints.tasks import OldHead
from clozeworks.compress.lora import Lora
from clozeworks.data.augment import AugmentSpec
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.labelled.mixing import Mixture
from clozeworks.data.labelled.reading import Reading
from clozeworks.engine.settings import Checkpointing, Evaluation, Logging, Training
from clozeworks.errors import MISSING, SET, SettingError, Stated, UnknownName
from clozeworks.jobs.pretrain.recipe import changed
from clozeworks.objectives.adversarial import Move
from clozeworks.objectives.scheduled_sampling import Sampling
from clozeworks.spec import NOT_EMPTY, Above, Below, Bound, PositiveInt, RandomSeed, spec
from clozeworks.tasks.task import task_classes

# Fields of tasks that follow from the data, and are no settings.
FROM_DATA = ("labels", "problem", "standardization")


@spec
class LabelledData(FileFormat):
    """Where labelled examples are, and how they are read."""

    train: Annotated[tuple[str, ...], Bound("one labelled file or more", bool)]
    """Files to learn from: csv, tsv, jsonl, parquet, CoNLL columns, CoNLL-U, SQuAD json."""
    dev: tuple[str, ...] = ()
    """Files to be judged by; a part of the training files if none is given."""
    dev_fraction: Annotated[float, Above(0), Below(1)] = 0.1
    """How much of the training files is held out to measure on, where no other file is given."""
    columns: dict[str, str] = dataclasses.field(default_factory=dict)
    """Which column is what, such as {text = "review", label = "stars"}; found if not given."""
    dev_columns: dict[str, str] | None = None
    """The same of the files to be judged by; as in `columns` if not given."""
    header: bool | None = None
    """Whether the first row of csv or tsv is a header; found out if not given."""
    labels: Literal["one", "several", "numbers"] | None = None
    """one, several or numbers; found out if not given."""
    label_separator: str | None = None
    """What stands between several labels of one cell."""
    skip_bad_rows: bool = False
    """Whether rows that cannot be used are dropped and counted rather than refused."""
    mixture: Mixture | None = None
    """How several tasks are mixed, for text_to_text: each file is a task, or a column says it."""

    def reading(self) -> Reading:
        """How the files are read."""
        names = {field.name for field in dataclasses.fields(Reading)} & {*vars(self)}
        given = {name: getattr(self, name) for name in names}
        return Reading(**given, by_file=self.mixture is not None)

    def reading_dev(self) -> Reading:
        """How the files to be judged by are read."""
        reading = self.reading()
        if self.dev_columns is None:
            return reading
        return dataclasses.replace(reading, columns=self.dev_columns)


@spec
class Selection:
    """How the best weights are chosen."""

    patience: PositiveInt | None = None
    """Evaluations without a better value after which a seed ends."""


@spec
class FinetuneRecipe:
    """A run of fine-tuning."""

    run: Annotated[str, NOT_EMPTY]
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
    seeds: Annotated[tuple[RandomSeed, ...], Bound("one seed or more", bool)] = (0,)
    """One model is trained for each; the best on the dev set is kept."""
    device: Annotated[str, NOT_EMPTY] = "auto"
    """Where to compute: cpu, cuda, cuda:1, mps, or auto for the best one that is available."""

    def __post_init__(self) -> None:
        kind, leave_out = self.task.get("kind", MISSING), "leave it out"
        if not isinstance(kind, str) or isinstance(kind, Stated):
            raise SettingError("task.kind", kind, f"it must be one of: {', '.join(task_classes())}")
        if kind not in task_classes():
            raise UnknownName("task.kind", kind, task_classes())
        task = task_classes()[kind]
        if "labels" in self.task:
            rule = "labels come from the data"
            raise SettingError("task.labels", self.task["labels"], rule, leave_out)
        if "problem" in self.task:
            advice = "leave it out, and say what they are with `data.labels`"
            raise SettingError(
                "task.problem", self.task["problem"], "it follows from the labels", advice
            )
        if "standardization" in self.task:
            rule, advice = "it follows from the data", f"{leave_out}, or set task.standardize"
            raise SettingError("task.standardization", SET, rule, advice)
        settings = {
            key: value
            for key, value in self.task.items()
            if key != "kind"
            and not (
                key in task.kinds_from_rows and isinstance(value, dict) and "kind" not in value
            )
        }
        config.read_fields(task, settings, "task")
        only = "only text_to_text mixes tasks", "only the answers of text_to_text are texts"
        for name, value, fits, why in (
            ("data.mixture", self.data.mixture, task.writes, only[0]),
            ("scheduled_sampling", self.scheduled_sampling, task.writes, only[1]),
            ("augment", self.augment, task.can_augment, "a changed source may want another target"),
        ):
            if value is not None and not fits:
                raise SettingError(name, SET, f"`task.kind` is {kind!r}: {why}", leave_out)
        if self.lora is not None and self.training.optimizer.relative_steps:
            optimizer = registry.kind(type(self.training.optimizer))
            rule = f"`training.optimizer.kind` is {optimizer!r}: what lora adds begins at 0, and a "
            rule += "fraction of nothing is no step"
            raise SettingError("lora", SET, rule, "leave one of them out")
        if self.lora is not None and self.training.freezing.heads_only:
            rule = "`training.freezing.heads_only` is true: nothing that lora adds ever changes"
            raise SettingError("lora", SET, rule, "leave one of them out")
        if (tokens := self.evaluation.tokens) is not None:
            rule, advice = (
                "fine-tuning measures the whole dev set",
                "use a smaller one (`data.dev`)",
            )
            raise SettingError("evaluation.tokens", tokens, rule, f"leave it out, or {advice}")
        if len(set(self.seeds)) < len(self.seeds):
            raise SettingError("seeds", self.seeds, "each must be there once")


def read_finetune_recipe(
    source: Path | str | dict[str, Any], changes: Sequence[str] = ()
) -> FinetuneRecipe:
    """A recipe from a file or from plain data, with some settings changed.

    Raises:
        SettingError: If a setting has a value it may not have.
        UnknownName: If there is no such setting; the nearest is shown.
    """
    recipe: FinetuneRecipe = config.read(FinetuneRecipe, changed(source, changes))
    return recipe
