"""What `clozeworks pretrain` does not do, and the sentence that says so; nothing is left behind."""

import errno
import json
import os
import shutil

import pytest
import torch

from clozeworks.jobs import disk
from clozeworks.storage import locks as locking


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("training.stepz=3",
         "A setting of training is 'stepz'; known: batch_size, batch_tokens, compile, epochs, "
         "freezing, layer_decay, learning_rate, max_grad_norm, micro_batch_tokens, optimizer, "
         "precision, schedule, steps. Did you mean 'steps'?"),
        ("training.compile=true",
         "training.compile is true; on a CPU the micro-batches of a step run in parallel, which "
         "gains more; leave it out."),
        ("objective=bart",
         "objective is 'bart'; known: albert, bert, byt5, deberta, deberta-v3, "
         "electra, gpt, gpt2, llama, mt5, prefix-lm, roberta, simcse, spanbert, t5, ul2, xlnet. "
         "Did you mean 'bert'?"),
        ("data.stages=[{length=24, fraction=0.75}, {length=40, fraction=0.5}]",
         "data.stages[].fraction is [0.75, 0.5]; they must add up to 1, not 1.25."),
        ("training.steps=2",
         "training.schedule.warmup_steps is 3; it must be at most 2, the steps of the run; make it "
         "shorter or the run longer."),
        ("training.batch_tokens=5",
         "training.batch_tokens is 5; one example has 23 on average, and a step needs at least "
         "one; raise it, or shorten the examples."),
        ("data.stages=[{length=600}]",
         "the length of examples is 600; the model takes at most 512; shorten them "
         "(data.stages), or raise model.config.max_position_embeddings."),
        ("data.corpus=/nowhere",
         "data.corpus is '/nowhere'; there is no such folder; name another, or make it with: "
         "clozeworks corpus build TEXTS --tokenizer DIR --out /nowhere."),
        ("objective.arrangement.kind=blocks",
         "objective.arrangement is called objective.examples now; rename it."),
        ("training.steps", "'training.steps' is not a change of a setting; write "
         "path=value, for example training.steps=2000."),
    ],
)  # fmt: skip
def test_settings(refused, recipe, change, sentence):
    refused(sentence, "pretrain", recipe, change)


def test_a_device_that_is_not_there(refused, recipe):
    refused(
        "--device is 'gpu'; this machine has cpu; use one of these, or auto.",
        "pretrain",
        recipe,
        "-d",
        "gpu",
    )


def test_recipes_that_cannot_be_read(refused, tmp_path):
    path = tmp_path / "recipe.toml"
    refused(
        f"{path} does not exist; write one with: clozeworks init pretrain {path} (or finetune TASK "
        f"{path})",
        "pretrain",
        path,
    )
    path.write_text("run = \n")
    refused(
        f"{path} is not a TOML file: Invalid value (at line 1, column 7); fix it.", "pretrain", path
    )
    path.write_bytes(b'run = "\xe9"\n')
    refused(f"{path} is not UTF-8; save it as UTF-8.", "pretrain", path)
    path.write_text('run = "x"\n')
    refused("model is missing; it has no default; set it.", "pretrain", path)


def test_a_folder_that_holds_something_else(refused, recipe, run):
    run.mkdir()
    (run / "thesis.txt").write_text("mine")
    refused(
        f"{run} holds 'thesis.txt' and is not a run; name an empty folder or a new one.",
        "pretrain",
        recipe,
    )


def test_a_file_instead_of_a_folder(refused, recipe, run):
    run.write_text("mine")
    refused(f"{run} is a file; name a folder for the run.", "pretrain", recipe)
    refused(
        f"{run}/inside cannot be made: {run} is a file; name a folder.",
        "pretrain",
        recipe,
        f"run={run}/inside",
    )


def test_a_folder_that_cannot_be_written(refused, recipe, run, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(locking.os, "open", read_only)
    run.mkdir()
    refused(
        f"{run} cannot be written (Read-only file system); choose another folder.",
        "pretrain",
        recipe,
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_without_permission(refused, recipe, run):
    run.mkdir(mode=0o500)
    refused(
        f"{run} cannot be written (Permission denied); choose another folder.", "pretrain", recipe
    )


def test_no_room_on_the_disk(refused, recipe, run, monkeypatch):
    usage = shutil.disk_usage(run.parent)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    # The folder is not there before and not there afterwards; what is said before is no complaint.
    monkeypatch.setattr("clozeworks.display.training.TrainingProgress.on_message", lambda *_: None)
    refused(
        f"{run} has 1.0 MB free; 3 snapshots and the model need 1.8 MB; make room, keep fewer "
        "(checkpointing.keep), or choose another disk.",
        "pretrain",
        recipe,
    )


def test_a_corpus_of_another_tokenizer(command, recipe, tiny_models, run):
    outcome = command("pretrain", recipe, f"model={{start='{tiny_models['bert']}'}}")
    assert (outcome.code, outcome.out) == (2, "") and outcome.err.count("\n") == 1
    assert "tokenizer" in outcome.err and str(tiny_models["bert"]) in outcome.err
    assert not run.exists()


def test_a_config_beside_a_model_folder(refused, recipe, tiny_models):
    start = tiny_models["bert"]
    refused(
        "model.config is {'hidden_size': 64}; it changes a published size, but model.start is "
        f"'{start}'; leave it out, or start from a size.",
        "pretrain",
        recipe,
        f"model={{start='{start}', config={{hidden_size=64}}}}",
    )


def test_a_misspelt_size_is_no_name_of_the_hub(command, recipe, run):
    outcome = command("pretrain", recipe, "model={start='bert-tny'}")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("clozeworks: model.start is 'bert-tny'; known: ")
    assert outcome.err.endswith(" Did you mean 'bert-tiny'?\n") and not run.exists()


def test_a_snapshot_of_another_model(command, recipe, run, tmp_path):
    """A recipe that was changed together with what the run remembers of it."""
    short = ["training.steps=1", "training.schedule={kind='constant', warmup_steps=0}"]
    assert command("pretrain", recipe, *short).code == 0
    saved = json.loads((run / "recipe.json").read_text())
    saved["model"]["config"]["hidden_size"] = 48
    (run / "recipe.json").write_text(json.dumps(saved))
    outcome = command("pretrain", recipe, *short, "model.config.hidden_size=48")
    assert outcome.code == 2
    last = outcome.err.splitlines()[-1]
    assert last.startswith("clozeworks: the snapshot of step 1 belongs to another model: ")
    assert last.endswith("is not in both, or has another shape; use another run folder.")


def test_a_recipe_that_comes_along_is_known_by_its_name(command, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(
        "data.corpus is 'missing'; there is no such folder; name another, or make it with: "
        "clozeworks corpus build TEXTS --tokenizer DIR --out missing.",
        *("pretrain", "laptop-english", "data.corpus=missing", "run=here"),
    )
    outcome = command("pretrain", "laptop-englsh")
    assert outcome.code == 2 and outcome.err.startswith(
        "clozeworks: recipe is 'laptop-englsh'; known: albert-base, "
    )
    assert outcome.err.endswith(" Did you mean 'laptop-english'?\n")
