"""What a task is: an objective that can also answer, be scored and be saved with a model.

One object serves training (`examples`, `collate`, `losses`), answering (`windows_of`, `scores`,
`decode`) and evaluation (`measure`). It is a frozen spec, so it can be written as JSON and stands
in the model folder.

Shapes: N tokens, B windows, C scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.arrays import Float32Array
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.generate.prompts import GenerationRequest
from clozeworks.objectives.objective import Objective
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.windows import TokenWindow, Windows
from clozeworks.text.tokenizer.tokenizer import Tokenizer

ItemType = TypeVar("ItemType")
AnswerType = TypeVar("AnswerType")
# An item, its windows and their scores to an answer.
Decoder = Callable[[Any, Sequence[TokenWindow], Sequence[Float32Array]], Any]


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
    per_token: ClassVar[bool] = False
    """Whether there is a score for every token, or for every window."""

    @property
    def windows(self) -> Windows:
        """How long texts are read. A field of every task."""
        raise NotImplementedError

    def windows_of(
        self, items: Sequence[ItemType], tokenizer: Tokenizer, most: int | None
    ) -> list[TokenWindow]:
        """The tokens of items, in windows.

        Args:
            items: What is asked about.
            tokenizer: The model's.
            most: The most tokens the model takes.
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

    def scores(
        self, model: Model, hidden: Tensor, layout: Layout, asked: Tensor | None = None
    ) -> Tensor:
        """What the model's head says.

        Args:
            model: The model.
            hidden: Its vectors of all tokens, (N, W).
            layout: Where windows begin and end.
            asked: The tokens whose scores are wanted, (n,); all if not given.

        Returns:
            A row for each window, (B, C), or for each asked token, (n, C).
        """
        raise NotImplementedError

    def decode(
        self, item: ItemType, windows: Sequence[TokenWindow], scores: Sequence[Float32Array]
    ) -> AnswerType:
        """The answer about an item from the scores of its windows.

        Args:
            item: The item.
            windows: Its windows.
            scores: The scores of each: (C,), or (asked tokens, C).
        """
        raise NotImplementedError

    def decoder(self, model: Model) -> Decoder:
        """`decode`, with what else a model has learned that decoding needs."""
        return self.decode

    def generation(
        self, model: Model, tokenizer: Tokenizer, items: Sequence[ItemType], most: int | None
    ) -> GenerationRequest | None:
        """What a model reads and writes, where answers are texts that it generates.

        Args:
            model: A model with the head the task needs.
            tokenizer: Its tokenizer.
            items: What it is asked about, as the task asks about them; at least one.
            most: The most tokens the model takes.

        Returns:
            The prompts of all items; None if `scores` and `decode` answer.
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

    def tuned(self, measured: Measured) -> "Task[ItemType, AnswerType]":
        """The task with what is best chosen once a model is trained, such as a threshold.

        Args:
            measured: How good the model is on items it was not trained on.
        """
        return self

    def settings(self) -> Mapping[str, Any]:
        """What a published config says of it: `id2label`, `problem_type`."""
        return {}
