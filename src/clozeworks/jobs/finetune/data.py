"""From labelled files to a task: its labels, its items, and what a person should know of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from torch import Tensor

from clozeworks import registry
from clozeworks.checkpoints.generation import END
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.labels import check_labels
from clozeworks.data.labelled.mixing import Mixed, Mixture
from clozeworks.data.labelled.reading import Labelled
from clozeworks.data.labelled.report import Report, report_on
from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.inference.predict import answers
from clozeworks.jobs.finetune.adapting import check_loss
from clozeworks.jobs.finetune.objects import RunObjects
from clozeworks.jobs.finetune.recipe import FinetuneRecipe, LabelledData
from clozeworks.language_model import LanguageModel
from clozeworks.tasks.metrics.custom import with_metric
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.windows import by_item
from clozeworks.tasks.task import Change, Prepared, Task, TaskData, task_class
from clozeworks.tasks.text_to_text.items import are_chats
from clozeworks.wording import counted

# Items that are looked at to foresee what reading all of them costs.
_LOOKED_AT = 1_000
# The seed of the dev split: the same for every seed of a run, so that all are measured alike.
_SPLIT_SEED = 0


@dataclass(frozen=True)
class LabelledTask:
    """What is learned, from what, judged by what."""

    task: Task[Any, Any]
    """The task, its labels known."""
    train: Sequence[Any]
    """Items to learn from."""
    dev: Sequence[Any]
    """Items to be judged by."""
    messages: tuple[str, ...]
    """Sentences about what was found and done."""
    report: Report
    """What there is to know about the data."""
    files: tuple[Labelled, Labelled]
    """The same items as they were read, to learn from and to be judged by."""
    mixture: Mixture | None = None
    """How several tasks are mixed; None if they are not."""
    objects: RunObjects = field(default_factory=RunObjects)
    """What a program handed to the run."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights that were counted in the items, by their name in the network."""
    change: Change | None = None
    """How items differ from epoch to epoch."""
    untrained: LanguageModel | None = None
    """The model as its folder describes it, before anything was learned."""
    decided: tuple[str, ...] = ()
    """Settings that follow from the rows, in sentences."""

    def measure(
        self,
        task: Task[Any, Any],
        items: Sequence[Any],
        predictions: Sequence[Any],
        *,
        intervals: bool = False,
    ) -> Measured:
        """How good predictions of a task are, by the metric of the program if it has one."""
        measured = task.measure(items, predictions, intervals=intervals)
        if self.objects.metric is None:
            return measured
        pairs = [task.compared(*each) for each in zip(items, predictions, strict=True)]
        return with_metric(measured, self.objects.metric, pairs)

    def guessed(self) -> tuple[str, Measured] | None:
        """How the baseline guesses, and what that is worth; None if nothing can be guessed."""
        if (baseline := self.task.baseline(self.train, self.dev)) is None:
            return None
        return baseline[0], self.measure(self.task, self.dev, baseline[1])

    def before(self) -> Measured | None:
        """How good the model was before training, where it needs none; None where it does."""
        if self.untrained is None or (task := self.kind.without_training(self.untrained)) is None:
            return None
        model = self.untrained
        length = model.max_length
        predictions = answers(task, model.model, model.tokenizer, self.dev, max_length=length)
        return self.measure(self.task, self.dev, predictions)

    @property
    def kind(self) -> type[Task[Any, Any]]:
        """What kind of task it is."""
        return type(self.task)

    def mixed(self, seed: int) -> Mixed | None:
        """Which item each example of an epoch is; None if each item is one."""
        if self.mixture is None:
            return None
        return Mixed([item.task for item in self.train], self.mixture, seed)

    @property
    def chats(self) -> bool:
        """Whether all that is learned from are chats."""
        return are_chats(self.train)

    @property
    def shown(self) -> int:
        """How many examples an epoch has."""
        mixed = self.mixed(0)
        return len(self.train) if mixed is None else mixed.size


