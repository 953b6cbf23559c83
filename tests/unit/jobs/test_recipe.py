"""Recipes: read, changed, compared, and refused with a sentence."""

import copy
import dataclasses

import pytest

from clozeworks import config
from clozeworks.errors import ClozeworksError, InputError, SettingError
from clozeworks.jobs.pretrain.recipe import of_length, read_recipe, read_toml
from clozeworks.objectives.published import published
from clozeworks.runs.session import differences

RECIPE = {
    "run": "run",
    "model": {"start": "bert-tiny"},
    "data": {
        "corpus": "corpus",
        "stages": [{"length": 32, "fraction": 0.75}, {"length": 64, "fraction": 0.25}],
    },
    "objective": "bert",
    "training": {"steps": 10, "batch_tokens": 512},
}


def test_a_named_objective_is_written_out_with_the_length_of_the_first_stage():
    recipe = read_recipe(RECIPE)
    assert recipe.objective == published("bert", 32)
    assert read_recipe(config.plain(recipe)) == recipe


def test_each_stage_has_its_length_and_its_share_of_the_steps():
    stages = read_recipe(RECIPE).objectives()
    assert [(length, steps) for _, length, steps in stages] == [(32, 8), (64, 2)]
    assert [objective for objective, _, _ in stages] == [
        published("bert", 32),
        published("bert", 64),
    ]


@pytest.mark.parametrize("steps", [1, 2, 7, 99, 1000])
def test_no_step_is_lost_between_stages(steps):
    stages = [{"length": 16 + i, "fraction": share} for i, share in enumerate([0.335, 0.335, 0.33])]
    recipe = read_recipe(
        {**RECIPE, "data": {"corpus": "c", "stages": stages}}, [f"training.{steps=}"]
    )
    counts = [count for _, _, count in recipe.objectives()]
    assert sum(counts) == steps and min(counts) >= 0


def test_without_stages_the_objective_says_the_length():
    recipe = read_recipe({**RECIPE, "data": {"corpus": "corpus"}})
    assert recipe.objectives() == [(recipe.objective, 512, 10)]


def test_changes_do_not_reach_what_was_given():
    given = copy.deepcopy(RECIPE)
    assert (
        read_recipe(given, ["training.steps=20", "model.config.hidden_size=32"]).training.steps
        == 20
    )
    assert given == RECIPE


