"""What a task is: an objective that can also answer, be scored, shown, served and saved.

A task owns its item. One file of this folder (or one folder with a `task.py`) states everything
that is particular to a task: how rows become items, how items become examples, what a model's head
says, how predictions are decoded, measured, explained and shown. Everything else walks over the
registry: fine-tuning, evaluation, data checks and splits, reports, model cards, checkpoints,
`LanguageModel.predict` and the commands.

One object serves training (`examples`, `collate`, `losses`), answering (`windows_of`, `logits`,
`decode`) and evaluation (`measure`). It is a frozen spec, so it can be written as JSON and stands
in the model folder.

Shapes: N tokens, B windows, C labels.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from clozeworks.core.heads.sentence_vectors import VectorStep
from clozeworks.core.layout import Layout
from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model, hidden_states_to_read
from clozeworks.data.files.tables import Table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import find_columns
from clozeworks.data.labelled.in_memory import DataSource
from clozeworks.data.labelled.items import Item, wrong_text
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.data.labelled.reading import Labelled, Reading, read_items
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.generate.prompts import GenerationRequest
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import spec
from clozeworks.tasks.labels.names import labels_of, published_labels
from clozeworks.tasks.labels.standardization import Standardization
from clozeworks.tasks.metrics.labels import KnownLabels
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import Detail, MarkedText, Mistake
from clozeworks.tasks.spans.windows import TokenWindow, Windows
from clozeworks.text.tokenizer.tokenizer import Tokenizer

ItemType = TypeVar("ItemType")
AnswerType = TypeVar("AnswerType")
# An item, the epoch and the item's number to the item that is shown.
Change = Callable[[Any, int, int], Any]
# From an item, its windows and their logits to an answer.
Decoder = Callable[[Any, Sequence[TokenWindow], Sequence[Float32Array]], Any]


class StartingModel(Protocol):
    """What a task may ask about the model it is to be learned by."""

    @property
    def blueprint(self) -> Blueprint:
        """Its parts."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""

    @property
    def model(self) -> Model:
        """The network."""

    @property
    def max_length(self) -> int | None:
        """The most tokens it takes."""

    @property
    def pooling(self) -> Any:
        """How its tokens become one vector."""


