"""Labelled items as training examples: encoded when they are asked for.

Encoding a step's items takes a small part of the time the step takes, so nothing is encoded
beforehand: a run starts at once, and an epoch may show every item changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from clozeworks.arrays import Float32Array, Int64Array
from clozeworks.data.examples import Examples
from clozeworks.data.examples.distinct import DistinctOrder, distinct_order
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.data.labelled.mixing import Mixed
from clozeworks.errors import InputError
from clozeworks.rng import RandomStream
from clozeworks.tasks.spans.windows import by_item
from clozeworks.tasks.task import Change, Task
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.words import word_starts

# Items whose lengths are looked at to know how many make a step.
_LOOKED_AT = 1_000
# Windows of one item have neighbouring numbers.
_MOST_WINDOWS = 1 << 20


@dataclass(frozen=True)
class GuideVectors:
    """What a frozen model says of all texts."""

    numbers: Mapping[str, int]
    """The row of each text."""
    vectors: Float32Array

    def of(self, texts: Sequence[str]) -> Float32Array:
        """The vectors of some of them."""
        return self.vectors[[self.numbers[text] for text in texts]]


class TaskExamples(Examples):
    """Items of a task, by number; each gives as many sequences as it has windows.

    Args:
        task: The task.
        items: Labelled items.
        tokenizer: The model's tokenizer.
        max_length: The most tokens the model takes.
        change: Changes an item for an epoch; a pure function.
        mixed: Says which item each example is, where several tasks are mixed.
    """

    def __init__(
        self,
        task: Task[Any, Any],
        items: Sequence[Any],
        tokenizer: Tokenizer,
        *,
        max_length: int | None,
        change: Change | None = None,
        mixed: Mixed | None = None,
    ) -> None:
        if not items:
            raise InputError("there are no items; training needs at least one; check the file.")
        self.task = task
        self.items = items
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.change = change
        self.mixed = mixed
        self.guided: GuideVectors | None = None
        limit = task.windows.limit(max_length)
        self.longest = limit if limit is not None else 1 << 30
        self._starts = word_starts(tokenizer) if task.knows_words else None

    @cached_property
    def mean_length(self) -> float:
        """Tokens of an item, all its windows together: the mean of up to 1,000 of them."""
        wanted = min(len(self.items), _LOOKED_AT)
        chosen = np.linspace(0, len(self.items) - 1, wanted).astype(np.int64)
        some = [self.items[index] for index in chosen]
        windows = self.task.windows_of(some, self.tokenizer, self.max_length)
        return sum(map(len, windows)) / wanted

    def size(self, epoch: int) -> int:
        """Every epoch shows every item; of mixed tasks as many as they come to together."""
        return len(self.items) if self.mixed is None else self.mixed.size

    def take(self, epoch: int, indices: Int64Array) -> ExampleArrays:
        """Some items of an epoch; the windows of each stand one after the other."""
        numbers = (indices if self.mixed is None else self.mixed.chosen(epoch, indices)).tolist()
        items = [self.items[index] for index in numbers]
        items = self._changed(items, epoch, indices.tolist())
        windows = self.task.windows_of(items, self.tokenizer, self.max_length)
        targets = [
            target
            for item, own in zip(items, by_item(windows), strict=True)
            for target in self.task.targets(item, own)
        ]
        if self.guided is not None:
            told = self.guided.of([items[each.item].texts[each.first] for each in windows])
            targets = [
                replace(target, label=np.concatenate([target.label, vector]))
                for target, vector in zip(targets, told, strict=True)
            ]
        own = np.array([indices[window.item] for window in windows], np.int64)
        number = np.array([window.first for window in windows], np.int64)
        labels = [target.label for target in targets if target.label is not None]
        tokens = [target.tokens for target in targets if target.tokens is not None]
        ids = _joined([window.encoded.ids for window in windows])
        return ExampleArrays(
            ids=ids,
            types=_joined([window.encoded.types for window in windows]),
            special=_joined([window.encoded.special for window in windows]).astype(np.bool_),
            word_starts=np.zeros(len(ids), np.bool_) if self._starts is None else self._starts[ids],
            lengths=np.array([len(window) for window in windows], np.int64),
            epochs=np.full(len(windows), epoch, np.int64),
            indices=own * _MOST_WINDOWS + number % _MOST_WINDOWS,
            labels=np.array(labels) if labels else None,
            token_labels=np.concatenate(tokens) if tokens else None,
        )

    def _changed(self, items: Sequence[Any], epoch: int, indices: Sequence[int]) -> list[Any]:
        """Items as an epoch shows them."""
        if self.change is None:
            return list(items)
        numbered = zip(items, indices, strict=True)
        return [self.change(item, epoch, index) for item, index in numbered]


class DistinctExamples(TaskExamples):
    """Items of which no step shows a text twice.

    Args:
        task: The task.
        items: Items with texts.
        tokenizer: The model's tokenizer.
        max_length: The most tokens the model takes.
        batch_size: Items of a step.
        seed: The seed of the run: it decides the order.
        epochs: How many epochs there may be.
        change: Changes an item for an epoch; a pure function.
    """

    def __init__(
        self,
        task: Task[Any, Any],
        items: Sequence[Any],
        tokenizer: Tokenizer,
        *,
        max_length: int | None,
        batch_size: int,
        seed: int,
        epochs: int,
        change: Change | None = None,
    ) -> None:
        super().__init__(task, items, tokenizer, max_length=max_length, change=change)
        self.copies = max(1, epochs)
        self._size, self._seed = batch_size, seed
        self.epoch = lru_cache(maxsize=None)(self._epoch)

    def size(self, epoch: int) -> int:
        """As many as whole steps have."""
        return len(self.epoch(epoch).order)

    def order(self, epoch: int, rng: RandomStream) -> Int64Array:
        """A shuffle in which items wait for a step that has none of their texts."""
        return self.epoch(epoch).order

    def _epoch(self, epoch: int) -> DistinctOrder:
        shuffled = RandomStream(self._seed, "order").permutation(epoch, len(self.items))
        shown = self._changed(self.items, epoch, range(len(self.items)))
        return distinct_order([frozenset(item.texts) for item in shown], shuffled, self._size)


def _joined(lists: Sequence[list[Any]]) -> Int64Array:
    return np.array([value for values in lists for value in values], dtype=np.int64)
