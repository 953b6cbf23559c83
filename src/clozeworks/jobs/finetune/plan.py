"""What a recipe of fine-tuning means for a number of items: steps, rate, and what happens when."""

import math
from dataclasses import dataclass

from clozeworks.engine.optimizers.adafactor import Adafactor
from clozeworks.engine.optimizers.adam_w import AdamW
from clozeworks.engine.schedules.constant import Constant
from clozeworks.engine.schedules.linear import Linear
from clozeworks.engine.settings import Logging, Training
from clozeworks.jobs.finetune.recipe import (
    FinetuneRecipe,
    FinetuneTraining,
    usual_epochs,
    usual_rate,
)
from clozeworks.wording import counted

# Lines of metrics an epoch has at least.
_LINES = 20
_DECAY = 0.01
# Paper: Raffel et al. 2020; a share of the weights.
_ADAFACTOR_RATE = 1e-3


@dataclass(frozen=True)
class FinetunePlan:
    """How many steps there are, and what happens when.

    Attributes:
        steps: Steps of a seed.
        items: Items of a step.
        epoch: Steps of an epoch, a share of one included.
        rate: The highest rate.
        epochs: How often each item is seen.
        falls: Whether the rate falls to 0 in the end.
    """

    steps: int
    items: int
    epoch: float
    rate: float
    epochs: float
    falls: bool = True

    @classmethod
    def of(
        cls, recipe: FinetuneRecipe, items: int, parameters: int, *, encoder_decoder: bool = False
    ) -> "FinetunePlan":
        """What a recipe means for so many items and a model of so many parameters."""
        fitting = recipe.training
        epochs = fitting.epochs or usual_epochs(recipe.task["kind"], items)
        size = min(fitting.items, items)
        epoch = items / size
        rate = fitting.rate or _rate(fitting, parameters, encoder_decoder=encoder_decoder)
        falls = fitting.update.schedule == "linear"
        return cls(max(1, math.ceil(epoch * epochs)), size, epoch, rate, epochs, falls)

    def said(self) -> str:
        """What was chosen, in a sentence."""
        often = "1 epoch" if self.epochs == 1 else f"{self.epochs:g} epochs"
        return (
            f"{counted(self.steps, 'step')} of {counted(self.items, 'item')} ({often}); the rate "
            f"rises to {self.rate:g} and {'falls to 0' if self.falls else 'stays there'}."
        )

    def training(self, recipe: FinetuneRecipe) -> Training:
        """The settings of the engine."""
        update = recipe.training.update
        warmup = min(self.steps - 1, round(update.warmup * self.steps))
        decay = _DECAY if update.decay is None else update.decay
        factored = update.optimizer == "adafactor"
        return Training(
            steps=self.steps,
            optimizer=Adafactor(rate=self.rate) if factored else AdamW(rate=self.rate, decay=decay),
            schedule=Linear(warmup=warmup) if self.falls else Constant(warmup=warmup),
            precision=update.precision,
        )

    def watching(self, recipe: FinetuneRecipe) -> Logging:
        """When the model is judged, and when a line is written."""
        choosing = recipe.choosing
        every = choosing.every or max(1, round(self.epoch / choosing.evaluations))
        return Logging(every=max(1, min(every, round(self.epoch / _LINES))), evaluate=every)


def _rate(fitting: FinetuneTraining, parameters: int, *, encoder_decoder: bool) -> float:
    if fitting.update.optimizer == "adafactor":
        return _ADAFACTOR_RATE
    return usual_rate(parameters, fitting.lora, encoder_decoder=encoder_decoder)
