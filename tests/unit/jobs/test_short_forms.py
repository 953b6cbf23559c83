"""Short forms of settings stand for settings that exist, and change what they stand for."""

import pytest

from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.jobs.pretrain.recipe import read_recipe
from clozeworks.jobs.short_forms import (
    FINETUNE_SHORT_FORMS,
    SHORT_FORMS,
    long_form,
    set_short_forms,
)

FINETUNE = {"run": "r", "model": "m", "task": {"kind": "classify"}, "data": {"train": ["a.csv"]}}
PRETRAIN = {
    "run": "r",
    "model": {"start": "bert-tiny"},
    "data": {"corpus": "c"},
    "objective": "bert",
    "training": {"steps": 5},
}
VALUES = {
    "precision": "bfloat16",
    "dev_fraction": 0.25,
    "weight_decay": 0.25,
    "warmup_fraction": 0.25,
}


def value_at(recipe: object, path: str) -> object:
    for name in path.split("."):
        recipe = getattr(recipe, name)
    return recipe


@pytest.mark.parametrize("name", FINETUNE_SHORT_FORMS)
def test_each_short_form_sets_its_setting_of_fine_tuning(name: str) -> None:
    data: dict[str, object] = {key: FINETUNE[key] for key in FINETUNE}
    data["data"] = {"train": ["a.csv"]}
    value = VALUES.get(name, 1)

    set_short_forms(data, {"dev_fraction": None, name: value}, FINETUNE_SHORT_FORMS)

    assert value_at(read_finetune_recipe(data), FINETUNE_SHORT_FORMS[name]) == value


@pytest.mark.parametrize("name", SHORT_FORMS)
def test_each_short_form_sets_its_setting_of_pre_training(name: str) -> None:
    value = VALUES.get(name, 1)
    change = long_form(f"{name}={value}", SHORT_FORMS)

    assert value_at(read_recipe(PRETRAIN, [change]), SHORT_FORMS[name]) == value


def test_other_changes_are_left_as_they_are() -> None:
    assert long_form("data.corpus=lr", SHORT_FORMS) == "data.corpus=lr"
    assert long_form("lr", SHORT_FORMS) == "lr"


def test_a_value_where_a_table_belongs_is_named() -> None:
    with pytest.raises(SettingError, match="^training is 5; 'training.steps' changes a part of a"):
        set_short_forms({"training": 5}, {"steps": 3}, SHORT_FORMS)