@dataclass(frozen=True)
class PublishedHeads:
    """The heads of a published folder, and what its `config.json` says."""

    config: Mapping[str, Any]
    heads: Mapping[str, HeadSpec]
    folder: str
    """What messages call it."""

    def labels(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """The labels of the first of some heads that is there; None if there is none."""
        head = next((self.heads[name] for name in names if name in self.heads), None)
        count = getattr(head, "count", 0)
        return None if head is None else labels_of(self.config, count, self.folder)


@dataclass(frozen=True)
class TaskData:
    """What a task is to be learned from, and by which model."""

    labels: Sequence[str]
    """The set of labels, where there is one."""
    train: Labelled
    dev: Labelled
    model: StartingModel


@dataclass(frozen=True)
class StatedVectors:
    """How texts become vectors, as a model folder states it."""

    pooling: tuple[str, ...]
    steps: tuple[VectorStep, ...]
    """What happens after pooling."""
    normalize: bool
    max_length: int | None
    """The most tokens of a text; None for what the model takes."""
    prompts: Mapping[str, str]
    """What is put before a text, by name."""


@dataclass(frozen=True)
class Prepared:
    """A task and its items, settled from the data."""

    task: "Task[Any, Any]"
    """The task, its labels known."""
    train: Sequence[Any]
    """Items to learn from."""
    dev: Sequence[Any]
    """Items to be measured on."""
    messages: tuple[str, ...] = ()
    """Sentences about the data and what was done to it."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the model folder states about it."""
    chat_template: str | None = None
    """What chats are written with, where the tokenizer has no template."""
    learns_turns: bool = False
    """Whether the model folder states what ends a turn of a chat."""
    vectors: StatedVectors | None = None
    """How the model folder says texts become vectors, where that is learned."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights that are counted in the rows and not learned, by their name in the network."""
    change: Change | None = None
    """How a row differs in an epoch from what stands in `train`; None if it never does."""
    max_length: int | None = None
    """The most tokens that the folder says are read, where that is fewer than the model takes."""


@dataclass(frozen=True)
class CommandOption:
    """An option that the command of a task has beside the usual ones."""

    type: Any
    """What its value is."""
    help: str
    """What it does, in a sentence."""
    alias: str | None = None
    """A short form."""


@dataclass(frozen=True)
class ShownPrediction:
    """A prediction for people, as a terminal or a page shows it."""

    headline: str = ""
    """What was predicted, in a few words."""
    score: float | None = None
    """How sure the model is of it; None if that cannot be said."""
    texts: tuple[str, ...] = ()
    """What it was predicted for; shortened to fit beside the headline."""
    marked: MarkedText | None = None
    """A text in which something was found."""
    whole: bool = False
    """Whether the marked text is shown as a whole, or what stands around its marks."""
    scores: tuple[tuple[str, float], ...] = ()
    """The candidates, the best first, and how sure the model is of each."""
    lines: tuple[str, ...] = ()
    """More that is worth a line each."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is right for one window."""

    label: NDArray[Any] | None = None
    """What is right for the window as a whole, an array of the same shape for all."""
    tokens: NDArray[np.int64] | None = None
    """What is right for each of its tokens, -1 where there is no target."""


class Task(Objective, Generic[ItemType, AnswerType]):
    """Slot: a task."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.tasks"
    item_type: ClassVar[type[Item]]
    """What a row of its labelled data becomes."""
    answer_type: ClassVar[type[Any]]
    """What it says about an item: a frozen dataclass with `to_dict` and `from_dict`."""
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
    teaches: ClassVar[Mapping[str, str]] = {}
    """What rows of several kinds teach, for the help of fine-tuning: what I have, what I get."""
    usual_batch_size: ClassVar[int] = 32
    """Items of a step."""
    kinds_from_rows: ClassVar[frozenset[str]] = frozenset()
    """Settings whose kind follows from the rows where a recipe does not name it."""
    can_augment: ClassVar[bool] = True
    """Whether texts may change while what is right stays."""
    can_truncate: ClassVar[bool] = False
    """Whether an item may be cut to one window (`windows.keep`)."""
    can_probe: ClassVar[bool] = False
    """Whether a regression on frozen vectors can do it."""
    texts_apart: ClassVar[bool] = False
    """Whether an item has several texts that are read one by one, a window for each."""
    writes: ClassVar[bool] = False
    """Whether its answers are texts, written token by token."""
    chunk_items: ClassVar[int | None] = None
    """How many items are answered before their answers are written; as many as fit if None."""
    python_usage: ClassVar[str] = "outputs = model.predict(items)"
    """A line of Python that asks a model for predictions, for its card."""
    per_token: ClassVar[bool] = False
    """Whether there are logits for every token, or for every window."""

    @property
    def wants_distinct_texts(self) -> bool:
        """Whether no text may stand in a step twice, since others count as wrong."""
        return False

    @property
    def loss_over_step(self) -> bool:
        """Whether all of a step are compared.

        The loss is then a function of what the model computes for every window: `vectors`, `known`,
        `loss_of_vectors`.
        """
        return self.texts_apart

    @property
    def knows_words(self) -> bool:
        """Whether its examples say where words begin."""
        return False

    @property
    def guide(self) -> str:
        """A frozen model whose vectors of all texts training needs; none if empty."""
        return ""

    # From labelled files to a task.

    @classmethod
    def read(
        cls,
        files: Sequence[DataSource],
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
            train: What was read to learn from, where these are dev files.
        """
        if train is not None:
            reading = replace(train.reading, columns=reading.columns)
        return read_items(files, cls.item_type, reading, bad=bad)

    @classmethod
    def items_from(cls, rows: Sequence[Any], named: Mapping[str, str] | None = None) -> list[Item]:
        """Items from what a program has: texts, tuples of texts, rows with named columns, or items.

        Columns are found as in files: by their usual names, or by what they hold; `named` are those
        that a person named, by role. Labels stay as they are.

        Raises:
            InputError: If one of them cannot be used.
        """
        tables = [row for row in rows if isinstance(row, Mapping)]
        names = tuple(dict.fromkeys(str(name) for row in tables for name in row))
        table = Table("the items", "row", names, [])
        table.rows.extend(enumerate([row.get(name) for name in names] for row in tables))
        has_lists = any(isinstance(cell, list) for row in tables for cell in row.values())
        named = dict(named or {})
        kind = cls.item_type.asked_as(named, has_lists) if tables else cls.item_type
        for role in named:
            if role not in [each.name for each in kind.roles]:
                raise UnknownName(
                    f"columns for {kind.command}", role, [each.name for each in kind.roles]
                )
        columns = find_columns(table, kind, named)[1] if tables else ()
        bad, items = BadRows(), []
        for number, row in enumerate(rows, start=1):
            location = f"item {number:,}"
            try:
                if isinstance(row, Mapping):
                    parts = {column.role: row.get(column.name) for column in columns}
                    items.append(kind.from_row(parts, location, bad))
                else:
                    items.append(row if isinstance(row, Item) else cls.item_from(row, location))
            except ValueError as error:
                raise InputError(f"{location}: {str(error).removesuffix('.')}.") from error
        return items

    @classmethod
    def item_from(cls, texts: Any, source_location: str) -> Item:
        """An item without a label from a text, or from a tuple of texts.

        Raises:
            ValueError: If they cannot be used; the message says why and what to do.
        """
        names = cls.item_type.text_names
        is_several = isinstance(texts, tuple) or (isinstance(texts, list) and len(names) > 1)
        given = tuple(texts) if is_several else (texts,)
        if len(given) != len(names):
            wanted = "a text" if len(names) == 1 else f"a tuple of {' and '.join(names)}"
            there = "there is 1 text" if len(given) == 1 else f"there are {len(given):,} texts"
            raise ValueError(f"{there}; give {wanted}, or a row")
        if wrong := next(filter(None, map(wrong_text, given, names)), ""):
            raise ValueError(wrong)
        return cls.item_type.from_texts(given, source_location)

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
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task with the settings of a recipe and what the data says.

        Raises:
            SettingError: If a setting does not go with the data or the model.
            InputError: If an item cannot be learned from.
        """
        known = {"labels": list(data.labels)} if data.labels else {}
        task = settings_reader.read(Task, {**settings, **known}, "task")
        return Prepared(task, data.train.items, data.dev.items)

    def files_hold(self) -> type[Item]:
        """What rows of files become that it is measured on."""
        return self.item_type

    def read_to_measure(
        self, files: Sequence[DataSource], reading: Reading, bad: BadRows
    ) -> Labelled:
        """Reads files that a trained model is measured on."""
        return read_items(files, self.files_hold(), reading, bad=bad)

    def settled(self, items: Sequence[ItemType], head: HeadSpec | None = None) -> Self:
        """The same task with what depends on the training items as numbers.

        Args:
            items: The items to learn from.
            head: The head that learns; one with a bias if not given.
        """
        return self

    def to_save(self) -> Self:
        """The same task as it stands in a model folder, without what only training needs."""
        return self

    # From a checkpoint to a task.

    @classmethod
    def from_checkpoint(cls, published: PublishedHeads) -> "Task[Any, Any] | None":
        """The task that a published folder can answer; None if it has no head for it.

        Raises:
            CheckpointError: If config and head contradict each other.
        """
        return None

    def fitted(self, published: PublishedHeads) -> "Task[Any, Any] | None":
        """This task, which our notes describe, with the labels of its head; None without one."""
        return self if self.head in published.heads else None

    def suited_to(self, kind: "type[Task[Any, Any]]") -> "Task[Any, Any] | None":
        """The same as a task of another kind that the same head serves; None if it cannot be."""
        return self if isinstance(self, kind) else None

    @classmethod
    def reading_head_of(cls, task: "Task[Any, Any]") -> "Task[Any, Any] | None":
        """A task of this kind for a model whose head is that of another; usually None."""
        return None

    @classmethod
    def without_training(cls, model: StartingModel) -> "Task[Any, Any] | None":
        """The plain task of a model that was not trained for it and can do it; usually None."""
        return None

    @property
    def head(self) -> str:
        """The head whose logits it reads."""
        raise NotImplementedError

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """Its head."""
        return frozenset({self.head})

    @property
    def head_labels(self) -> tuple[str, ...] | None:
        """What the rows of its head stand for; None if its head has no rows of its own."""
        return None

    @property
    def label_kind(self) -> AskedKind | None:
        """What the label of an item is: one label, several, or a number; None for anything else."""
        return None

    @property
    def standardization(self) -> Standardization:
        """In which units the head predicts numbers; as they are where there are none."""
        return Standardization()

    @property
    def dropout(self) -> float | None:
        """How much is dropped in training; None for what the model says."""
        return None

    @property
    def windows(self) -> Windows:
        """How long texts are read. A field of every task."""
        raise NotImplementedError

    def windows_of(
        self, items: Sequence[ItemType], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """The tokens of items, in windows for a model that takes at most `max_length` tokens."""
        raise NotImplementedError

    def as_asked(self, item: ItemType) -> ItemType:
        """The item as the model reads it."""
        return item

    def targets(self, item: ItemType, windows: Sequence[TokenWindow]) -> list[Target]:
        """What is right for each window of an item.

        Raises:
            InputError: If the item has no label, or one the task does not know.
        """
        raise NotImplementedError

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Nothing is hidden; each window has its label as target."""
        assert builder.clean.labels is not None
        builder.targets[self.name] = {ANSWERS: builder.clean.labels}

    def logits(
        self,
        model: Model,
        hidden_states: Tensor,
        layout: Layout,
        positions: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Tensor:
        """What the model's head computes.

        Args:
            model: The model.
            hidden_states: Its vectors of all tokens, (N, W).
            layout: Where windows begin and end.
            positions: The tokens whose logits are wanted, (n,); all if not given.
            ids: What the tokens are, (N,), for a head that weighs them.

        Returns:
            A row for each window, (B, C), or for each wanted token, (n, C).
        """
        return model.head(self.head).logits(hidden_states, layout, positions)

    def reads_first(self, model: Model) -> bool:
        """Whether the first token of each window is all that is read of the hidden states."""
        return self.head in model.heads and model.head(self.head).reads_first

    def hidden_states(
        self, model: Any, ids: Tensor, layout: Layout, types: Tensor | None
    ) -> tuple[Tensor, Layout]:
        """The hidden states its head reads, and where windows begin in them."""
        return hidden_states_to_read(model, ids, layout, types, first=self.reads_first(model))

    def outputs(self, model: Any, tensors: BatchTensors) -> Tensor:
        """What a loss over a whole step compares: a row of logits, or a vector, for each window."""
        hidden_states, layout = self.hidden_states(
            model, tensors.ids, tensors.layout, tensors.types
        )
        return self.logits(model, hidden_states, layout, ids=tensors.ids)

    def known(self, tensors: BatchTensors) -> Mapping[str, Tensor]:
        """What is known of each window of a micro-batch, for a loss over a whole step."""
        return tensors.targets[self.name]

    @property
    def takes_loss(self) -> bool:
        """Whether its loss is a function of logits and labels, which a user may replace."""
        return False

    def logits_and_labels(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> tuple[Tensor, Tensor]:
        """What `cost` compares: a row of logits for each target, and what is right for it."""
        raise NotImplementedError

    def cost(self, logits: Tensor, labels: Tensor) -> LossTerm:
        """What logits cost, where `losses` is a function of logits and labels alone."""
        raise NotImplementedError

    def decode(
        self, item: ItemType, windows: Sequence[TokenWindow], logits: Sequence[Float32Array]
    ) -> AnswerType:
        """The answer about an item from the logits of each window: (C,), or (wanted tokens, C)."""
        raise NotImplementedError

    def decoder(self, model: Model) -> Decoder:
        """`decode`, with what else a model has learned that decoding needs."""
        return self.decode

    def generation(
        self, model: Model, tokenizer: Tokenizer, items: Sequence[ItemType], max_length: int | None
    ) -> GenerationRequest | None:
        """The prompts of items, where answers are texts that the model generates.

        Args:
            model: A model with the head the task needs.
            tokenizer: Its tokenizer.
            items: At least one item, as `as_asked` returns it.
            max_length: The most tokens the model takes; None if there is no limit.

        Returns:
            None if `logits` and `decode` answer.
        """
        return None

    def measure(
        self, items: Sequence[ItemType], answers: Sequence[AnswerType], *, intervals: bool = False
    ) -> Measured:
        """How good answers are, compared with the labels of the items."""
        raise NotImplementedError

    def compared(self, item: ItemType, answer: AnswerType) -> tuple[Any, Any]:
        """What is right for an item and what was predicted, for a metric of the user's own."""
        return getattr(item, "gold", None), getattr(answer, "label", answer)

    @property
    def cost_value(self) -> str | None:
        """Which of the measured values is what an item costs; None if none of them is."""
        return None

    def measured_loss(self, measured: Measured) -> dict[str, float]:
        """The loss, where a measured value tells it; nothing if none does."""
        if self.cost_value is None:
            return {}
        # Numbers are measured as they are, and learned in units of their deviation.
        return {self.name: measured.values[self.cost_value] / self.standardization.deviation**2}

    # What people are shown.

    def baseline(
        self, train: Sequence[ItemType], dev: Sequence[ItemType]
    ) -> tuple[str, list[AnswerType]] | None:
        """What can be predicted from the labels of the training items without reading any text.

        Returns:
            How, in a few words, and a prediction for each dev item; None if nothing can be guessed.
        """
        return None

    def guessed(
        self, train: Sequence[ItemType], dev: Sequence[ItemType]
    ) -> tuple[str, Measured] | None:
        """How the baseline guesses, and what that is worth; None if nothing can be guessed.

        Raises:
            UnknownName: If the task is to be measured by a value that these items do not have.
        """
        if (baseline := self.baseline(train, dev)) is None:
            return None
        how, guesses = baseline
        return how, self.measure(dev, guesses)

    def known_labels(self, items: Sequence[ItemType], answers: Sequence[AnswerType]) -> KnownLabels:
        """How well each label is known; nothing where there are no labels."""
        return KnownLabels()

    def details(
        self, items: Sequence[ItemType], answers: Sequence[AnswerType], measured: Measured
    ) -> list[Detail]:
        """Tables, charts and sentences about predictions, as plain data."""
        return []

    def mistakes(
        self, items: Sequence[ItemType], answers: Sequence[AnswerType]
    ) -> list[Mistake] | None:
        """What a model got wrong, item by item; None if nothing can be called right or wrong."""
        return None

    @classmethod
    def answer_from_dict(cls, record: Mapping[str, Any], item: ItemType) -> AnswerType:
        """The answer about an item from what its `to_dict` wrote, such as another machine.

        Raises:
            KeyError: If something is missing; TypeError or ValueError if it is something else.
        """
        answer: AnswerType = cls.answer_type.from_dict(record, item)
        return answer

    def from_input(self, item: ItemType) -> ItemType:
        """An item that was made of a text alone, as this task reads it."""
        return item

    def shown(self, item: ItemType, answer: AnswerType, top: int = 1) -> ShownPrediction:
        """A prediction for people, with so many candidates."""
        raise NotImplementedError

    def configured(
        self, **options: Any
    ) -> "tuple[Task[Any, Any], Callable[[AnswerType], AnswerType] | None]":
        """The task with the options of its command, and what is done to its predictions.

        Raises:
            SettingError: If an option does not go with this task.
        """
        return self, None

    def reading_notes(self, answers: Sequence[Any]) -> list[str]:
        """How the texts of a dev set were read, in sentences."""
        windows = [answer.windows for answer in answers]
        several = sum(count > 1 for count in windows)
        if cut := sum(getattr(answer, "truncated", False) for answer in answers):
            return [
                f"{cut:,} of {len(windows):,} items of the dev set are longer than a window; of "
                f"each was read {self.windows.kept_in_words()}, as `task.windows.keep` says."
            ]
        if not several:
            return ["Every item of the dev set fits into one window; nothing was cut."]
        return [
            f"{several:,} of {len(windows):,} items of the dev set were read through more than one "
            f"window, through {max(windows):,} at most."
        ]

    def usage(self, *, chats: bool = False) -> str:
        """How the model is used in Python; `chats` if it learned from chats."""
        return self.python_usage

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """How it is used in transformers; None if that would answer differently."""
        return None

    def usage_notes(self) -> list[str]:
        """Where transformers answers differently, or why it cannot, in sentences."""
        return []

    def tuned(self, measured: Measured) -> "Task[ItemType, AnswerType]":
        """The task with what is best chosen on the dev set, such as a threshold."""
        return self

    def settings(self) -> Mapping[str, Any]:
        """What a published config states about it: `id2label`, `problem_type`."""
        return {}


@spec
class LabelSetTask(Task[ItemType, AnswerType]):
    """Slot: a task whose head has a row for each label of a set."""

    is_slot: ClassVar[bool] = True
    head_names: ClassVar[tuple[str, ...]]
    """The heads that can serve it; the first that a model has does."""

    labels: tuple[str, ...]
    """The labels in the order of the head."""

    def fitted(self, published: PublishedHeads) -> Self | None:
        """The same with the labels of the folder's head."""
        labels = published.labels(self.head_names)
        return None if labels is None else replace(self, labels=labels)

    @property
    def head(self) -> str:
        """The head whose logits it reads."""
        return self.head_names[0]

    @property
    def head_labels(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def settings(self) -> Mapping[str, Any]:
        """Labels as published configs state them."""
        return published_labels(self.labels)


def with_kind(settings: Mapping[str, Any], name: str, usual: str) -> dict[str, Any]:
    """Settings of which the table with a name has a kind: its own, or the usual one."""
    return {**settings, name: {"kind": usual, **(settings.get(name) or {})}}


def task_class(kind: str, where: str = "task") -> "type[Task[Any, Any]]":
    """The task with a name, as a recipe or a command writes it.

    Raises:
        UnknownName: If there is none; `where` says what named it.
    """
    classes = task_classes()
    name = kind.replace("-", "_")
    if name not in classes:
        tags = ((command_name(each), cls) for each, cls in classes.items())
        meant = (each for each, cls in tags if getattr(cls, "pipeline_tag", None) == kind)
        raise UnknownName(where, kind, map(command_name, classes), next(meant, True))
    return classes[name]


def named_class(task: Any) -> "type[Task[Any, Any]]":
    """The class of a task that a program names: by its kind, its class or the task itself.

    Raises:
        UnknownName: If there is no task of that name.
        SettingError: If it is something else.
    """
    if isinstance(task, str):
        return task_class(task)
    cls = task if isinstance(task, type) else type(task)
    if not issubclass(cls, Task):
        names = ", ".join(map(command_name, task_classes()))
        raise SettingError("task", task, f"it must be a task, or the name of one: {names}")
    return cls


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
