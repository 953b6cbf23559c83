"""Short forms of changes stand for settings that exist, and change what they stand for."""

import pytest

from clozeworks.cli.training import FinetuneOptions, TrainingOptions, long_form
from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.jobs.pretrain.recipe import read_recipe

FINETUNE, PRETRAIN = FinetuneOptions.forms(), TrainingOptions.forms()
FINETUNING = {"run": "r", "model": "m", "task": {"kind": "classify"}, "data": {"train": ["a.csv"]}}
PRETRAINING = {
    "run": "r",
    "model": {"start": "bert-tiny"},
    "data": {"corpus": "c"},
    "objective": "bert",
    "training": {"steps": 5},
}
VALUES = {"dtype": "bfloat16", "device": "cpu"}


def value_at(recipe: object, path: str) -> object:
    for name in path.split("."):
        recipe = getattr(recipe, name)
    return recipe


@pytest.mark.parametrize("name", FINETUNE)
def test_each_short_form_sets_its_setting_of_fine_tuning(name: str) -> None:
    value = VALUES.get(name, 1)
    change = long_form(f"{name}={value}", FINETUNE)

    assert value_at(read_finetune_recipe(FINETUNING, [change]), FINETUNE[name]) == value


@pytest.mark.parametrize("name", PRETRAIN)
def test_each_short_form_sets_its_setting_of_pre_training(name: str) -> None:
    value = VALUES.get(name, 1)
    change = long_form(f"{name}={value}", PRETRAIN)

    assert value_at(read_recipe(PRETRAINING, [change]), PRETRAIN[name]) == value


def test_other_changes_are_left_as_they_are() -> None:
    assert long_form("data.corpus=lr", PRETRAIN) == "data.corpus=lr"
    assert long_form("lr", PRETRAIN) == "lr"
