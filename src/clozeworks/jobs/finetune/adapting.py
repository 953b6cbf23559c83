"""Variants of fine-tuning: LoRA, adversarial regularization (SiFT), scheduled sampling.

Each is a transform: of the built network, or of the objective. A run without them is not
touched by this file.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clozeworks.checkpoints.adapters import LowRankPair, write_adapter
from clozeworks.compress.lora import Lora, adapted, merge_lora
from clozeworks.errors import SET, SettingError
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.language_model import LanguageModel
from clozeworks.objectives.adversarial import Adversarial
from clozeworks.objectives.custom_loss import CustomLoss, LabelLossFunction
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.scheduled_sampling import ScheduledSampling
from clozeworks.tasks.task import Task

ADAPTER = "adapter"


def check_loss(
    task: Task[Any, Any], recipe: FinetuneRecipe, loss: LabelLossFunction | None
) -> None:
    """Refuses a loss of the user's own where it would have no effect.

    Raises:
        SettingError: If something else decides the loss.
    """
    if loss is None:
        return
    if not task.takes_loss:
        rule = f"the loss of {task.name} is not a function of logits and labels alone"
        raise SettingError("loss", SET, rule, "leave it out")
    if "label_loss" in recipe.task:
        raise SettingError("loss", SET, "`task.label_loss` is set, too", "leave one of them out")
    if recipe.adversarial is not None:
        raise SettingError("loss", SET, "`adversarial` is set, too", "leave one of them out")


def objective_of(
    task: Task[Any, Any], recipe: FinetuneRecipe, loss: LabelLossFunction | None = None
) -> Objective:
    """What is trained: the task, wrapped for a loss of the user's own, or for another variant."""
    if loss is not None:
        return CustomLoss(objective=task, function=loss)
    if recipe.adversarial is not None and task.texts_apart:
        rule = f"{task.name} compares vectors, and has no answers that could stay the same"
        raise SettingError("adversarial", SET, rule, "leave it out")
    if recipe.adversarial is not None:
        return Adversarial(objective=task, move=recipe.adversarial)
    if (sampling := recipe.scheduled_sampling) is not None:
        return ScheduledSampling(
            objective=task, teacher_forcing=sampling.teacher_forcing, choose=sampling.choose
        )
    return task


def sampling_messages(recipe: FinetuneRecipe, steps: int) -> list[str]:
    """How many of the target tokens are given in training, in a sentence; none if all are."""
    if recipe.scheduled_sampling is None:
        return []
    first, last = (
        recipe.scheduled_sampling.teacher_forcing.probability(step) for step in (0, steps - 1)
    )
    if last >= 1:
        rule = f"in all {steps:,} steps every target token is given, so it has no effect"
        advice = "lower its hold, let it fall faster, or leave it out"
        raise SettingError("scheduled_sampling", SET, rule, advice)
    return [
        f"Of the tokens before those of targets {first:.0%} are given at first and {last:.0%} in "
        "the last step; the others are what the model would have predicted."
    ]


def merged_pairs(model: LanguageModel) -> dict[str, LowRankPair]:
    """Makes an adapted network plain, and says what had been learned; nothing if it was plain."""
    pairs = {
        name: (module.lora_a.detach(), module.lora_b.detach())
        for name, module in adapted(model.model).items()
    }
    if pairs:
        merge_lora(model.model)
    return pairs


def save_with_adapter(
    model: LanguageModel,
    folder: Path,
    lora: Lora | None,
    pairs: Mapping[str, LowRankPair],
    base: str,
) -> None:
    """Saves a model, and beside its weights what was learned by low-rank differences."""
    # A session that was killed may have left one, and only whole model folders are replaced.
    shutil.rmtree(folder / ADAPTER, ignore_errors=True)
    model.save(folder, overwrite=True)
    if lora is not None:
        write_adapter(
            model.checkpoint,
            folder / ADAPTER,
            pairs,
            alpha=lora.alpha,
            dropout=lora.dropout,
            base=base,
        )
