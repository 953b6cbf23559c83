"""Short forms of settings for the command line: `lr` for `training.learning_rate`."""

from collections.abc import Mapping

# What is typed most often, and the setting of a recipe that it stands for.
PRETRAIN = {
    "steps": "training.steps",
    "learning_rate": "training.learning_rate",
    "lr": "training.learning_rate",
    "batch_size": "training.batch_size",
    "batch_tokens": "training.batch_tokens",
    "dtype": "training.precision",
    "device": "device",
}
FINETUNE = {**PRETRAIN, "epochs": "training.epochs"}


def long_form(change: str, forms: Mapping[str, str]) -> str:
    """A change of a setting with its whole path: `training.epochs=5` for `epochs=5`."""
    name, sign, value = change.partition("=")
    return f"{forms.get(name, name)}={value}" if sign else change
