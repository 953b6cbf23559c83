"""A probed model with the probe on its last layer as its head."""

from collections.abc import Sequence

import torch

from clozeworks.core.heads.text_classes import TextClassesModule
from clozeworks.core.heads.tokens import ClassesModule, TokenClasses
from clozeworks.errors import SettingError, Stated, UnsupportedError
from clozeworks.families.family import Config
from clozeworks.inference.features import LAST
from clozeworks.jobs.probe.job import Probed
from clozeworks.language_model import LanguageModel
from clozeworks.tasks.tag import HEAD


def check_written(layers: Sequence[str] | None) -> None:
    """Checks that the probe on the last layer, which can be the head of a model, is among them.

    Raises:
        SettingError: If it is not.
    """
    if layers is not None and LAST not in layers:
        rule = "the head of a model reads the last layer"
        raise SettingError("layers", Stated(",".join(layers)), rule, "add last")


def check_head(model: LanguageModel, task: str) -> None:
    """Checks that a family's head for a task is one linear layer, so that a probe can replace it.

    Raises:
        UnsupportedError: If the head has further layers.
    """
    if task != "tag" or HEAD not in model.family.paths:
        return
    made = model.family.blueprint(Config(model.checkpoint.config), frozenset({HEAD}))
    if not isinstance(made.heads[HEAD], TokenClasses):
        raise UnsupportedError(
            f"the tagging head of {model.family.model_type} has a further layer, so a linear probe "
            "cannot replace it; probe without --out, or use clozeworks finetune tag."
        )


def with_probe(model: LanguageModel, probed: Probed) -> LanguageModel:
    """Returns the model with the probe on its last layer as its head.

    Raises:
        SettingError: If the last layer was not probed.
        UnsupportedError: If the family's head has further layers.
    """
    check_head(model, probed.task.name)
    check_written([row.layers for row in probed.rows])
    row = next(row for row in probed.rows if row.layers == LAST)
    made = model.for_task(probed.task)
    head = made.model.heads[getattr(probed.task, "head", HEAD)]
    classes = head.classes if isinstance(head, TextClassesModule) else head
    assert isinstance(classes, ClassesModule)
    with torch.no_grad():
        classes.project.weight.copy_(torch.from_numpy(row.linear.weight))
        classes.project.bias.copy_(torch.from_numpy(row.linear.bias))
    return made
