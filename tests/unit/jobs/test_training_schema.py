"""One schema of training for both recipes: the same settings, and any optimizer of the registry."""

import csv
import dataclasses
import typing
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from clozeworks import config, registry
from clozeworks.engine.optimizers import OptimizerSpec
from clozeworks.engine.param_groups import param_groups, uniform
from clozeworks.engine.schedules.linear import Linear
from clozeworks.engine.settings import Checkpointing, Evaluation, Logging, Training
from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.plan import FinetunePlan
from clozeworks.jobs.finetune.recipe import FinetuneRecipe, read_finetune_recipe
from clozeworks.jobs.finetune.search import Search
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.jobs.pretrain.recipe import Recipe, read_recipe
from clozeworks.jobs.renamed_settings import RENAMED, refuse_renamed
from clozeworks.jobs.short_forms import lay_over
from clozeworks.objectives.published import published
from clozeworks.spec import spec
from clozeworks.tasks.text_to_text.task import TextToText

PRETRAIN = {
    "run": "run",
    "model": {"start": "bert-tiny"},
    "data": {"corpus": "corpus"},
    "objective": "bert",
    "training": {"steps": 10},
}
FINETUNE: dict[str, Any] = {
    "run": "run",
    "model": "model",
    "task": {"kind": "classify"},
    "data": {"train": ["train.csv"]},
}


@pytest.fixture
def sign_descent():
    """An optimizer nobody knew before, laid into the registry for one test."""

    @spec
    class SignDescent(OptimizerSpec):
        """Steps of one size, in the direction of each gradient."""

        paper: ClassVar[str] = "made up"
        momentum: float = 0.0

        def build(self, model, learning_rate, schedule_of=uniform):
            return Descent(param_groups(model, 0.0, schedule_of), {"lr": learning_rate})

    class Descent(torch.optim.Optimizer):
        calls = 0

        def step(self, closure=None):
            Descent.calls += 1
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        if parameter.grad is not None:
                            parameter -= group["lr"] * parameter.grad.sign()

    yield Descent
    SignDescent.folder = "clozeworks.nowhere"  # the registry passes over it from here on


def test_both_recipes_have_the_same_tables():
    for name, cls in {
        "training": Training,
        "logging": Logging,
        "evaluation": Evaluation,
        "checkpointing": Checkpointing,
    }.items():
        assert typing.get_type_hints(Recipe)[name] is cls
        assert typing.get_type_hints(FinetuneRecipe)[name] is cls


def test_a_new_optimizer_is_reachable_from_both_recipes(
    sign_descent, tiny_recipe, listener, tmp_path
):
    optimizer = {"kind": "sign_descent", "momentum": 0.5}
    tiny_recipe["training"] |= {"optimizer": optimizer, "learning_rate": 1e-3}
    done = pretrain(tiny_recipe, callback=listener)
    assert done.outcome.finished and sign_descent.calls == 6
    with (tmp_path / "train.csv").open("w", newline="") as file:
        rows = [(f"ba be {'bo' if number % 2 else 'bu'}", number % 2) for number in range(24)]
        csv.writer(file).writerows([("text", "label"), *rows])
    tuned = finetune(
        {
            "run": str(tmp_path / "tuned"),
            "model": str(done.model),
            "task": {"kind": "classify"},
            "data": {"train": [str(tmp_path / "train.csv")], "dev_fraction": 0.25},
            "training": {"steps": 3, "batch_tokens": 64, "optimizer": optimizer},
        }
    )
    assert tuned.outcome is not None and tuned.outcome.finished
    assert sign_descent.calls == 9


def test_pretraining_settles_what_a_recipe_leaves_open():
    recipe = read_recipe(PRETRAIN)
    training = recipe.training
    assert (training.learning_rate, training.batch_tokens, training.batch_size) == (
        1e-4,
        4096,
        None,
    )
    assert training.schedule == Linear(warmup_steps=0)
    assert (recipe.logging.every_steps, recipe.evaluation.every_steps) == (10, 500)
    assert recipe.evaluation.tokens == 65536
    assert recipe.settled() == recipe == read_recipe(config.plain(recipe))
    relative = read_recipe(PRETRAIN, ["training.optimizer.kind=adafactor"])
    assert relative.training.learning_rate == 0.01


