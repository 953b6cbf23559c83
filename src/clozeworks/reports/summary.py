"""The summary of a fine-tuning run, for its page and its model's card.

All of it is plain data: a job fills it in, and nothing here knows a job or a task.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clozeworks.data.labelled.report import Report
from clozeworks.tasks.metrics.measured import Measured, number_text
from clozeworks.tasks.results.details import Detail, Mistakes

BEFORE = "the model before training"
"""What is compared with where nothing can be guessed and a model needs no training to answer."""


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed."""

    seed: int
    step: int
    """The step of the best weights."""
    steps: int
    """Steps done in all."""
    tokens: int
    seconds: float
    """Time spent, over all sessions."""
    measured: Measured
    """How good the best weights are on the dev set."""


@dataclass(frozen=True)
class SeedSummary(SeedResult):
    """The result of one seed, and what its files say."""

    records: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """The lines of its metrics file."""
    sessions: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """The lines of its file of sessions."""


@dataclass(frozen=True)
class TrialSummary:
    """A setting that a search tried."""

    setting: str
    """What was tried, in words."""
    run: SeedSummary
    """What it came to, on the items that choose."""
    kept: bool
    """Whether it was the best."""


@dataclass(frozen=True)
class CardUsage:
    """How a model's card says the model is used."""

    pipeline_tag: str
    """What hubs sort the model under."""
    clozeworks: str
    """A line of Python that asks `model`."""
    transformers: str | None = None
    """A whole snippet for transformers; None if transformers cannot do the same."""
    differences: Sequence[str] = ()
    """Where transformers predicts something else, in sentences."""


@dataclass(frozen=True)
class FinetuneSummary:
    """A fine-tuning run that is finished."""

    name: str
    task: str
    task_title: str
    """The task in words."""
    loss_name: str
    """The name of its loss in the metrics."""
    recipe: Mapping[str, Any]
    data: Report
    """What is known of the labelled data."""
    dev_size: int
    """How many items the dev set has."""
    runs: Sequence[SeedSummary]
    """What each seed came to."""
    best: SeedSummary
    """The one whose model is kept."""
    guess: Measured | None = None
    """What guessing scores, if that is known."""
    guessed: str = ""
    """How it guesses, in a few words."""
    details: Sequence[Detail] = ()
    """Tables, charts and texts about the predictions."""
    mistakes: Mistakes | None = None
    """The wrong predictions, if they are known."""
    training: Sequence[str] = ()
    """How texts were read and what was trained, in sentences."""
    trials: Sequence[TrialSummary] = ()
    """What a search tried before; empty if there was none."""
    notes: Sequence[str] = ()
    """Messages of the run."""

    @property
    def baseline(self) -> str:
        """What is compared with, in a word: guessing, or the same model before training."""
        return "before" if self.guessed == BEFORE else "guessing"

    @property
    def is_better_than_guessing(self) -> bool:
        """Whether the model is, as far as is known."""
        return self.guess is None or self.best.measured.better_than(self.guess)

    def results(self) -> list[tuple[str, str, str, str]]:
        """The names of the values a reader wants, each with its value, interval and guess."""
        measured, guesses = self.best.measured, self.guess.values if self.guess else {}
        return [
            (
                name,
                number_text(measured.values[name]),
                measured.interval_text(name),
                number_text(guesses.get(name)),
            )
            for name in main_values(measured)
        ]

    def remarks(self) -> list[str]:
        """What a reader must know about the values, in sentences."""
        return [f"{remark[0].upper()}{remark[1:]}" for remark in self.best.measured.remarks]

    def spread(self) -> str:
        """How much seeds differ, in a sentence."""
        values = [run.measured.value for run in self.runs]
        if len(values) == 1:
            return "Only one seed was trained, so the variation between seeds is unknown."
        sentence = (
            f"Over {len(values)} seeds: mean {statistics.mean(values):.4f}, standard deviation "
            f"{statistics.stdev(values):.4f}."
        )
        if self.trials:
            return f"{sentence} The seed shown is the one that was best on the items that choose."
        return f"{sentence} The seed shown is the best of them, so its value is optimistic."

    def searched(self) -> list[str]:
        """What a search did, in sentences; nothing if there was none."""
        if not self.trials:
            return []
        best = next(trial for trial in self.trials if trial.kept)
        there = best.run.measured
        return [
            f"The best of {len(self.trials)} settings was {best.setting}. It scored "
            f"{number_text(there.value)} on the {there.count:,} items that chose it, which is "
            f"optimistic; the value above was measured on {self.best.measured.count:,} items that "
            "were not used to choose anything."
        ]

    def compared(self) -> list[str]:
        """How a model that is better than guessing compares with it, in sentences."""
        measured, guess = self.best.measured, self.guess
        if guess is None or not self.is_better_than_guessing:
            return []
        how = f"{self.guessed[:1].upper()}{self.guessed[1:]}"
        sentences = [f"{how} scores {number_text(guess.value)} on the same items."]
        low, high = measured.intervals.get(measured.primary, (measured.value, measured.value))
        if low <= guess.value <= high:
            sentences.append(
                "The interval includes that value: the model may be no better than "
                f"{self.baseline}."
            )
        else:
            sentences.append("The model is clearly better.")
        error = "mean_squared_error"
        if error in measured.values and measured.values[error] > guess.values[error]:
            sentences.append(
                f"But its squared error is larger, {number_text(measured.values[error])} versus "
                f"{number_text(guess.values[error])}: the order of its numbers is meaningful, "
                "their scale is not."
            )
        return [" ".join(sentences)]

    def warnings(self) -> list[str]:
        """What a reader must not miss, in sentences."""
        measured, guess, sentences = self.best.measured, self.guess, []
        if guess is not None and not self.is_better_than_guessing and measured.value == 1:
            sentences.append(
                f"Every prediction on the dev set is right, but {self.guessed} is always right, "
                "too: this dev set cannot show what was learned; use a larger one."
            )
        elif guess is not None and not self.is_better_than_guessing and self.guessed == BEFORE:
            sentences.append(
                f"The model is no better than before training: {measured.primary} is "
                f"{number_text(measured.value)}, and was {number_text(guess.value)}. Keep the one "
                "you had, or try a lower learning rate, more data, or data of another kind."
            )
        elif guess is not None and not self.is_better_than_guessing:
            sentences.append(
                f"The model is no better than guessing: {measured.primary} is "
                f"{number_text(measured.value)}, and {self.guessed} scores "
                f"{number_text(guess.value)}. It has not learned the task, or has forgotten what "
                "it knew: look at the curve of the training loss, and try a lower learning rate, "
                "more epochs or more data."
            )
        both = sum(each.count for each in self.data.findings if each.name == "in both")
        if both:
            sentences.append(
                f"{both:,} of {self.dev_size:,} texts of the dev set also appear in the training "
                "data, so the values are too optimistic; remove them from one of the two."
            )
        return sentences


def main_values(measured: Measured) -> list[str]:
    """The names of the values a reader wants, the primary one first.

    Values of single labels, and of thresholds, stand elsewhere.
    """
    others = [name for name in measured.values if " " not in name and not name.startswith("best_")]
    return [measured.primary, *(name for name in others if name != measured.primary)]
