"""Numbers are learned as distances from their mean, and saved and answered as they are."""

import hashlib
import json

import pytest
import torch

import clozeworks as cw
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.job import finetune
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.labels.standardization import Standardization
from clozeworks.text.training.train import train_from_iterator

# Words and what each adds to the number of a text: around 300, far from where a fresh head begins.
WORTH = {"good": 40.0, "fine": 20.0, "fair": 0.0, "poor": -20.0, "bad": -40.0}
ANIMALS = ("cat", "dog", "house")
SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
SMALL |= {"initializer_range": 0.3, "hidden_dropout_prob": 0.0}


def rows(count: int, worth: dict[str, float] = WORTH) -> str:
    lines = ["text,price"]
    for number in range(count):
        first, second = (list(worth)[(number * step + number // 5) % 5] for step in (1, 2))
        text = f"the {ANIMALS[number % 3]} is {first} and {second}"
        lines.append(f"{text},{300 + worth[first] + worth[second]}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_from_iterator([rows(60)] * 3, kind="wordpiece", size=150)
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **SMALL).save(folder / "model")
    return folder / "model"


@pytest.fixture
def recipe(model, tmp_path):
    (tmp_path / "train.csv").write_text(rows(75), encoding="utf-8")
    return {
        "run": str(tmp_path / "run"),
        "model": str(model),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "train.csv")], "dev_fraction": 0.2, "labels": "numbers"},
        "training": {"epochs": 16, "batch_size": 10, "learning_rate": 0.005},
        "checkpointing": {"every_steps": 7},
        "evaluation": {"every_steps": 30},
    }


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_numbers_far_from_zero_are_learned(recipe, tmp_path):
    done = finetune(recipe)
    assert done.best.measured.values["spearman"] > 0.95
    assert done.best.measured.values["mean_absolute_error"] < 15
    recipe["run"], recipe["task"]["standardize"] = str(tmp_path / "raw"), False
    raw = finetune(recipe)
    assert raw.best.measured.values["mean_absolute_error"] > 100


def test_the_folder_answers_with_the_numbers_themselves(recipe, tmp_path):
    done = finetune(recipe)
    model = cw.load(done.model)
    assert model.task == Classify(labels=("price",), problem="number")
    assert model.classify("the cat is good and good").label > 320
    lines = (tmp_path / "run/predictions.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    answers = model.classify([record["text"] for record in records])
    for record, answer in zip(records, answers, strict=True):
        assert record["label"] == pytest.approx(answer.label, rel=1e-6)
    # The curves of training and dev set are in the same unit.
    metrics = [json.loads(line) for line in (tmp_path / "run/seed-0/metrics.jsonl").open()]
    assert all(value < 10 for line in metrics for value in _losses(line))


def _losses(line):
    return [value for key, value in _flat(line) if key.endswith("classify") or key == "loss"]


def _flat(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}")
    elif isinstance(value, float):
        yield path, value


def test_what_is_measured_is_what_is_saved(recipe):
    done = finetune(recipe)
    model = cw.load(done.model)
    answers = model.classify([item.text for item in done.data.dev])
    measured = model.task.measure(done.data.dev, answers)
    for name, value in measured.values.items():
        assert done.best.measured.values[name] == pytest.approx(value, rel=1e-6)


class Killed(Exception):  # noqa: N818
    pass


def test_killed_it_ends_with_the_same_bytes(recipe, tmp_path, monkeypatch):
    recipe["seeds"] = [0, 1]
    whole = finetune({**recipe, "run": str(tmp_path / "whole")})
    update, steps = Trainer._update, [0]

    def dying(self, measured):
        update(self, measured)
        steps[0] += 1
        if steps[0] == 16:
            self.builtin[-1].snapshots.wait()
            raise Killed

    monkeypatch.setattr(Trainer, "_update", dying)
    with pytest.raises(Killed):
        finetune(recipe)
    monkeypatch.setattr(Trainer, "_update", update)
    done = finetune(recipe)
    assert digest(done.model) == digest(whole.model)


def test_with_lora_the_adapter_holds_the_head_of_the_numbers_themselves(recipe, tmp_path):
    from safetensors.torch import load_file

    recipe["lora"] = {"rank": 4, "targets": ["query", "key", "value", "output", "up", "down"]}
    recipe["training"] = {"epochs": 40, "batch_size": 10, "learning_rate": 0.02}
    done = finetune(recipe)
    model = cw.load(done.model)
    assert model.classify("the cat is good and good").label > 320
    assert model.classify("the cat is bad and bad").label < 280
    adapter = load_file(tmp_path / "run/seed-0/model/adapter/adapter_model.safetensors")
    bias = next(value for name, value in adapter.items() if name.endswith("classifier.bias"))
    assert torch.equal(bias, model.model.heads["classes"].project.bias)
    assert bias.item() > 100


def test_trained_further_it_begins_where_it_was(recipe, tmp_path):
    done = finetune(recipe)
    before = cw.load(done.model)
    text = "the cat is good and fine"
    answer = before.classify(text).label
    # Prices of another kind: another mean and another deviation.
    (tmp_path / "more.csv").write_text(
        rows(75, {word: 10 * value for word, value in WORTH.items()}), encoding="utf-8"
    )
    seen = Standardization.of([10.0, 90.0])
    further = before.for_task(Classify(labels=("price",), problem="number", standardization=seen))
    assert further.model.heads["classes"].project.bias.item() == pytest.approx(
        (before.model.heads["classes"].project.bias.item() - 50) / 40, rel=1e-4
    )
    assert further.classify(text).label == pytest.approx(answer, rel=1e-5)
    fresh = before.for_task(further.task, head="fresh")
    assert abs(fresh.model.heads["classes"].project.bias.item()) < 1
    recipe |= {"run": str(tmp_path / "further"), "model": str(done.model)}
    recipe["data"]["train"] = [str(tmp_path / "more.csv")]
    recipe["training"] = {"steps": 1, "batch_size": 10, "learning_rate": 1e-9}
    again = finetune(recipe)
    assert cw.load(again.model).classify(text).label == pytest.approx(answer, rel=1e-4)


def test_standardization_follows_from_the_data(recipe):
    recipe["task"]["standardization"] = {"mean": 3.0}
    with pytest.raises(SettingError, match=r"task.standardization is set; it follows from the"):
        finetune(recipe)


def test_equal_numbers_have_a_deviation_of_one():
    assert Standardization.of([3.0, 3.0]) == Standardization(mean=3.0, deviation=1.0)
    assert Standardization.of([1.0, 5.0]) == Standardization(mean=3.0, deviation=2.0)
    assert Standardization.of([1.0, 5.0], centred=False) == Standardization(deviation=13**0.5)
