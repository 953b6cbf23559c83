"""Fine-tuning beside the plain thing: weights of labels, LoRA, SiFT, layers that join in turn."""

import hashlib
import json

import pytest
import torch

import clozeworks as cw
from clozeworks.checkpoints.adapters import load_adapter
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import SettingError, UnknownName
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.plan import usual_learning_rate

ANIMALS = ("cat", "dog", "house")
LORA = {"rank": 4, "alpha": 8.0, "targets": ["query", "value", "up"], "dropout": 0.1}
ADVERSARIAL = {"weight": 2.0}


def rows(count):
    found = ["text,label"]
    for number in range(count):
        word, label = ("good", "yes") if number % 3 else ("bad", "no")
        found.append(f"the {ANIMALS[number % 2]} is {word} {number % 7},{label}")
    return "\n".join(found) + "\n"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("start")
    tokenizer = train_from_iterator([rows(40)] * 3, kind="wordpiece", size=150)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"initializer_range": 0.3, "hidden_dropout_prob": 0.1}
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes).save(folder / "model")
    return folder / "model"


@pytest.fixture
def recipe(start, tmp_path):
    (tmp_path / "train.csv").write_text(rows(48), encoding="utf-8")
    return {
        "run": str(tmp_path / "run"),
        "model": str(start),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "train.csv")], "dev_fraction": 0.25},
        "training": {"epochs": 6, "batch_size": 8, "learning_rate": 0.01},
        "checkpointing": {"every_steps": 3},
    }


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Killed(Exception):  # noqa: N818
    pass


def killed_at(monkeypatch, recipe, moment):
    update = Trainer._update

    def dying(self, measured):
        update(self, measured)
        if self.step == moment:
            self.builtin[-1].snapshots.wait()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", dying)
        with pytest.raises(Killed):
            finetune(recipe)


def test_balanced_weights_are_written_as_numbers(recipe, tmp_path):
    recipe["task"]["label_loss"] = {"smoothing": 0.1, "weights": "balanced"}
    done = finetune(recipe, "training.epochs=0.5")
    written = json.loads((tmp_path / "run" / "seed-0" / "recipe.json").read_text())
    given = [item.label for item in done.data.train]
    expected = {label: len(given) / (2 * given.count(label)) for label in ("no", "yes")}
    assert written["task"]["label_loss"] == {
        "smoothing": 0.1,
        "weights": pytest.approx(expected),
    }
    assert expected["no"] > 1 > expected["yes"]
    assert cw.load(done.model).task.label_loss.weights == pytest.approx(expected)


def test_weights_change_what_is_learned(recipe, tmp_path):
    recipe["training"]["epochs"] = 1
    plain = finetune({**recipe, "run": str(tmp_path / "plain")})
    recipe["task"]["label_loss"] = {"weights": {"no": 50.0}}
    heavy = finetune(recipe)
    text = ["the fish is odd"]
    share = [cw.load(run.model).classify(text)[0].scores["no"] for run in (plain, heavy)]
    assert share[1] > share[0]


@pytest.fixture
def adapted(recipe):
    recipe["lora"] = LORA
    recipe["training"] |= {"learning_rate": 0.03, "epochs": 12}
    return recipe


def test_lora_changes_only_what_it_may_and_leaves_a_plain_model(adapted, start, listener):
    done = finetune(adapted, callback=listener)
    before, after = cw.load(start).model.state_dict(), cw.load(done.model).model.state_dict()
    changed = {
        name
        for name, tensor in after.items()
        if name in before and not torch.equal(tensor, before[name])
    }
    layers = [f"encoder.layers.{layer}" for layer in (0, 1)]
    assert {name for name in changed if name.startswith(("encoder.", "embeddings."))} == {
        f"{layer}.{name}.weight"
        for layer in layers
        for name in ("attention.part.query", "attention.part.value", "feed_forward.part.up")
    }
    assert not [name for name in after if "lora" in name]
    for name in changed:
        if name.startswith("encoder."):  # a difference of rank 4 and no more
            values = torch.linalg.svdvals((after[name] - before[name]).double())
            assert values[4] < 1e-5 * values[0]
            assert values[3] > 1e-4 * values[0]
    assert done.best.measured.value == 1.0
    assert any("parameters change; the others are frozen." in note for note in listener.notes)


def test_a_base_and_its_adapter_are_the_merged_model(adapted, start, tmp_path):
    done = finetune(adapted)
    assert sorted(path.name for path in (done.model / "adapter").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "clozeworks.json",
    ]
    merged, model = cw.load(done.model), cw.load(start)
    untouched = {name: tensor.clone() for name, tensor in model.model.state_dict().items()}
    network = model.model
    load_adapter(model, done.model / "adapter")
    ours, theirs = model.model.state_dict(), merged.model.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert all(torch.equal(tensor, network.state_dict()[n]) for n, tensor in untouched.items())
    texts = ["the dog is good 3", "the cat is bad 1"]
    found, expected = model.classify(texts), merged.classify(texts)
    assert [each.label for each in found] == [each.label for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected])
    model.save(tmp_path / "again")
    assert digest(tmp_path / "again" / "model.safetensors") == digest(
        done.model / "model.safetensors"
    )


