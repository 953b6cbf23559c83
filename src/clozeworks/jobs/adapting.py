"""What fine-tuning does beside the plain thing: low-rank differences, and answers that hold still.

Each is a transform: of the built network, of the rates, of the objective. A run without them is not
touched by this file.
"""

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from clozeworks.checkpoints.adapters import Pair, write_adapter
from clozeworks.compress.lora import Lora, adapted, merge_lora
from clozeworks.core.spec import spec
from clozeworks.engine.rates import Places, Rates
from clozeworks.jobs.finetune_recipe import Fitting
from clozeworks.language_model import LanguageModel
from clozeworks.objectives.adversarial import Adversarial
from clozeworks.objectives.objective import Objective
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.task import Task

ADAPTER = "adapter"


@spec
class RatesOfFree(Rates):
    """Rates for a network some of whose weights are frozen already, and stay so."""

    def apply(self, model: nn.Module) -> Places:
        """Freezes more, and thaws nothing that was frozen before."""
        frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        places = super().apply(model)
        for parameter in frozen:
            parameter.requires_grad_(False)
        return places


def settled(task: Task[Any, Any], items: Sequence[Any]) -> Task[Any, Any]:
    """The task with everything that depends on the training items as numbers."""
    return task.settled(items) if isinstance(task, Classify | Tag) else task


def objective_of(task: Task[Any, Any], fitting: Fitting) -> Objective:
    """What is trained: the task, wrapped if it is asked to hold still."""
    if fitting.adversarial is None:
        return task
    return Adversarial(objective=task, move=fitting.adversarial)


def rates_of(fitting: Fitting) -> Rates:
    """How the rate differs from layer to layer."""
    if fitting.lora is None:
        return fitting.rates
    fields = {f.name: getattr(fitting.rates, f.name) for f in dataclasses.fields(Rates)}
    return RatesOfFree(**fields)


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
