"""What is told of a fine-tuning run, by its page and by its model's card alike.

All of it is plain data: a job fills it in, and nothing here knows a job or a task.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clozeworks.data.labelled.report import Report
from clozeworks.reports.render import number_text
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import Detail, Mistakes


@dataclass(frozen=True)
class SeedSummary:
    """What one seed came to.

    Attributes:
        seed: The seed.
        step: The step of the best weights.
        steps: Steps done in all.
        tokens: Tokens seen.
        seconds: Time spent, over all sessions.
        measured: How good the best weights are.
        records: The lines of its metrics file.
        sessions: The lines of its file of sessions.
    """

    seed: int
    step: int
    steps: int
    tokens: int
    seconds: float
    measured: Measured
    records: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    sessions: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


@dataclass(frozen=True)
class TrialSummary:
    """A setting that a search tried.

    Attributes:
        setting: What was tried, in words.
        run: What it came to, on the items that choose.
        kept: Whether it was the best.
    """

    setting: str
    run: SeedSummary
    kept: bool


@dataclass(frozen=True)
class CardUsage:
    """How a model's card says the model is used.

    Attributes:
        pipeline_tag: What hubs sort the model under.
        clozeworks: A line of Python that asks `model`.
        transformers: A whole snippet for transformers; None if transformers cannot do the same.
        differences: Where transformers predicts something else, in sentences.
    """

    pipeline_tag: str
    clozeworks: str
    transformers: str | None = None
    differences: Sequence[str] = ()


@dataclass(frozen=True)
class FinetuneSummary:
    """A fine-tuning run that is finished.

    Attributes:
        name: What the run is called.
        task: The name of the task.
        task_title: The task in words.
        loss_name: The name of its loss in the metrics.
        recipe: Its recipe.
        data: What is known of the labelled data.
        dev_size: How many items the dev set has.
        runs: What each seed came to.
        best: The one whose model is kept.
        guess: What guessing comes to; None if that is not known.
        guessed: How it guesses, in a few words.
        details: What the task shows of its predictions.
        mistakes: What it got wrong; None if that is not known.
        training: How texts were read and what was trained, in sentences.
        trials: What a search tried before; empty if there was none.
        notes: What the run said on its way.
    """

    name: str
    task: str
    task_title: str
    loss_name: str
    recipe: Mapping[str, Any]
    data: Report
    dev_size: int
    runs: Sequence[SeedSummary]
    best: SeedSummary
    guess: Measured | None = None
    guessed: str = ""
    details: Sequence[Detail] = ()
    mistakes: Mistakes | None = None
    training: Sequence[str] = ()
    trials: Sequence[TrialSummary] = ()
    notes: Sequence[str] = ()

    @property
    def is_better_than_guessing(self) -> bool:
        """Whether the model is, as far as is known."""
        return self.guess is None or self.best.measured.better_than(self.guess)

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
                "The interval includes that value: the model may be no better than guessing."
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
