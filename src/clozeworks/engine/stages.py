"""Where a run's batches come from, step by step: one loader after the other.

BERT trains nine tenths of its steps on texts of 128 tokens and the rest on 512. Each stage has a
loader of its own; which step belongs to which stage is known from the start, so any step can be
asked for at once.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.data.examples.loader import Loader
from clozeworks.objectives.batch import Batch, Vocabularies
from clozeworks.objectives.objective import Objective

MicroBatches = list[Batch]


@dataclass(frozen=True)
class Stage:
    """Some steps on one loader."""

    loader: Loader[MicroBatches]
    """Gives the micro-batches of a step; it counts its steps from 0."""
    steps: int
    """How many there are."""
    name: str = ""
    """What a person calls it."""


class Stages:
    """The stages of a run, one after the other."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)
        self._begins = [0, *accumulate(stage.steps for stage in stages)]
        self.steps = self._begins[-1]

    def batches(self, start: int = 0) -> Generator[tuple[int, MicroBatches], None, None]:
        """The micro-batches of each step from `start` on, with its number, made ahead."""
        for begin, stage in zip(self._begins, self.stages, strict=False):
            first = max(start - begin, 0)
            if first < stage.steps:
                batches = stage.loader.batches(first, stage.steps)
                yield from zip(range(begin + first, begin + stage.steps), batches, strict=True)

    def begins(self) -> dict[int, str]:
        """The step at which each stage after the first begins, and its name."""
        pairs = zip(self._begins[1:], self.stages[1:], strict=False)
        return {begin: stage.name for begin, stage in pairs}

    @property
    def epoch_steps(self) -> float:
        """Steps of the first epoch."""
        loader = self.stages[0].loader
        return loader.examples.size(0) / loader.batch_size

    def epoch_of(self, step: int) -> float:
        """How many epochs of its stage's data have passed when a step begins."""
        for begin, stage in reversed(list(zip(self._begins, self.stages, strict=False))):
            if step >= begin:
                return stage.loader.epoch_of(step - begin)
        return 0.0


@dataclass(frozen=True)
class MicroBatcher:
    """Makes the micro-batches of a step: each is collated on its own, which changes nothing."""

    objective: Objective
    """What is masked, and what the targets are."""
    seed: int
    """The seed of the run."""
    source: Vocabularies
    """What may be looked up."""
    micro_batch_tokens: int
    """The most tokens of a micro-batch."""
    workers: int
    """The number of micro-batches is a multiple of this."""
    by_length: bool = False
    """Whether a micro-batch has texts of nearly one length, which are computed faster side by side;
    only for a loss over the whole step, which puts them back in order."""

    def __call__(self, clean: ExampleArrays) -> MicroBatches:
        """The micro-batches of some examples."""
        count = 1
        if not self.objective.couples_examples:  # else the other examples are part of the question
            rounds = math.ceil(len(clean.ids) / (self.micro_batch_tokens * self.workers))
            count = max(rounds, 1) * self.workers
        if not self.by_length:
            return [self.objective.batch(part, self.seed, self.source) for part in clean.cut(count)]
        order = np.argsort(clean.lengths, kind="stable")
        parts = clean.some(order).cut(count)
        positions = np.split(order, np.cumsum([len(part) for part in parts])[:-1])
        return [
            replace(self.objective.batch(part, self.seed, self.source), positions=own)
            for part, own in zip(parts, positions, strict=True)
        ]