def labelled_task(
    recipe: FinetuneRecipe, start: LanguageModel, objects: RunObjects | None = None
) -> LabelledTask:
    """Reads the files of a recipe, or what a program has instead, and settles what the task is.

    Raises:
        InputError: If a file or row cannot be used, or there is nothing to learn.
    """
    data, kind, objects = recipe.data, task_class(recipe.task["kind"]), objects or RunObjects()
    bad = BadRows(skip=data.skip_bad_rows)
    reading = data.reading()
    files, dev_files = objects.train or data.train, objects.dev or data.dev
    train = kind.read(files, recipe.task, reading, bad)
    dev = None
    messages = [train.description]
    if data.dev_columns is not None and not dev_files:
        rule = "there are no files to be judged by, whose columns these could be"
        raise SettingError("data.dev_columns", data.dev_columns, rule, "name them, or leave it out")
    if dev_files:
        dev = kind.read(dev_files, recipe.task, data.reading_dev(), bad, train=train)
        other = dev.description != train.description
        messages += [f"To judge by: {dev.description}"] if other else dev.notes
    if unused := objects.unused_splits:
        which = "The split" if len(unused) == 1 else "The splits"
        messages.append(
            f"{which} {', '.join(unused)} of the data {'is' if len(unused) == 1 else 'are'} left "
            f"untouched; to measure there: result.load().evaluate(data[{unused[-1]!r}])."
        )
    if bad.rows:
        dropped = counted(len(bad.rows), "bad row was", "bad rows were")
        messages.append(f"{dropped} dropped; the first: {bad.rows[0]}.")
    if bad.repaired:
        repaired = counted(len(bad.repaired), "answer was", "answers were")
        messages.append(f"{repaired} not where the file says; the first: {bad.repaired[0]}.")
    settings, train, dev, more = kind.clean(recipe.task, train, dev)
    messages += more
    learnable = check_labels(train, dev)
    messages += learnable.warnings
    items, dev_items = list(train.items), list(dev.items) if dev is not None else []
    if dev is None:
        items, dev_items = split(items, data.dev_fraction, _SPLIT_SEED)
        messages.append(
            f"There is no dev file: {len(dev_items):,} of {counted(len(train.items), 'item')} "
            f"{'is' if len(dev_items) == 1 else 'are'} taken to judge by, and not trained on."
        )
    if not dev_items:
        raise InputError(
            "the dev set is empty; a model needs items to be judged by; name another file, or "
            "raise data.dev_fraction."
        )
    parts = (replace(train, items=items), replace(train if dev is None else dev, items=dev_items))
    with _named_in_recipe(kind):
        ready = kind.prepare(settings, TaskData(learnable.labels, *parts, start))
        ready.task.windows.check_room(start.tokenizer, start.max_length)
        ready.task.guessed(ready.train, ready.dev)  # finds a metric that does not exist
    check_loss(ready.task, recipe, objects.loss)
    _check_labels(ready.task, objects.labels)
    untrained = LanguageModel(replace(start.checkpoint), start.name)
    note_in_folder(ready, start)
    messages += [*ready.messages, *_mixing(ready.train, data.mixture)]
    parts = (replace(parts[0], items=ready.train), replace(parts[1], items=ready.dev))
    messages += window_forecast(ready, start)
    window = ready.task.windows.limit(start.max_length)
    report = report_on(*parts, tokenizer=start.tokenizer, window=window)
    if report.train.vocabulary is not None and report.train.vocabulary.unknown:
        messages.append(report.train.vocabulary.sentence())
    return LabelledTask(
        ready.task,
        ready.train,
        ready.dev,
        tuple(messages),
        report,
        parts,
        data.mixture,
        objects,
        ready.weights,
        ready.change,
        untrained,
        _decided(ready.task),
    )


def _decided(task: Task[Any, Any]) -> tuple[str, ...]:
    values = ((name, getattr(task, name)) for name in sorted(task.kinds_from_rows))
    return tuple(
        f"The {name} was {registry.kind(type(value))}."
        for name, value in values
        if value is not None
    )


@contextmanager
def _named_in_recipe(kind: type[Task[Any, Any]]) -> Iterator[None]:
    """Names settings of a task in errors by their place in a recipe: `task.pooling`."""
    of_data = {field.name for field in fields(LabelledData)}
    own = {field.name for field in fields(kind)} - of_data  # type: ignore[arg-type]
    try:
        yield
    except (SettingError, UnknownName) as error:
        raise error.respelled(
            lambda name: f"task.{name}" if name.partition(".")[0] in own else name
        ) from error.__cause__


