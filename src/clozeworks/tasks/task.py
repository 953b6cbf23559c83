"""What a task is: an objective that can also answer, be scored, shown, served and saved.

A task owns its item. One file of this folder (or one folder with a `task.py`) states everything
that is particular to a task: how rows become items, how items become examples, what a model's head
says, how predictions are decoded, measured, explained and shown. Everything else walks over the
registry: fine-tuning, evaluation, data checks and splits, reports, model cards, checkpoints,
`LanguageModel.predict` and the commands.

One object serves training (`examples`, `collate`, `losses`), answering (`windows_of`, `logits`,
`decode`) and evaluation (`measure`). It is a frozen spec, so it can be written as JSON and stands
in the model folder.

Shapes: N tokens, B windows, C scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeworks import config as settings_reader
from clozeworks import registry
from clozeworks.arrays import Float32Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.reading import Labelled, Reading, read_items
from clozeworks.errors import UnknownName
from clozeworks.generate.prompts import GenerationRequest
from clozeworks.objectives.objective import Objective
from clozeworks.tasks.metrics.labels import KnownLabels
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import Detail, MarkedText, Mistake
from clozeworks.tasks.spans.windows import TokenWindow, Windows
from clozeworks.text.tokenizer.tokenizer import Tokenizer

ItemType = TypeVar("ItemType")
AnswerType = TypeVar("AnswerType")
# An item, its windows and their scores to an answer.
Decoder = Callable[[Any, Sequence[TokenWindow], Sequence[Float32Array]], Any]


class StartingModel(Protocol):
    """What a task may ask about the model it is to be learned by."""

    @property
    def blueprint(self) -> Blueprint:
        """Its parts."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""
        ...

    @property
    def max_length(self) -> int | None:
        """The most tokens it takes."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A task and its items, settled from the data.

    Attributes:
        task: The task, its labels known.
        train: Items to learn from.
        dev: Items to be judged by.
        messages: Sentences about what was found and done.
        notes: What the model folder is to say of it.
        chat_template: What chats are to be written with, where the tokenizer has no template.
        learns_turns: Whether the model folder is to say what ends a turn of a chat.
    """

    task: "Task[Any, Any]"
    train: Sequence[Any]
    dev: Sequence[Any]
    messages: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    chat_template: str | None = None
    learns_turns: bool = False


@dataclass(frozen=True)
class CommandOption:
    """An option that the command of a task has beside the usual ones.

    Attributes:
        type: What its value is.
        help: What it does, in a sentence.
        alias: A short form.
    """

    type: Any
    help: str
    alias: str | None = None


