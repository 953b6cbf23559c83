"""What fine-tuning does beside the plain thing: low-rank differences, and answers that hold still.

Each is a transform: of the built network, or of the objective. A run without them is not
touched by this file.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clozeworks.checkpoints.adapters import Pair, write_adapter
from clozeworks.compress.lora import Lora, adapted, merge_lora
from clozeworks.jobs.finetune_recipe import Fitting
from clozeworks.language_model import LanguageModel
from clozeworks.objectives.adversarial import Adversarial
from clozeworks.objectives.objective import Objective
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.task import Task

ADAPTER = "adapter"


def settled(task: Task[Any, Any], items: Sequence[Any]) -> Task[Any, Any]:
    """The task with everything that depends on the training items as numbers."""
    return task.settled(items) if isinstance(task, Classify | Tag) else task


def objective_of(task: Task[Any, Any], fitting: Fitting) -> Objective:
    """What is trained: the task, wrapped if it is asked to hold still."""
    if fitting.adversarial is None:
        return task
    return Adversarial(objective=task, move=fitting.adversarial)


def merged_pairs(model: LanguageModel) -> dict[str, Pair]:
    """Makes an adapted network plain, and says what had been learned; nothing if it was plain."""
    pairs = {
        name: (module.lora_a.detach(), module.lora_b.detach())
        for name, module in adapted(model.model).items()
    }
    if pairs:
        merge_lora(model.model)
    return pairs


def save_with_adapter(
    model: LanguageModel, folder: Path, lora: Lora | None, pairs: Mapping[str, Pair], base: str
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
