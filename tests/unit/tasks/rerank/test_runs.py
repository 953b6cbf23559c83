"""A reranker is trained, stopped and resumed, with several seeds, with adapters."""

import hashlib
import json

import pytest

import clozeworks as cw
from clozeworks.engine.trainer import Trainer
from clozeworks.jobs.finetune.job import finetune
from clozeworks.text.training.train import train_from_iterator

ANIMALS = ("cat", "dog", "cow", "hen")


def rows():
    return [
        {"query": f"a {animal} {n}", "document": f"the {('bad', 'good')[good]} farm {n + good}"}
        | {"label": good}
        for n in range(4)
        for animal in ANIMALS
        for good in (0, 1, 0)
    ]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    texts = [f"{row['query']} {row['document']}" for row in rows()]
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=120)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"initializer_range": 0.3, "max_position_embeddings": 24}
    return cw.new("bert-tiny", tokenizer, **sizes).save(folder / "model")


@pytest.fixture
def recipe(start, tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return {
        "run": str(tmp_path / "run"),
        "model": str(start),
        "task": {"kind": "rerank"},
        "data": {"train": [str(tmp_path / "rows.jsonl")], "dev_fraction": 0.25},
        "training": {"epochs": 2, "batch_size": 12, "learning_rate": 0.01},
        "checkpointing": {"every_steps": 3},
    }


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


class Killed(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("loss", ["binary_cross_entropy", "lambda_loss"])
def test_killed_and_resumed_it_ends_with_the_same_bytes(recipe, tmp_path, monkeypatch, loss):
    recipe["task"]["loss"] = {"kind": loss}
    recipe["training"]["batch_size"] = 12 if loss == "binary_cross_entropy" else 3
    whole = finetune({**recipe, "run": str(tmp_path / "whole")})
    update, steps = Trainer._update, [0]

    def dying(self, measured):
        update(self, measured)
        steps[0] += 1
        if steps[0] == 4:
            self.builtin[-1].snapshots.wait()
            raise Killed

    monkeypatch.setattr(Trainer, "_update", dying)
    with pytest.raises(Killed):
        finetune(recipe)
    monkeypatch.setattr(Trainer, "_update", update)
    assert digest(finetune(recipe).model) == digest(whole.model)


def test_it_learns_what_belongs_together_and_is_saved_whole(recipe, tmp_path):
    recipe |= {"training": {"epochs": 6, "batch_size": 8, "learning_rate": 0.01}, "seeds": [0, 1]}
    recipe["task"]["windows"] = {"keep": "first", "length": 16}
    done = finetune(recipe)
    assert (done.best.measured.primary, done.best.measured.value) == ("map", 1.0)
    model = cw.load(done.model)
    assert (model.task.loss, model.task.activation, model.max_length) == (None, "sigmoid", 16)
    found = model.rerank("a hen 2", ["the bad farm 3", "the good farm 1", "the bad farm 2"])
    assert found[0].index == 1
    assert 0 <= found[-1].score < found[0].score <= 1
    assert "Reranking" in (tmp_path / "run" / "report.html").read_text()
    card = (done.model / "README.md").read_text()
    assert "text-ranking" in card and 'model.rerank("a query"' in card


def test_adapters_learn_it_too(recipe):
    recipe["lora"] = {"rank": 2}
    done = finetune(recipe)
    assert cw.load(done.model).rerank("a hen 2", ["the hen", "the cow"])
