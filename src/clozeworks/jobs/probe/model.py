"""A probed model with the regression on its last layer as its head."""

from collections.abc import Sequence

import torch

from clozeworks.core.heads.text_classes import TextClassesModule
from clozeworks.core.heads.tokens import ClassesModule, TokenClasses
from clozeworks.errors import SettingError, UnsupportedError
from clozeworks.families.family import Config
from clozeworks.inference.features import LAST
from clozeworks.jobs.probe.job import Probed
from clozeworks.language_model import LanguageModel
from clozeworks.tasks.tag import HEAD


def check_written(layers: Sequence[str] | None) -> None:
    """Insists on layers whose regression can be the head of a model.

    Raises:
        SettingError: The last layer is not among them.
    """
    if layers is not None and LAST not in layers:
        raise SettingError(
            f"layers is {','.join(layers)}; the head of a model reads the last layer; add last."
        )


def check_head(model: LanguageModel, task: str) -> None:
    """Insists on a family whose head for a task reads vectors as they are.

    Raises:
        UnsupportedError: It has a layer before that, which a regression knows nothing of.
    """
    if task != "tag" or HEAD not in model.family.paths:
        return
    made = model.family.blueprint(Config(model.checkpoint.config), frozenset({HEAD}))
    if not isinstance(made.heads[HEAD], TokenClasses):
        raise UnsupportedError(
            f"{model.family.model_type} transforms tokens once more before it tags them, so a "
            "regression on its vectors cannot be its head; probe without --out, or use "
            "clozeworks finetune tag."
        )


def with_regression(model: LanguageModel, probed: Probed) -> LanguageModel:
    """The model with the regression on its last layer as its head.

    Args:
        model: The model that was probed.
        probed: What was found, the last layer among it.

    Raises:
        SettingError: The last layer was not read.
        UnsupportedError: The family's head cannot hold it.
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