def test_finetuning_settles_what_a_recipe_leaves_open():
    plan = FinetunePlan.of(read_finetune_recipe(FINETUNE), 6_400, 110_000_000)
    assert (plan.steps, plan.batch_size, plan.epochs) == (600, 32, 3)
    assert plan.training.learning_rate == 3e-5
    assert plan.training.schedule == Linear(warmup_fraction=0.1)
    assert plan.training.schedule.warmup(plan.steps) == 60
    assert (plan.evaluation.every_steps, plan.logging.every_steps) == (100, 10)
    assert plan.message() == (
        "600 steps of 32 items (3 epochs); the learning rate rises to 3e-05 and falls to 0."
    )
    part = FinetunePlan.of(read_finetune_recipe(FINETUNE, ["training.steps=2"]), 36, 1_000_000)
    assert part.message().startswith("2 steps of 32 items (1.78 epochs); ")


@pytest.mark.parametrize(
    ("changes", "steps", "size", "evaluated", "logged"),
    [
        (["training.steps=50"], 50, 32, 100, 10),
        (["training.batch_size=64", "training.epochs=2"], 200, 64, 50, 5),
        (["training.batch_tokens=640"], 600, 32, 100, 10),
        (["evaluation.per_epoch=4"], 600, 32, 50, 10),
        (["evaluation.every_steps=7", "logging.every_steps=3"], 600, 32, 7, 3),
        (["evaluation.every_steps=0"], 600, 32, 0, 10),
    ],
)
def test_what_is_given_counts(changes, steps, size, evaluated, logged):
    recipe = read_finetune_recipe(FINETUNE, changes)
    plan = FinetunePlan.of(recipe, 6_400, 1, mean_length=20.0)
    assert (plan.steps, plan.batch_size) == (steps, size)
    assert (plan.evaluation.every_steps, plan.logging.every_steps) == (evaluated, logged)


def test_a_batch_of_examples_in_pretraining(tiny_recipe, listener):
    del tiny_recipe["training"]["batch_tokens"]
    done = pretrain(tiny_recipe, "training.batch_size=5", callback=listener)
    assert done.outcome.finished
    assert "5 examples a step" in listener.notes[0]


def test_layers_can_be_frozen_in_pretraining(tiny_recipe, listener):
    done = pretrain(tiny_recipe, "training.freezing.heads_only=true", callback=listener)
    assert done.outcome.finished
    assert any("parameters change; the others are frozen." in note for note in listener.notes)


@pytest.mark.parametrize(
    ("read", "base", "change", "sentence"),
    [
        (read_recipe, PRETRAIN, "training.epochs=3",
         "training.epochs is 3.0; pre-training counts steps; set `training.steps` instead."),
        (read_recipe, {**PRETRAIN, "training": {}}, "training.epochs=3",
         "training.epochs is 3.0; pre-training counts steps; set `training.steps` instead."),
        (read_recipe, {**PRETRAIN, "training": {}}, "seed=1",
         "training.steps is missing; pre-training needs it."),
        (read_recipe, PRETRAIN, "training={steps=1, batch_size=3, batch_tokens=9}",
         "training.batch_tokens is 9; `batch_size` is 3, and each decides the other; leave "
         "one of them out."),
        (read_recipe, PRETRAIN, "evaluation={every_steps=1, per_epoch=2}",
         "evaluation.every_steps is 1; `per_epoch` is 2, and each decides the other; "
         "leave one of them out."),
        (read_finetune_recipe, FINETUNE, "evaluation.tokens=5",
         "evaluation.tokens is 5; fine-tuning measures the whole dev set; leave it out, or use a "
         "smaller one (`data.dev`)."),
        (read_finetune_recipe, FINETUNE, "training.learning_rate=inf",
         "training.learning_rate is inf; it must be above 0 and finite."),
    ],
)  # fmt: skip
def test_what_cannot_be(read, base, change, sentence):
    with pytest.raises(SettingError) as caught:
        read(base, [change])
    assert str(caught.value) == sentence