@pytest.mark.parametrize("name", ["albert", "bert", "electra", "roberta", "simcse", "spanbert"])
def test_another_length_changes_nothing_else(name):
    assert of_length(published(name, 32), 64) == published(name, 64)
    assert of_length(of_length(published(name, 32), 64), 32) == published(name, 32)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("training.stepz=3",
         "A setting of training is 'stepz'; known: batch_size, batch_tokens, compile, epochs, "
         "freezing, layer_decay, learning_rate, max_grad_norm, micro_batch_tokens, optimizer, "
         "precision, schedule, steps. Did you mean 'steps'?"),
        ("trainig.steps=3",
         "A setting is 'trainig'; known: checkpointing, data, device, evaluation, logging, "
         "model, objective, run, seed, training. Did you mean 'training'?"),
        ("training.optimizer={kind='adam_v'}",
         "training.optimizer.kind is 'adam_v'; known: adafactor, adam_w, bert_adam, lamb. Did "
         "you mean 'adam_w'?"),
        ("objective=brt",
         "objective is 'brt'; known: albert, bert, byt5, deberta, deberta-v3, "
         "electra, gpt, gpt2, llama, mt5, prefix-lm, roberta, simcse, spanbert, t5, ul2, xlnet. "
         "Did you mean 'bert'?"),
        ("training.steps=0", "training.steps is 0; it must be at least 1."),
        ("training.batch_tokens=many", "training.batch_tokens is 'many'; it must be int."),
        ("training.max_grad_norm=0.0",
         "training.max_grad_norm is 0.0; it must be above 0; write 'none' for no limit."),
        ("training.precision=float16",
         "training.precision is 'float16'; it must be 'float32' or 'bfloat16'."),
        ("training.schedule={kind='linear', warmup_steps=11}", "training.schedule.warmup_steps "
        "is 11"),
        ("data.stages=[{length=8, fraction=0.5}]",
         "data.stages[].fraction is [0.5]; they must add up to 1, not 0.5."),
        ("data.stages=[{length=8, fraction=0.0}, {length=9}]",
         "data.stages[0].fraction is 0.0; it must be above 0 and at most 1."),
        ("data.stages=[{length=0}]", "data.stages[0].length is 0; it must be at least 1."),
        ("data.stages={length=8}", "data.stages is {'length': 8}; it must be a list."),
        ("data.stages=[8]", "data.stages[0] is 8; it must be a table of settings: length"),
        ("data=corpus", "data is 'corpus'; it must be a table of settings: corpus, stages."),
        ("logging.every_steps=0", "logging.every_steps is 0; it must be at least 1."),
        ("evaluation.every_steps=-1", "evaluation.every_steps is -1; it must be at least 0."),
        ("evaluation.tokens=0", "evaluation.tokens is 0; it must be at least 1."),
        ("checkpointing.every_minutes=0",
         "checkpointing.every_minutes is 0.0; it must be above 0."),
        ("checkpointing.every_steps=0", "checkpointing.every_steps is 0; it must be at least 1."),
        ("checkpointing.keep=0", "checkpointing.keep is 0; it must be at least 1."),
        ("checkpointing.when_unwritable=wait",
         "checkpointing.when_unwritable is 'wait'; it must be 'go on' or 'stop'."),
        ("seed=-1", "seed is -1; it must be at least 0 and below 2**63."),
        ("run=''", "run is ''; it must be non-empty."),
        ("training",
         "'training' is not a change of a setting; write path=value, for example "
         "training.steps=2000."),
        ("run.folder=3",
         "run is 'run'; 'run.folder=3' changes a part of a table; change it as a whole."),
    ],
)  # fmt: skip
def test_what_a_recipe_may_not_say(change, sentence):
    with pytest.raises(ClozeworksError) as caught:
        read_recipe(RECIPE, [change])
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("key", ["run", "model", "data", "objective", "training"])
def test_what_a_recipe_must_say(key):
    with pytest.raises(SettingError, match=rf"^{key} is missing|^data\.corpus is missing"):
        read_recipe({name: value for name, value in RECIPE.items() if name != key})


def test_files_that_are_no_recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    with pytest.raises(InputError) as missing:
        read_toml(path)
    assert str(missing.value) == (
        f"{path} does not exist; write one with: clozeworks init pretrain {path} (or finetune TASK "
        f"{path})"
    )
    path.write_text("run = ")
    with pytest.raises(
        InputError, match=r"recipe\.toml is not a TOML file: Invalid value .*; fix it"
    ):
        read_toml(path)
    path.write_bytes(b'run = "\xff"')
    with pytest.raises(InputError, match=r"recipe\.toml is not UTF-8; save it as UTF-8\."):
        read_toml(path)
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)\."):
        read_toml(tmp_path)


def test_differences_name_the_setting():
    old = config.plain(read_recipe(RECIPE))
    new = config.plain(read_recipe(RECIPE, ["training.steps=20", "data.stages=[{length=32}]"]))
    assert differences(old, old) == []
    assert differences(old, new) == [
        f"data.stages was {old['data']['stages']!r}, now {new['data']['stages']!r}",
        "training.steps was 10, now 20",
    ]
    stages = [{"length": 32, "fraction": 0.75}, {"length": 48, "fraction": 0.25}]
    other = read_recipe({**RECIPE, "data": {"corpus": "corpus", "stages": stages}})
    assert differences(old, config.plain(other)) == ["data.stages[1].length was 64, now 48"]
    assert differences({}, {"seed": 1}) == ["seed was None, now 1"]


def test_a_recipe_is_a_value():
    recipe = read_recipe(RECIPE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.seed = 1
