"""Short forms of settings, for the command line and for Python's keywords: `lr`, `epochs`."""

from collections.abc import Mapping
from typing import Any

from clozeworks import config

# What is typed most often, and the setting of a recipe that it stands for. Both kinds of recipes
# have these; fine-tuning has a few more.
SHORT_FORMS = {
    "steps": "training.steps",
    "learning_rate": "training.learning_rate",
    "lr": "training.learning_rate",
    "batch_size": "training.batch_size",
    "batch_tokens": "training.batch_tokens",
    "weight_decay": "training.optimizer.weight_decay",
    "warmup_steps": "training.schedule.warmup_steps",
    "warmup_fraction": "training.schedule.warmup_fraction",
    "max_grad_norm": "training.max_grad_norm",
    "precision": "training.precision",
}
FINETUNE_SHORT_FORMS = {
    "epochs": "training.epochs",
    **SHORT_FORMS,
    "dev_fraction": "data.dev_fraction",
    "patience": "selection.patience",
}


def set_short_forms(
    recipe: dict[str, Any], given: Mapping[str, Any], forms: Mapping[str, str]
) -> None:
    """Writes the values of short forms into plain data of a recipe, each where it belongs.

    Args:
        recipe: What a recipe holds; it is changed.
        given: Values by short form; those that are None are not given.
        forms: The short forms there are.

    Raises:
        SettingError: If a path leads through a value that is not a table.
    """
    for name, value in given.items():
        if value is not None:
            config.put(recipe, forms[name], value)


def long_form(change: str, forms: Mapping[str, str]) -> str:
    """A change of a setting with its whole path: `training.epochs=5` for `epochs=5`."""
    name, sign, value = change.partition("=")
    return f"{forms.get(name, name)}={value}" if sign else change
