"""Short forms of settings in Python: `lr=0.001` for `training={"learning_rate": 0.001}`.

What has no short form is written as in a recipe: `evaluation={"per_epoch": 4}`.
"""

import dataclasses
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any

from clozeworks.engine.settings import Training
from clozeworks.errors import SettingError, UnknownName
from clozeworks.jobs.finetune.recipe import LabelledData
from clozeworks.jobs.pretrain.recipe import make_way


def _own_names(table: str, settings: type) -> dict[str, str]:
    """The settings of a table by their own names."""
    return {field.name: f"{table}.{field.name}" for field in dataclasses.fields(settings)}


# Settings by their own names, unless several tables have one of that name, as every_steps.
PRETRAIN_KEYWORDS = {
    **_own_names("training", Training),
    "lr": "training.learning_rate",
    "dtype": "training.precision",
    "weight_decay": "training.optimizer.weight_decay",
    "warmup_steps": "training.schedule.warmup_steps",
    "warmup_fraction": "training.schedule.warmup_fraction",
    "trackers": "logging.trackers",
    "project": "logging.project",
}
_FILES = ("train", "dev")  # are arguments of their own
FINETUNE_KEYWORDS = {
    **PRETRAIN_KEYWORDS,
    "patience": "selection.patience",
    "metric": "task.metric",
    "label_loss": "task.label_loss",
    "max_length": "task.windows.length",
    "seed": "seeds",
    **{name: path for name, path in _own_names("data", LabelledData).items() if name not in _FILES},
}
# Tables of which True means: with the usual settings.
_SWITCHES = ("lora", "adversarial")
# Tables that may be given by their kind alone: optimizer="adafactor".
_KINDS = ("training.optimizer", "training.schedule", "augment")


def written_out(
    settings: Mapping[str, Any],
    forms: Mapping[str, str],
    tables: Collection[str],
    what: str = "A setting",
    others: Collection[str] = (),
) -> dict[str, Any]:
    """Settings as a recipe has them, from short forms and whole tables.

    A number of seeds means that many, counted from 0; one seed may be given as `seed`.

    Args:
        settings: Values by short forms, or by the names of a recipe's settings.
        forms: The short forms there are.
        tables: The names of the settings that a recipe has.
        what: What messages call one of them.
        others: What else a call takes, for messages.

    Raises:
        SettingError: If two of them say the same thing.
        UnknownName: If there is no such setting.
    """
    recipe: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in forms and name not in tables:
            raise UnknownName(what, name, {*forms, *tables, *others})
        path = forms.get(name, name)
        _put(recipe, path.split("."), _in_full(path, name, value), name)
    return recipe


def lay_over(data: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Puts settings into a recipe as plain data, in place of those that are there."""
    make_way(data, more)
    _merge(data, more)


def _merge(data: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value


def _in_full(path: str, name: str, value: Any) -> Any:
    if path == "seeds" and isinstance(value, int) and not isinstance(value, bool):
        return [value] if name == "seed" else list(range(value))
    if path in _SWITCHES and isinstance(value, bool):
        return {} if value else None
    if path in _KINDS and isinstance(value, str):
        return {"kind": value}
    if path == "logging.trackers" and isinstance(value, str):
        return [value]
    if path == "training.precision":
        return str(value).removeprefix("torch.")
    return value


def _put(table: dict[str, Any], path: list[str], value: Any, name: str) -> None:
    """Puts a value where its path leads, beside what is there."""
    *above, last = path
    for key in above:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            raise _twice(name, value, key)
        table = inner
    before = table.get(last)
    if isinstance(before, dict) and isinstance(value, Mapping):
        for key, each in value.items():
            _put(before, [key], each, f"{name}.{key}")
    elif last in table:
        raise _twice(name, value, last)
    else:
        table[last] = deepcopy(dict(value)) if isinstance(value, Mapping) else value


def _twice(name: str, value: Any, setting: str) -> SettingError:
    rule = f"{setting} is set a second time in the same call"
    return SettingError(name, value, rule, "leave one of them out")
