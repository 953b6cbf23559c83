"""What a pre-training run came to, and how it is said in a few lines."""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.engine.trainer import Outcome
from clozeworks.jobs.pretrain.baseline import Baseline
from clozeworks.jobs.training_result import TrainingResult
from clozeworks.text.characters import is_chinese
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

# What teaches an encoder-decoder to write into gaps.
FILLS_SPANS = frozenset({"span_corruption", "denoisers"})


@dataclass(frozen=True, repr=False)
class Pretrained(TrainingResult):
    """What a run came to."""

    folder: Path
    """The run."""
    outcome: Outcome
    """How it ended."""
    model: Path | None
    """The model folder; None if the run is not at its end."""
    records: list[dict[str, Any]]
    """What was measured."""
    baseline: Baseline | None
    """What guessing by frequency costs on the held-out text."""
    report: Path | None = None
    """The page about it; None if it could not be written, or another rank writes it."""
    filling: Path | None = None
    """The folder of a model that can fill gaps: the model's, that of one trained beside it, or
    None."""
    example: str = "A [MASK] text."
    """A text with a gap, in the language of the vocabulary."""
    writing: str | None = None
    """A text that the model goes on with, or answers; None if it does not write."""

    def summary(self) -> list[str]:
        """What came out, in a few lines."""
        outcome = self.outcome
        lines = [
            f"{counted(outcome.step, 'step')}, {counted(outcome.tokens, 'token')} in "
            f"{outcome.seconds:,.0f} s "
            f"({outcome.tokens / max(outcome.seconds, 1e-9):,.0f} a second)."
        ]
        if outcome.guards.skipped or outcome.guards.spikes:
            lines.append(
                f"{counted(outcome.guards.skipped, 'update was', 'updates were')} left out, "
                f"{counted(outcome.guards.spikes, 'loss was', 'losses were')} far above the usual."
            )
        measured = [record["evaluation"] for record in self.records if "evaluation" in record]
        if measured:
            first, last = measured[0], measured[-1]
            lines += [
                _change(name, first[name], part) for name, part in last.items() if name != "loss"
            ]
        if self.baseline:
            lines.append(
                f"Guessing by frequency costs {self.baseline.loss:.3f} and is right "
                f"{self.baseline.accuracy:.1%} of the time."
            )
        if self.report:
            lines.append(f"Curves and everything else: {self.report}")
        return lines

    def next_command(self) -> str:
        """Where the model is, and how to try it."""
        model, example = shlex.quote(str(self.model)), shlex.quote(self.example)
        if self.writing is not None:
            text = shlex.quote(self.writing)
            return f"The model is in {model}; try it: clozeworks generate {model} {text}"
        if self.filling is None:
            return f"The model is in {model}; try it: clozeworks embed {model} 'A text.'"
        if self.filling == self.model:
            return f"The model is in {model}; try it: clozeworks fill {model} {example}"
        other = shlex.quote(str(self.filling))
        return (
            f"The model is in {model}, the {self.filling.name} in {other}; the second fills gaps: "
            f"clozeworks fill {other} {example}"
        )


def example_of(tokenizer: Tokenizer) -> str:
    """A text with a gap: Chinese if a quarter of the vocabulary is, else English."""
    pieces = tokenizer.vocabulary()
    chinese = 4 * sum(map(is_chinese, pieces)) >= len(pieces)
    mask = tokenizer.special.mask or "[MASK]"
    return f"今天天气很{mask}。" if chinese else f"A {mask} text."


def beginning_of(blueprint: Blueprint, loss_names: Collection[str]) -> str | None:
    """A text to go on with or to answer; None for a model that does not write, or fills gaps."""
    return "A text" if blueprint.can_generate and not FILLS_SPANS & set(loss_names) else None


def _change(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """What training did to a loss, and to the predictions where these can be right."""
    sentence = f"{name}: {before['loss']:.3f} before, {after['loss']:.3f} after"
    if "accuracy" in after:
        sentence += f"; {before['accuracy']:.1%} right before, {after['accuracy']:.1%} after"
    return sentence + "."
