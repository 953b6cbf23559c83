"""Short forms of settings lead to settings of a recipe, and never to two at once."""

import dataclasses

import pytest
import torch

from clozeworks import config
from clozeworks.cli.training import FinetuneOptions, TrainingOptions
from clozeworks.errors import SettingError, UnknownName
from clozeworks.jobs.finetune.recipe import FinetuneRecipe, read_finetune_recipe
from clozeworks.jobs.short_forms import FINETUNE_KEYWORDS, PRETRAIN_KEYWORDS, written_out

TABLES = {field.name for field in dataclasses.fields(FinetuneRecipe)}
LEAST = {"run": "r", "model": "m", "task": {"kind": "classify"}, "data": {"train": ["t.csv"]}}


def recipe(**settings):
    return read_finetune_recipe(written_out({**LEAST, **settings}, FINETUNE_KEYWORDS, TABLES))


@pytest.mark.parametrize("name", FINETUNE_KEYWORDS)
def test_each_leads_to_a_setting(name):
    table, path = config.plain(recipe()), FINETUNE_KEYWORDS[name].split(".")
    if path[0] == "task":
        table = {"task": {"metric": None, "label_loss": None, "windows": {"length": None}}}
    for key in path:
        assert key in table
        table = table[key]


def test_options_of_commands_are_keywords_and_mean_the_same():
    assert FINETUNE_KEYWORDS.items() | {("device", "device")} >= FinetuneOptions.forms().items()
    assert PRETRAIN_KEYWORDS.items() | {("device", "device")} >= TrainingOptions.forms().items()
    assert not FINETUNE_KEYWORDS.keys() & (TABLES - {"seeds"})


def test_they_are_written_out():
    settled = recipe(lr=0.1, epochs=2, weight_decay=0.5, patience=3, columns={"text": "t"})
    assert settled.training.learning_rate == 0.1 and settled.training.epochs == 2
    assert settled.training.optimizer.weight_decay == 0.5
    assert settled.selection.patience == 3 and settled.data.columns == {"text": "t"}
    settled = recipe(optimizer="lamb", lora=True, training={"epochs": 1}, batch_size=4)
    assert type(settled.training.optimizer).__name__ == "Lamb" and settled.lora is not None
    assert (settled.training.epochs, settled.training.batch_size) == (1, 4)
    assert recipe(lora=False).lora is None
    assert recipe(trackers="wandb").logging.trackers == ("wandb",)
    assert recipe(trackers=["wandb", "mlflow"], project="p").logging.project == "p"
    assert recipe(dtype=torch.bfloat16).training.precision == "bfloat16"
    assert recipe(seeds=3).seeds == (0, 1, 2) and recipe(seed=3).seeds == (3,)
    assert recipe(seeds=[4, 2]).seeds == (4, 2)
    assert recipe(max_length=12, metric="macro_f1").task == {
        "kind": "classify",
        "windows": {"length": 12},
        "metric": "macro_f1",
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lr": 0.1, "learning_rate": 0.2},
         "learning_rate is 0.2; learning_rate is set a second time in the same call; leave one of "
         "them out."),
        ({"training": {"epochs": 1}, "epochs": 2},
         "epochs is 2; epochs is set a second time in the same call; leave one of them out."),
        ({"epochs": 2, "training": {"epochs": 1}},
         "training.epochs is 1; epochs is set a second time in the same call; leave one of them "
         "out."),
        ({"training": 3, "epochs": 2},
         "epochs is 2; training is set a second time in the same call; leave one of them out."),
    ],
)  # fmt: skip
def test_nothing_is_set_twice(settings, sentence):
    with pytest.raises(SettingError) as caught:
        recipe(**settings)
    assert str(caught.value) == sentence


def test_what_was_given_stays_as_it_was():
    training = {"optimizer": {"kind": "lamb"}}
    recipe(training=training, weight_decay=0.5)
    assert training == {"optimizer": {"kind": "lamb"}}


def test_an_unknown_one_is_named_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'epochs'"):
        recipe(epoch=2)
