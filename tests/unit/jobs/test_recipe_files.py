"""Every recipe can be read, and a shrunken one trains; written ones read as the defaults."""

import dataclasses
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from clozeworks import config, registry
from clozeworks.data.augment import AugmentSpec
from clozeworks.engine.param_groups import Freezing
from clozeworks.engine.settings import Checkpointing, Evaluation, Logging, Training
from clozeworks.families.family import published_sizes
from clozeworks.jobs.finetune.recipe import (
    FROM_DATA,
    FinetuneRecipe,
    LabelledData,
    read_finetune_recipe,
)
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.jobs.pretrain.recipe import Data, Recipe, StageSettings, Start, read_recipe
from clozeworks.jobs.recipe_text import field_help, finetune_text, recipe_text, toml
from clozeworks.objectives.published import PUBLISHED
from clozeworks.tasks.task import task_classes

FOLDER = Path(__file__).resolve().parents[3] / "src" / "clozeworks" / "recipes"
RECIPES = sorted(FOLDER.glob("*.toml"))
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY |= {"intermediate_size": 32, "max_position_embeddings": 64}
TINY |= {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 32}
TINY |= {"num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 24}
TINY |= {"n_embd": 16, "n_positions": 64, "num_key_value_heads": 2}
# Families whose texts are written in a way of their own; those of the others are WordPiece.
CORPORA = {"roberta": "bpe", "t5": "t5", "mt5": "t5", "ul2": "t5", "byt5": "bytes"}
CORPORA |= {"openai": "gpt2", "gpt2": "gpt2", "llama": "llama"}
TABLES = {"model", "data", "training", "logging", "evaluation", "checkpointing"}
TABLES |= {"optimizer", "schedule", "freezing"}


def test_there_are_recipes():
    assert {path.stem for path in RECIPES} >= {
        "bert-base", "roberta-base", "albert-base", "spanbert-base",
        "electra-small", "xlnet-base", "deberta-base", "deberta-v3-base", "modernbert-base",
        "laptop-english", "laptop-chinese", "laptop-albert", "laptop-spanbert", "laptop-electra",
        "laptop-xlnet", "laptop-deberta", "laptop-modernbert",
        "laptop-t5", "laptop-gpt", "laptop-llama", "laptop-ul2", "laptop-prefix-lm",
        "t5-small", "t5-base", "mt5-small", "byt5-small", "ul2", "gpt", "gpt2-small", "llama-7b",
    }  # fmt: skip


def tiny(size):
    """A tiny config, in the words of the family of a size."""
    family = published_sizes()[size]
    known = family.config(family.blueprint(family.published(size), frozenset()))
    return {key: value for key, value in TINY.items() if key in known}


# Shrunk, a published recipe trains as the laptop's does.
SHRUNK = [
    pytest.param(path, id=path.stem, marks=() if "laptop" in path.stem else pytest.mark.slow)
    for path in RECIPES
]


@pytest.mark.parametrize("path", SHRUNK)
def test_each_recipe_trains_when_shrunk(path, tiny_corpora, tmp_path):
    recipe = read_recipe(path)
    assert recipe.data.corpus == "corpus"
    assert recipe.run == f"runs/{path.stem}"
    kind = CORPORA.get(recipe.model.start.partition("-")[0], "wordpiece")
    data = config.plain(recipe)
    data["run"] = str(tmp_path / "run")
    data["model"]["config"] |= tiny(recipe.model.start)
    stages = recipe.data.stages or (StageSettings(length=1),)
    data["data"] = {
        "corpus": str(tiny_corpora[kind]),
        "stages": [{"length": 24, "fraction": stage.fraction} for stage in stages],
    }
    data["training"] |= {"steps": 2, "batch_tokens": 256}
    if data["training"]["schedule"]["warmup_steps"]:
        data["training"]["schedule"]["warmup_steps"] = 1
    data["evaluation"]["tokens"] = 256
    done = pretrain(data)
    assert done.outcome.finished and done.outcome.guards.skipped == 0
    assert set(done.records[-1]["evaluation"]) == {"loss", *recipe.objective.loss_names}


def test_published_numbers():
    bert, roberta = (read_recipe(FOLDER / f"{name}-base.toml") for name in ("bert", "roberta"))
    factor = bert.training.schedule.factor
    assert factor(9_999, 10**6) == 0.9999 and factor(10_000, 10**6) == pytest.approx(0.99)
    assert bert.batch_tokens() == [256 * 128, 256 * 512]
    assert [steps for _, _, steps in bert.objectives()] == [900_000, 100_000]
    assert roberta.batch_tokens() == [8192 * 512]
    assert roberta.training.max_grad_norm is None
    assert roberta.training.optimizer.betas == (0.9, 0.98)
    albert = read_recipe(FOLDER / "albert-base.toml")
    assert albert.batch_tokens() == [4096 * 512] and albert.training.steps == 125_000
    assert albert.training.learning_rate == 0.00176
    assert albert.objective.loss_names == ("masked_lm", "sentence_order")


def test_published_numbers_of_models_that_write():
    small, bytes_, gpt2 = (
        read_recipe(FOLDER / f"{name}.toml") for name in ("t5-small", "byt5-small", "gpt2-small")
    )
    for recipe in (small, bytes_):
        rate, factor = recipe.training.learning_rate, recipe.training.schedule.factor
        rates = [rate * factor(step, 10**6) for step in (1, 10**4, 10**6)]
        assert rates == pytest.approx([0.01, 0.01, 0.001])
        assert recipe.training.max_grad_norm is None
    assert small.batch_tokens() == [2048 * 569] and small.objective.examples.length == 569
    assert bytes_.objective.hide.mean == 20 and bytes_.objective.sentinels == "bytes"
    assert gpt2.batch_tokens() == [512 * 1024]
    gpt = read_recipe(FOLDER / "gpt.toml").training
    rates = [
        gpt.learning_rate * gpt.schedule.factor(step, gpt.steps) for step in (2_000, gpt.steps)
    ]
    assert gpt.batch_tokens == 64 * 512 and rates == pytest.approx([2.5e-4, 0])
    assert gpt.schedule.factor(1_000, gpt.steps) == 0.5
    ul2 = read_recipe(FOLDER / "ul2.toml").objective
    assert [part.hide.mean for part in ul2.parts] == [3, 8, None, 3, 8, 64, 64]
    assert [part.hide.fraction for part in ul2.parts] == [0.15, 0.15, 0.25, 0.5, 0.5, 0.15, 0.5]


@pytest.mark.parametrize("objective", sorted(PUBLISHED))
def test_a_written_recipe_reads_as_the_defaults(objective, tmp_path):
    recipe = read_recipe(
        {
            "run": 'a "run"\\ in\x7f\tüber',
            "model": {"start": "bert-tiny"},
            "data": {"corpus": "c"},
            "objective": objective,
            "training": {"steps": 7},
        }
    )
    path = tmp_path / "recipe.toml"
    path.write_text(recipe_text(recipe, objective), encoding="utf-8")
    assert read_recipe(path) == recipe


def test_settings_that_are_not_defaults_are_written_too(tmp_path):
    for name, objective in (("bert-base", "bert"), ("roberta-base", "roberta")):
        recipe = read_recipe(FOLDER / f"{name}.toml")
        path = tmp_path / "recipe.toml"
        path.write_text(recipe_text(recipe, objective), encoding="utf-8")
        assert read_recipe(path) == recipe


def test_every_setting_has_its_help_in_the_file():
    recipe = read_recipe(FOLDER / "bert-base.toml")
    text = " ".join(recipe_text(recipe, "bert").replace("\n#", " ").split())
    kinds = (type(recipe.training.optimizer), type(recipe.training.schedule))
    for cls in (
        Recipe,
        Start,
        Data,
        StageSettings,
        Training,
        Freezing,
        Logging,
        Evaluation,
        Checkpointing,
        *kinds,
    ):
        told = field_help(cls)
        for field in dataclasses.fields(cls):
            if field.name not in TABLES:
                assert field.name in told, f"{cls.__name__}.{field.name} has no docstring"
                assert " ".join(told[field.name].split()) in text
    for kind in ("adam_w", "adafactor", "bert_adam", "lamb", "cosine", "constant"):
        assert f" {kind}: " in text


def test_values():
    assert toml(None) == '"none"'
    assert toml({"a b": [True, 1e-08, "x"]}) == '{"a b" = [true, 1e-08, "x"]}'


@pytest.mark.parametrize("kind", sorted(task_classes()))
def test_a_recipe_of_fine_tuning_holds_every_setting_with_its_default(kind, tmp_path):
    """Whoever removes every # has the recipe that says nothing."""
    least = {"run": "r", "model": "m", "task": {"kind": kind}, "data": {"train": ["a.csv"]}}
    text = finetune_text(read_finetune_recipe(least))
    path = tmp_path / "recipe.toml"
    path.write_text(re.sub(r"(?m)^#(?! )", "", text), encoding="utf-8")
    written, plain = read_finetune_recipe(path), read_finetune_recipe(least)
    assert replace(written, task=plain.task) == plain
    task = task_classes()[kind]
    required = {"labels": ("a", "b")} if "labels" in task.__dataclass_fields__ else {}
    settings = {key: value for key, value in written.task.items() if key != "kind"}
    assert config.read(task, {**settings, **required}) == config.read(task, required)
    assert text.count("#") > 100
    for cls in (FinetuneRecipe, LabelledData, Training, task):
        for name in {field.name for field in fields(cls)} - {*FROM_DATA, "formats"}:
            assert re.search(rf"(?m)^(#?{name} = |\[(\w+\.)*{name}\]|# .*\b{name} = )", text), name


def test_a_recipe_of_fine_tuning_that_is_not_touched_says_nothing(tmp_path):
    least = {"run": "r", "model": "m", "task": {"kind": "classify"}, "data": {"train": ["a.csv"]}}
    path = tmp_path / "recipe.toml"
    path.write_text(finetune_text(read_finetune_recipe(least)), encoding="utf-8")
    assert tomllib.loads(path.read_text())["training"] == {
        "optimizer": {},
        "schedule": {},
        "freezing": {},
    }
    plain = read_finetune_recipe(least)
    assert replace(read_finetune_recipe(path), task=plain.task) == plain


@pytest.mark.parametrize("guide", ["tasks.md", "zh/tasks.md"])
def test_the_guide_names_every_augmentation(guide):
    text = (Path(__file__).parents[3] / "docs" / "guides" / guide).read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| `augment.kind="))
    assert registry.specs(AugmentSpec).keys() <= set(re.findall(r"[a-z_]+", row))
    assert "guess" not in row
