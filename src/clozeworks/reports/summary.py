"""What is told of a fine-tuning run, by its page and by its model's card alike."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clozeworks.engine.metrics import FILE, read
from clozeworks.jobs.finetune.baseline import GuessingBaseline
from clozeworks.jobs.finetune.data import LabelledTask
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.jobs.finetune.run import RunResult
from clozeworks.reports.data_page import in_both
from clozeworks.tasks.metrics.measured import Measured


@dataclass(frozen=True)
class Trial:
    """A setting that a search tried.

    Attributes:
        setting: What was tried, in words.
        result: What it came to, on the items that choose.
        kept: Whether it was the best.
    """

    setting: str
    result: RunResult
    kept: bool


@dataclass(frozen=True)
class RunSummary:
    """A run that is done.

    Attributes:
        folder: The run.
        recipe: Its recipe.
        data: The task and its items.
        results: What each seed came to.
        best: The one whose model is kept.
        guess: What guessing comes to; None if that could not be found out.
        answers: What the best model says of the dev set; empty if it could not be asked.
        frozen: What did not change while training, in a sentence.
        trials: What a search tried before; empty if there was none.
    """

    folder: Path
    recipe: FinetuneRecipe
    data: LabelledTask
    results: Sequence[RunResult]
    best: RunResult
    guess: GuessingBaseline | None = None
    answers: Sequence[Any] = ()
    frozen: str = ""
    trials: Sequence[Trial] = ()

    @cached_property
    def records(self) -> dict[int, list[dict[str, Any]]]:
        """What each seed measured."""
        return {result.seed: list(read(result.folder / FILE)) for result in self.results}

    @property
    def is_better_than_guessing(self) -> bool:
        """Whether the model is, as far as is known."""
        return self.guess is None or self.guess.beaten_by(self.best.measured)

    def spread(self) -> str:
        """How much seeds differ, in a sentence."""
        values = [result.measured.value for result in self.results]
        if len(values) == 1:
            return "There was one seed; how much others differ is not known."
        said = (
            f"Over {len(values)} seeds: mean {statistics.mean(values):.4f}, spread "
            f"{statistics.stdev(values):.4f}."
        )
        if self.trials:
            return f"{said} What is shown is the one that was best on the items that choose."
        return f"{said} What is shown is the best of them, which flatters."

    def searched(self) -> list[str]:
        """What a search did, in sentences; nothing if there was none."""
        if not self.trials:
            return []
        best = next(trial for trial in self.trials if trial.kept)
        there = best.result.measured
        return [
            f"The best of {len(self.trials)} settings was {best.setting}. It had "
            f"{number(there.value)} on the {there.count:,} items that chose it, which flatters; "
            f"the value above is of {self.best.measured.count:,} items that had no say."
        ]

    def compared(self) -> list[str]:
        """What a model that is better than guessing is worth beside it, in sentences."""
        measured, guess = self.best.measured, self.guess
        if guess is None or not self.is_better_than_guessing:
            return []
        there = number(guess.measured.value)
        said = [f"{guess.how[0].upper()}{guess.how[1:]} has {there} on the same items."]
        if guess.in_reach_of(measured):
            said.append("The interval holds that value: the model may be no better than guessing.")
        else:
            said.append("The model is clearly better.")
        error = "mean_squared_error"
        if error in measured.values and measured.values[error] > guess.measured.values[error]:
            said.append(
                f"But its squared error is larger, {number(measured.values[error])} against "
                f"{number(guess.measured.values[error])}: the order of its numbers means "
                "something, their size does not."
            )
        return [" ".join(said)]

    def warnings(self) -> list[str]:
        """What a reader must not miss, in sentences."""
        measured, guess, found = self.best.measured, self.guess, []
        if guess is not None and not self.is_better_than_guessing and measured.value == 1:
            found.append(
                f"Every answer about the dev set is right, but {guess.how} is right everywhere, "
                "too: this dev set cannot show what was learned; give a larger one."
            )
        elif guess is not None and not self.is_better_than_guessing:
            found.append(
                f"The model is no better than guessing: {measured.primary} is "
                f"{number(measured.value)}, and {guess.how} has {number(guess.measured.value)}. It "
                "has not learned the task, or lost what it knew: look at the curve of the training "
                "loss, and try a lower training.learning_rate, more epochs or more data."
            )
        both = in_both(self.data.report)
        if both:
            found.append(
                f"Texts of the dev set that also stand in the training data: {both:,} of "
                f"{len(self.data.dev):,}. The values flatter; remove them from one of the two."
            )
        return found


def main_values(measured: Measured) -> list[str]:
    """The names of the values a reader wants, the primary one first.

    What is known of each type of entity, and of thresholds, stands elsewhere.
    """
    others = [name for name in measured.values if " " not in name and not name.startswith("best_")]
    return [measured.primary, *(name for name in others if name != measured.primary)]


def number(value: float) -> str:
    """A value with three digits behind the point, or with three that count if it is tiny."""
    return f"{value:.2e}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"