@pytest.mark.parametrize("extra", [{"lora": LORA}, {"adversarial": ADVERSARIAL}], ids=str)
def test_killed_it_ends_with_the_same_bytes(recipe, tmp_path, monkeypatch, extra):
    recipe |= extra
    recipe["training"]["epochs"] = 2
    recipe["evaluation"] = {"every_steps": 4}
    whole = finetune({**recipe, "run": str(tmp_path / "whole")})
    killed_at(monkeypatch, recipe, 7)
    done = finetune(recipe)
    assert digest(done.model / "model.safetensors") == digest(whole.model / "model.safetensors")
    if "lora" in extra:
        file = "adapter/adapter_model.safetensors"
        assert digest(done.model / file) == digest(whole.model / file)


def test_killed_while_it_saves_it_saves_again(adapted, monkeypatch):
    from clozeworks.jobs.finetune import run as finetuning

    def dying(self):
        raise Killed

    adapted["training"]["epochs"] = 0.5
    with monkeypatch.context() as patch:
        patch.setattr(finetuning.RunResult, "write", dying)
        with pytest.raises(Killed):
            finetune(adapted)
    done = finetune(adapted)
    assert (done.model / "adapter" / "adapter_config.json").exists()


def test_what_moves_cost_is_trained_on_and_written_down(recipe, tmp_path):
    # What is dropped depends on the number of threads, so there must be steps enough for any luck.
    recipe["training"]["epochs"] = 12
    recipe["adversarial"] = {"weight": 5.0, "spread": 0.3, "step": 0.1}
    still = finetune(recipe)
    del recipe["adversarial"]
    plain = finetune({**recipe, "run": str(tmp_path / "plain")})
    assert still.best.measured.value == 1.0
    assert digest(still.model / "model.safetensors") != digest(plain.model / "model.safetensors")
    records = (tmp_path / "run" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    costs = [json.loads(line)["adversarial"] for line in records if "evaluation" not in line]
    assert all(cost["loss"] > 0 for cost in costs)


def test_layers_join_when_they_should(recipe, monkeypatch):
    """Heads and pooler from the first step, then every two steps one more layer from the top."""
    # Without a rise the rate of the first step is above 0: a part changes at the step it joins.
    recipe["training"] |= {
        "freezing": {"unfreeze_every_steps": 2},
        "schedule": {"kind": "linear", "warmup_steps": 0},
    }
    seen = {}
    update = Trainer._update

    def watching(self, measured):
        before = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        update(self, measured)
        for name, parameter in self.model.named_parameters():
            if not torch.equal(parameter, before[name]):
                seen.setdefault(name, self.step)

    monkeypatch.setattr(Trainer, "_update", watching)
    finetune(recipe)

    def joined(prefix):
        return {step for name, step in seen.items() if name.startswith(prefix)}

    assert joined("heads.") == {1}
    assert joined("pooler.") == {1}
    assert joined("encoder.layers.1.") == {3}
    assert joined("encoder.layers.0.") == {5}
    assert min(joined("embeddings.")) == 7


def test_the_usual_learning_rate_of_thin_matrices_is_higher():
    assert usual_learning_rate(110_000_000, lora=True) == pytest.approx(3e-4)


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        (
            ["training.freezing.heads_only=true", "lora.rank=2"],
            SettingError,
            "lora is set; `training.freezing.heads_only` is true: nothing that lora adds ever "
            "changes; leave one of them out.",
        ),
        (["lora.rank=0"], SettingError, "lora.rank is 0; it must be at least 1."),
        (
            ["lora.rank=2", "training.optimizer.kind=adafactor"],
            SettingError,
            "begins at 0, and a fraction of nothing is no step; leave one of them out.",
        ),
        (["lora.rang=2"], UnknownName, "Did you mean 'rank'?"),
        (
            ['lora.targets=["keys"]'],
            UnknownName,
            "A target of lora.targets is 'keys'; known: down, key, output, query, up, value.",
        ),
        (
            ["adversarial.step=0"],
            SettingError,
            "adversarial.step is 0.0; it must be above 0.",
        ),
        (
            ["training.schedule.warmup_fraction=1"],
            SettingError,
            "schedule.warmup_fraction is 1.0; it must be at least 0 and below 1.",
        ),
        (
            ["task.label_loss.weights={maybe = 2.0}"],
            UnknownName,
            "A label of task.label_loss.weights is 'maybe'; known: no, yes.",
        ),
    ],
)
def test_settings_that_cannot_be(recipe, changes, error, sentence):
    with pytest.raises(error) as caught:
        finetune(recipe, *changes)
    assert sentence in str(caught.value)
