"""What a recipe of fine-tuning means for a model and a number of items: what it left open, settled.

Everything has a default that suits the task and the size of the model; what was chosen is stated
and saved with the run.
"""

import math
from dataclasses import dataclass, replace

from clozeworks.engine.settings import Evaluation, Logging, Training
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.tasks.task import task_class
from clozeworks.wording import counted

_WARMUP_FRACTION = 0.1
# Steps; what would be shorter is left out.
_SHORTEST_WARMUP = 2
_EVALUATIONS_PER_EPOCH = 2
# Lines of metrics an epoch has at least.
_LINES = 20
# Below so many items a set is small, and is gone through more often.
_FEW = 5_000
# Parameters of a model, and the learning rate that suits a model of at least that many.
_LEARNING_RATES = ((200_000_000, 2e-5), (60_000_000, 3e-5), (15_000_000, 5e-5), (0, 2e-4))
# Thin matrices that begin at 0 need larger steps: the published rates of low-rank adaptation are
# about ten times those of whole models.
_LORA_TIMES = 10
# T5 and its relatives begin with larger weights than others, and are trained with larger steps.
_ENCODER_DECODER_TIMES = 5
# Paper: Raffel et al. 2020; a fraction of the weights.
_RELATIVE_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class FinetunePlan:
    """A recipe with everything settled."""

    training: Training
    """Steps, batch size, learning rate and schedule are all given."""
    logging: Logging
    """When a line of metrics is written."""
    evaluation: Evaluation
    """When the model is measured on the dev set."""
    epochs: float
    """How often each item is seen."""

    @classmethod
    def of(
        cls,
        recipe: FinetuneRecipe,
        items: int,
        parameters: int,
        *,
        encoder_decoder: bool = False,
        mean_length: float = 1.0,
    ) -> "FinetunePlan":
        """Settles a recipe for the number of items of an epoch and the size of the model."""
        training, logging, evaluation = recipe.training, recipe.logging, recipe.evaluation
        size = training.batch_size or task_class(recipe.task["kind"]).usual_batch_size
        if training.batch_tokens is not None:
            size = max(1, round(training.batch_tokens / mean_length))
        size = min(size, items)
        epoch_steps = items / size
        if training.steps is not None:
            steps, epochs = training.steps, training.steps / epoch_steps
        else:
            epochs = training.epochs or usual_epochs(recipe.task["kind"], items)
            steps = max(1, math.ceil(epoch_steps * epochs))
        schedule = training.schedule
        if schedule.warmup_steps is None and schedule.warmup_fraction is None:
            # The first step of a warm-up has rate 0; in a short run that would be all of it.
            short = _WARMUP_FRACTION * steps < _SHORTEST_WARMUP
            schedule = replace(schedule, warmup_fraction=0.0 if short else _WARMUP_FRACTION)
        training = replace(
            training,
            steps=steps,
            epochs=None,
            batch_size=size,
            batch_tokens=None,
            learning_rate=training.learning_rate
            or _learning_rate(recipe, parameters, encoder_decoder=encoder_decoder),
            schedule=schedule,
        )
        if evaluation.every_steps is None and evaluation.per_epoch is None:
            evaluation = replace(evaluation, per_epoch=_EVALUATIONS_PER_EPOCH)
        evaluation = evaluation.settled(epoch_steps)
        if logging.every_steps is None:
            line = max(1, round(epoch_steps / _LINES))
            logging = replace(logging, every_steps=min(evaluation.every_steps or line, line))
        return cls(training, logging, evaluation, epochs)

    @property
    def steps(self) -> int:
        """Steps of a seed."""
        assert self.training.steps is not None
        return self.training.steps

    @property
    def batch_size(self) -> int:
        """Items of a step."""
        assert self.training.batch_size is not None
        return self.training.batch_size

    def message(self) -> str:
        """What was chosen, in a sentence."""
        often = "1 epoch" if self.epochs == 1 else f"{round(self.epochs, 2):g} epochs"
        peak, end = self.training.learning_rate, self.training.schedule.factor(*[self.steps] * 2)
        assert peak is not None
        ends = "stays there" if end == 1 else f"falls to {peak * end:g}"
        begins = "rises to" if self.training.schedule.warmup(self.steps) else "begins at"
        return (
            f"{counted(self.steps, 'step')} of {counted(self.batch_size, 'item')} ({often}); the "
            f"learning rate {begins} {peak:g} and {ends}."
        )


def usual_learning_rate(
    parameters: int, *, lora: bool = False, encoder_decoder: bool = False
) -> float:
    """The learning rate that suits a model of so many parameters, or low-rank differences of it."""
    rate = next(rate for least, rate in _LEARNING_RATES if parameters >= least)
    rate *= _ENCODER_DECODER_TIMES if encoder_decoder else 1
    return _LORA_TIMES * rate if lora else rate


def usual_epochs(kind: str, items: int) -> float:
    """How often a set of so many items is gone through."""
    usual = task_class(kind).usual_epochs
    return usual if items >= _FEW else 2 * usual


def _learning_rate(recipe: FinetuneRecipe, parameters: int, *, encoder_decoder: bool) -> float:
    if recipe.training.optimizer.relative_steps:
        return _RELATIVE_LEARNING_RATE
    return usual_learning_rate(
        parameters, lora=recipe.lora is not None, encoder_decoder=encoder_decoder
    )