def window_forecast(ready: Prepared, start: LanguageModel) -> list[str]:
    """How many items do not fit into one window and what reading them costs; nothing if all fit.

    Raises:
        InputError: If an item leaves no room in its windows.
    """
    task = ready.task
    if task.writes:  # reads its sources whole, and says so where one is too long
        return []
    wanted = min(len(ready.train), _LOOKED_AT)
    chosen = np.linspace(0, len(ready.train) - 1, wanted).astype(np.int64)
    some = [ready.train[index] for index in chosen]
    windows = by_item(task.windows_of(some, start.tokenizer, start.max_length))
    apart = task.texts_apart
    long = sum(
        (len(own) > 1 and not apart) or any(window.dropped > 0 for window in own) for own in windows
    )
    if not long:
        return []
    total, about = len(ready.train), "" if wanted == len(ready.train) else "about "
    counted_long = f"{about}{round(long * total / wanted):,} of {counted(total, 'item')}"
    length = max(len(window) for own in windows for window in own)
    longer = f"{counted_long} to learn from are longer than a window of {length:,} tokens"
    longer = longer[:1].upper() + longer[1:]
    if task.windows.keep != "all":
        return [f"{longer}; of each is read {task.windows.kept_in_words()}."]
    read = round(sum(map(len, windows)) * total / wanted)
    tokens = sum(len(window) for own in windows for window in own)
    times = tokens / sum(max(map(len, own)) for own in windows)
    advice = " (task.windows.keep=first)" if task.can_truncate else ""
    return [
        f"{longer}: an epoch reads {about}{read:,} windows in the same number of steps, and takes "
        f"about {times:.1f} times as long as if each were cut to one{advice}."
    ]


def note_in_folder(ready: Prepared, start: LanguageModel) -> None:
    """Writes down with the model what its folder has to say of what it learns."""
    checkpoint = start.checkpoint
    if ready.notes:
        checkpoint.notes = {**checkpoint.notes, **ready.notes}
    if ready.chat_template is not None:
        checkpoint.tokenizer = start.tokenizer.with_chat_template(ready.chat_template)
    if ready.max_length is not None:
        checkpoint.tokenizer = start.tokenizer.with_max_length(ready.max_length)
    if (vectors := ready.vectors) is not None:
        length = vectors.max_length or checkpoint.pooling.max_length
        if checkpoint.pooling.lowercase:  # learned from as they will be embedded
            checkpoint.tokenizer = start.tokenizer.lowercased
        checkpoint.pooling = replace(
            checkpoint.pooling,
            modes=vectors.pooling,
            steps=vectors.steps,
            normalize=vectors.normalize,
            max_length=length,
            stated=True,
        )
        checkpoint.prompts = checkpoint.prompts.with_texts(vectors.prompts)
    if ready.learns_turns:
        # Compat: others know a turn's end only if the folder says it.
        ends = start.writer(chat=True).ends
        if ends != start.writer().ends:
            checkpoint.generation = {**checkpoint.generation, END: list(ends)}


def _check_labels(task: Task[Any, Any], wanted: Sequence[str]) -> None:
    """Insists that the labels of a task that a program made are those of the data."""
    if wanted and task.label_kind != "numbers" and {*wanted} != {*(task.head_labels or ())}:
        rule = f"the data has {', '.join(task.head_labels or ('none',))}"
        advice = "labels come from the data: correct one of them, or give the class of the task"
        raise SettingError("task.labels", list(wanted), rule, advice)


def _mixing(items: Sequence[Any], mixture: Mixture | None) -> list[str]:
    """How often each task is shown, in a sentence."""
    if mixture is None:
        return []
    mixed = Mixed([item.task for item in items], mixture, 0)
    if len(mixed.names) < 2:
        raise InputError(
            f"data.mixture is set, and all items are of the task {mixed.names[0]!r}; there must be "
            "two tasks to mix; name another file, or leave it out."
        )
    shares = [
        f"{name} {count:,}" for name, count in zip(mixed.names, mixed.counts.tolist(), strict=True)
    ]
    return [f"An epoch shows {counted(mixed.size, 'example')}: {', '.join(shares)}."]