@dataclass(frozen=True)
class ShownPrediction:
    """A prediction for people, as a terminal or a page shows it.

    Attributes:
        headline: What was predicted, in a few words.
        score: How sure the model is of it; None if that cannot be said.
        texts: What it was predicted for; shortened to fit beside the headline.
        marked: A text in which something was found.
        whole: Whether the marked text is shown as a whole, or what stands around its marks.
        lines: More that is worth a line each.
    """

    headline: str = ""
    score: float | None = None
    texts: tuple[str, ...] = ()
    marked: MarkedText | None = None
    whole: bool = False
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What is right for one window.

    Attributes:
        label: What is right for the window as a whole, an array of the same shape for all.
        tokens: What is right for each of its tokens, -1 where nothing is asked.
    """

    label: NDArray[Any] | None = None
    tokens: NDArray[np.int64] | None = None


class Task(Objective, Generic[ItemType, AnswerType]):
    """Slot: a task."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.tasks"
    item_type: ClassVar[type[Item]]
    """What a row of its labelled data becomes."""
    summary: ClassVar[str] = ""
    """What it teaches a model, in a clause: label texts."""
    description: ClassVar[str] = ""
    """What its command does, in a paragraph."""
    title: ClassVar[str] = ""
    """What a report calls it."""
    ability: ClassVar[str] = "answer"
    """What a model that lacks its head cannot do."""
    architecture: ClassVar[str] = "a task's head"
    """The published classes that can."""
    pipeline_tag: ClassVar[str] = ""
    """What the hub calls it."""
    command_options: ClassVar[Mapping[str, CommandOption]] = {}
    """Further options of its command."""
    usual_epochs: ClassVar[float] = 3.0
    """How often a large set is gone through in fine-tuning."""
    can_augment: ClassVar[bool] = True
    """Whether texts may change while what is right stays."""
    can_probe: ClassVar[bool] = False
    """Whether a regression on frozen vectors can do it."""
    writes: ClassVar[bool] = False
    """Whether its answers are texts, written token by token."""
    chunk_items: ClassVar[int | None] = None
    """How many items are answered before their answers are written; as many as fit if None."""
    per_token: ClassVar[bool] = False
    """Whether there is a score for every token, or for every window."""

    # From labelled files to a task.

    @classmethod
    def read(
        cls,
        files: Sequence[Path | str],
        settings: Mapping[str, Any],
        reading: Reading,
        bad: BadRows,
        *,
        train: "Labelled | None" = None,
    ) -> "Labelled":
        """Reads labelled files.

        Args:
            files: The files.
            settings: The settings of the task, as a recipe has them.
            reading: How files are read.
            bad: Collects bad rows.
            train: What was read to learn from, where these are files to be judged by.
        """
        reading = reading if train is None else train.reading
        return read_items(files, cls.item_type, reading, bad=bad)

    @classmethod
    def item_read(cls, changes: Sequence[str]) -> type[Item]:
        """What rows of its files become, as settings such as `task.format=sst2` have it."""
        return cls.item_type

    @classmethod
    def clean(
        cls, settings: Mapping[str, Any], train: "Labelled", dev: "Labelled | None"
    ) -> "tuple[Mapping[str, Any], Labelled, Labelled | None, list[str]]":
        """The settings, the data with its labels written in one way, and what was done to them."""
        return settings, train, dev, []

    @classmethod
    def prepare(
        cls,
        settings: Mapping[str, Any],
        labels: Sequence[str],
        train: "Labelled",
        dev: "Labelled",
        model: StartingModel,
    ) -> Prepared:
        """The task with what the data says.

        Args:
            settings: The settings of the task, as a recipe has them.
            labels: The set of labels, where there is one.
            train: Items to learn from.
            dev: Items to be judged by.
            model: What is to learn.

        Raises:
            SettingError: If a setting does not go with the data or the model.
            InputError: If an item cannot be learned from.
        """
        found = dict(settings) | ({"labels": list(labels)} if labels else {})
        return Prepared(settings_reader.read(Task, found, "task"), train.items, dev.items)

    def files_hold(self) -> type[Item]:
        """What rows become of files that it is measured on."""
        return self.item_type

    def read_to_measure(self, file: Path, reading: Reading, bad: BadRows) -> Labelled:
        """Reads a file that a trained model is measured on."""
        return read_items(file, self.files_hold(), reading, bad=bad)

    def settled(self, items: Sequence[ItemType]) -> Self:
        """The same task with what depends on the training items as numbers."""
        return self

    # From a checkpoint to a task.

    @classmethod
    def from_checkpoint(
        cls, config: Mapping[str, Any], heads: Mapping[str, HeadSpec], name: str
    ) -> "Task[Any, Any] | None":
        """The task that a published folder can answer; None if it has no head for it.

        Args:
            config: What `config.json` says.
            heads: The heads the model has.
            name: What messages call the folder.

        Raises:
            CheckpointError: If config and head contradict each other.
        """
        return None

    def fitted(
        self, config: Mapping[str, Any], heads: Mapping[str, HeadSpec], name: str
    ) -> "Task[Any, Any] | None":
        """This task, which our notes describe, with the labels of the folder's head.

        The arguments are those of `from_checkpoint`; None if its head is not there.
        """
        return self if self.head in heads else None

    def suited_to(self, kind: "type[Task[Any, Any]]") -> "Task[Any, Any] | None":
        """The same as a task of another kind that the same head serves; None if it cannot be."""
        return self if isinstance(self, kind) else None

    @classmethod
    def without_training(cls, blueprint: Blueprint) -> "Task[Any, Any] | None":
        """The plain task of a model that was not trained for it and can do it; usually None."""
        return None

    @property
    def head(self) -> str:
        """The head that is asked."""
        raise NotImplementedError

    @property
    def head_labels(self) -> tuple[str, ...] | None:
        """What the rows of its head stand for; None if its head has no rows of its own."""
        labels = self.settings().get("id2label")
        return None if labels is None else tuple(labels.values())

    @property
    def windows(self) -> Windows:
        """How long texts are read. A field of every task."""
        raise NotImplementedError

    def windows_of(
        self, items: Sequence[ItemType], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """The tokens of items, in windows.

        Args:
            items: What is asked about.
            tokenizer: The model's.
            max_length: The most tokens the model takes.
        """
        raise NotImplementedError

    def as_asked(self, item: ItemType) -> ItemType:
        """The item as the task asks about it."""
        return item

    def targets(self, item: ItemType, windows: Sequence[TokenWindow]) -> list[Target]:
        """What is right for each window of an item.

        Raises:
            InputError: The item has no label, or one the task does not know.
        """
        raise NotImplementedError

    def logits(
        self, model: Model, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """What the model's head says.

        Args:
            model: The model.
            hidden_states: Its vectors of all tokens, (N, W).
            layout: Where windows begin and end.
            positions: The tokens whose scores are wanted, (n,); all if not given.

        Returns:
            A row for each window, (B, C), or for each asked token, (n, C).
        """
        raise NotImplementedError

    def decode(
        self, item: ItemType, windows: Sequence[TokenWindow], logits: Sequence[Float32Array]
    ) -> AnswerType:
        """The answer about an item from the scores of its windows.

        Args:
            item: The item.
            windows: Its windows.
            logits: The scores of each: (C,), or (asked tokens, C).
        """
        raise NotImplementedError

    def decoder(self, model: Model) -> Decoder:
        """`decode`, with what else a model has learned that decoding needs."""
        return self.decode

    def generation(
        self, model: Model, tokenizer: Tokenizer, items: Sequence[ItemType], max_length: int | None
    ) -> GenerationRequest | None:
        """What a model reads and writes, where answers are texts that it generates.

        Args:
            model: A model with the head the task needs.
            tokenizer: Its tokenizer.
            items: What it is asked about, as the task asks about them; at least one.
            max_length: The most tokens the model takes.

        Returns:
            The prompts of all items; None if `logits` and `decode` answer.
        """
        return None

    def measure(
        self, items: Sequence[ItemType], answers: Sequence[AnswerType], *, intervals: bool = False
    ) -> Measured:
        """How good answers are, beside the labels of the items."""
        raise NotImplementedError

    @property
    def cost_value(self) -> str | None:
        """Which of the measured values is what an item costs; None if none of them is."""
        return None

    # What people are shown.

    def baseline(
        self, train: Sequence[ItemType], dev: Sequence[ItemType]
    ) -> tuple[str, list[AnswerType]] | None:
        """What somebody would predict who saw the labels of the training items and reads no text.

        Returns:
            How, in a few words, and a prediction for each dev item; None if nothing can be guessed.
        """
        return None

    def known_labels(self, items: Sequence[ItemType], answers: Sequence[AnswerType]) -> KnownLabels:
        """How well each label is known; nothing where there are no labels."""
        return KnownLabels()

    def details(
        self, items: Sequence[ItemType], answers: Sequence[AnswerType], measured: Measured
    ) -> list[Detail]:
        """Tables, charts and sentences about predictions, as plain data."""
        return []

    def mistakes(self, items: Sequence[ItemType], answers: Sequence[AnswerType]) -> list[Mistake]:
        """What a model got wrong, item by item."""
        return []

    def from_input(self, item: ItemType) -> ItemType:
        """An item that was made of a text alone, as this task asks about it."""
        return item

    def shown(self, item: ItemType, answer: AnswerType, top: int = 1) -> ShownPrediction:
        """A prediction for people.

        Args:
            item: What was asked.
            answer: The prediction.
            top: How many candidates are shown.
        """
        raise NotImplementedError

    def configured(
        self, **options: Any
    ) -> "tuple[Task[Any, Any], Callable[[AnswerType], AnswerType] | None]":
        """The task as the options of its command want it, and what is done to its predictions.

        Raises:
            SettingError: If an option does not go with this task.
        """
        return self, None

    def reading_notes(self, answers: Sequence[Any]) -> list[str]:
        """How the texts of a dev set were read, in sentences."""
        windows = [answer.windows for answer in answers]
        several = sum(count > 1 for count in windows)
        if not several:
            return ["Every item of the dev set fits into one window; nothing was cut."]
        return [
            f"{several:,} of {len(windows):,} items of the dev set were read through more than one "
            f"window, through {max(windows):,} at most."
        ]

    def usage(self, *, chats: bool = False) -> str:
        """A line of Python that asks the model, for its card."""
        return "outputs = model.predict(items)"

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """How transformers is asked the same; None if it would answer differently."""
        return None

    def usage_notes(self) -> list[str]:
        """Where transformers answers differently, or why it cannot, in sentences."""
        return []

    def tuned(self, measured: Measured) -> "Task[ItemType, AnswerType]":
        """The task with what is best chosen once a model is trained, such as a threshold.

        Args:
            measured: How good the model is on items it was not trained on.
        """
        return self

    def settings(self) -> Mapping[str, Any]:
        """What a published config says of it: `id2label`, `problem_type`."""
        return {}


def task_class(kind: str, where: str = "task") -> "type[Task[Any, Any]]":
    """The task with a name, as a recipe or a command writes it.

    Raises:
        UnknownName: If there is none; `where` says what named it.
    """
    found = task_classes()
    name = kind.replace("-", "_")
    if name not in found:
        raise UnknownName(where, kind, map(command_name, found))
    return found[name]


def task_classes() -> "dict[str, type[Task[Any, Any]]]":
    """All tasks by kind, in the order of their names."""
    return dict(sorted(registry.specs(Task).items()))


def command_name(kind: str) -> str:
    """A kind of task as its command is typed."""
    return kind.replace("_", "-")


def read_labelled(
    files: Path | str | Sequence[Path | str],
    task: str,
    reading: Reading | None = None,
    *,
    bad: BadRows | None = None,
) -> "Labelled":
    """Reads labelled files for the task with a name; see `read_items`."""
    return read_items(files, task_class(task).item_type, reading, bad=bad)
