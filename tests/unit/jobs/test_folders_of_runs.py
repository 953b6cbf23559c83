"""What the folder of a run keeps, what leaves none, and what is made of a damaged one."""

import json
import shutil

import pytest

import clozeworks as cw
from clozeworks.errors import ClozeworksError, OutputError, SettingError
from clozeworks.jobs import disk
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.text.training.train import train_from_iterator

ROWS = [f"the cat is {word} {number},{word}" for number in range(8) for word in ("good", "bad")]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    tokenizer = train_from_iterator(ROWS * 3, kind="wordpiece", size=100)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    return cw.new("bert-tiny", tokenizer, **sizes).save(tmp_path_factory.mktemp("start") / "model")


@pytest.fixture
def recipe(start, tmp_path):
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *ROWS]) + "\n", encoding="utf-8")
    return {
        "run": str(tmp_path / "run"),
        "model": str(start),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "train.csv")], "dev_fraction": 0.25},
    }


def test_seeds_that_are_done_are_not_left_out(recipe):
    """The model of the folder is the best of all its seeds; fewer would replace it by a worse."""
    recipe["seeds"] = [0, 3]
    done = finetune(recipe, "training.epochs=0.2")
    before = (done.model / "model.safetensors").read_bytes()
    with pytest.raises(SettingError) as caught:
        finetune({**recipe, "seeds": [0]}, "training.epochs=0.2")
    assert str(caught.value) == (
        "seeds is [0]; `run` holds the seeds 0, 3, and its model is the best of them; have them "
        "all, or name another folder."
    )
    assert (done.model / "model.safetensors").read_bytes() == before
    more = finetune({**recipe, "seeds": [0, 3, 4]}, "training.epochs=0.2")
    assert [result.seed for result in more.results] == [0, 3, 4]


def test_a_device_that_is_not_there_is_refused_before_anything_is_read(recipe, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    recipe["model"] = "not-there"
    with pytest.raises(SettingError, match=r"^device is 'cuda'; this machine has "):
        finetune({**recipe, "device": "cuda"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("training.freezing.layers=9", "training.freezing.layers is 9; the model has "),
        ("task.pooling=mx", "task.pooling is 'mx'; known: attention, first, max, mean, pooler."),
        ("task.windows.length=9999", "task.windows.length is 9,999; this model takes at most "),
    ],
)
def test_what_does_not_fit_to_the_model_leaves_no_folder(recipe, tmp_path, change, sentence):
    recipe["run"] = str(tmp_path / "runs" / "first")
    with pytest.raises(ClozeworksError) as caught:
        finetune(recipe, change)
    assert str(caught.value).startswith(sentence)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_a_full_disk_leaves_no_folder(recipe, tmp_path, monkeypatch, lora):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: usage._replace(free=10_000))
    recipe["run"] = str(tmp_path / "runs" / "first")
    with pytest.raises(OutputError, match=r"first has 10 kB free; 3 snapshots and 2 models"):
        finetune({**recipe, **({"lora": lora} if lora else {})}, "checkpointing.keep=2")
    assert not (tmp_path / "runs").exists()


def test_a_run_may_go_on_elsewhere(recipe):
    finetune(recipe, "training.epochs=0.2")
    assert finetune(recipe, "training.epochs=0.2", "device=cpu").outcome is None


def test_damaged_lines_of_metrics_are_stated_and_the_run_goes_on(tiny_recipe, listener):
    tiny_recipe["checkpointing"] = {"every_steps": 2, "keep": 3}
    run = pretrain(tiny_recipe).folder
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "snapshots" / "step-000000006")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    damaged = [lines[0], "[[[\n", '{"step": 2, "evaluation": 7}\n', *lines[1:], '{"step": 9, "lo']
    (run / "metrics.jsonl").write_text("".join(damaged))
    pretrain(tiny_recipe, callback=listener)
    assert listener.notes[0] == (
        f"{run / 'metrics.jsonl'}: 3 lines were damaged and left out, the first is line 2; curves "
        "miss what they said."
    )
    assert (run / "report.html").is_file() and (run / "model").is_dir()
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").open()]
    assert steps == [json.loads(line)["step"] for line in lines]