def test_a_change_takes_the_place_of_the_setting_that_decides_it():
    recipe = {**PRETRAIN, "training": {"steps": 10, "batch_tokens": 64}}
    settled = read_recipe(recipe, ["training.batch_size=3"])
    assert (settled.training.batch_size, settled.training.batch_tokens) == (3, None)
    assert recipe["training"] == {"steps": 10, "batch_tokens": 64}
    lay_over(over := deepcopy(recipe), {"training": {"batch_size": 3}})
    assert over["training"] == {"steps": 10, "batch_size": 3}
    recipe["training"]["schedule"] = {"kind": "linear", "warmup_steps": 2}
    settled = read_recipe(recipe, ["training.schedule.warmup_fraction=0.5"])
    assert settled.training.schedule.warmup_steps is None
    assert (
        read_finetune_recipe(
            {**FINETUNE, "training": {"steps": 5}}, ["training.epochs=3"]
        ).training.epochs
        == 3
    )


def test_a_part_of_an_objective_with_a_name_can_be_changed():
    changes = ["objective=bert", "objective.examples.length=64"]
    settled = read_recipe(PRETRAIN, changes)
    assert settled.objective == published("bert", 64)
    named = {**PRETRAIN, "objective": "bert"}
    assert read_recipe(named, changes[1:]).objective == settled.objective
    assert named["objective"] == "bert"
    settled = read_recipe(PRETRAIN, ["objective=roberta", "objective.hide.budget.fraction=0.3"])
    assert settled.objective.hide.budget.fraction == 0.3
    assert settled.objective.examples == published("roberta").examples


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_name_is_answered_with_the_new_one(old):
    recipe: Any = 1
    for key in reversed(old.split(".")):
        name, is_list = key.removesuffix("[]"), key.endswith("[]")
        recipe = {name: [recipe] if is_list else recipe}
    with pytest.raises(SettingError) as caught:
        refuse_renamed(recipe)
    assert str(caught.value) == f"{old} is called {RENAMED[old]} now; rename it."


def test_an_old_default_does_no_harm():
    recipe = {**PRETRAIN, "logging": {"every_steps": 3, "tensorboard": False}}
    assert read_recipe(recipe).logging == Logging(every_steps=3)
    assert recipe["logging"]["tensorboard"] is False
    recipe["logging"]["tensorboard"] = True
    with pytest.raises(SettingError) as caught:
        read_recipe(recipe)
    assert str(caught.value) == (
        'logging.tensorboard is called logging.trackers=["tensorboard"] now; rename it.'
    )


def test_an_old_name_deep_inside_an_objective_is_answered_with_the_new_one():
    part = {"kind": "masked_lm", "arrangement": {"kind": "blocks"}}
    with pytest.raises(SettingError) as caught:
        refuse_renamed({"objective": {"kind": "sum", "parts": [part]}})
    assert str(caught.value) == (
        "objective.parts[].arrangement is called objective.parts[].examples now; rename it."
    )


def _fields(cls: type, path: str) -> set[str]:
    found = set()
    for name, hint in typing.get_type_hints(cls).items():
        if name not in {field.name for field in dataclasses.fields(cls)}:
            continue
        where = f"{path}.{name}" if path else name
        found.add(where)
        if where in ("objective", "augment"):  # others' business, and they hold each other
            continue
        args = typing.get_args(hint)
        for each in (hint, *args):
            if dataclasses.is_dataclass(each):
                below = f"{where}[]" if typing.get_origin(hint) is tuple else where
                found |= _fields(typing.cast(type, each), below)
                if isinstance(each, type) and each.__dict__.get("is_slot"):
                    found.add(f"{below}.kind")
                    for one in registry.specs(each).values():
                        found |= _fields(one, below)
    return found


def test_the_new_names_are_settings_and_the_old_ones_are_not():
    known = _fields(Recipe, "") | _fields(FinetuneRecipe, "") | _fields(Search, "search")
    known |= _fields(TextToText, "task")
    assert {new.partition("=")[0] for new in RENAMED.values()} <= known
    assert not set(RENAMED) & known


@pytest.mark.parametrize("read", [read_recipe, read_finetune_recipe])
def test_old_names_on_the_command_line_and_in_files(read, tmp_path: Path):
    with pytest.raises(SettingError) as caught:
        read({"run": "run"}, ["training.rate=1e-3"])
    assert str(caught.value) == "training.rate is called training.learning_rate now; rename it."
    path = tmp_path / "recipe.toml"
    path.write_text("[watching]\nevery = 3\n[snapshots]\nkeep = 1\n")
    with pytest.raises(SettingError) as caught:
        read(path)
    assert str(caught.value) == (
        "watching.every is called logging.every_steps now; snapshots.keep is called "
        "checkpointing.keep now; rename them."
    )
