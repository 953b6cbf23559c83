"""Adapters: written in the published layout, read back to the bit, and complaints by text."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import clozeworks as cw
from clozeworks.checkpoints.adapters import load_adapter, write_adapter
from clozeworks.compress.lora import Lora, adapted, add_lora, merge_lora
from clozeworks.errors import CheckpointError
from clozeworks.storage.checksums import note_files
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag
from clozeworks.text.training.train import train_from_iterator

SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
SIZES = {
    "bert": ("bert-tiny", SMALL),
    "roberta": ("roberta-base", {**SMALL, "num_hidden_layers": 2}),
    "distilbert": ("distilbert-base", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}),
    # Families whose published weights are several of ours, or of another shape.
    "modernbert": ("modernbert-base", {**SMALL, "num_hidden_layers": 2}),
    "xlnet": ("xlnet-base", {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}),
    "deberta": ("deberta-base", {**SMALL, "num_hidden_layers": 2}),
}
TASK = Classify(labels=("bad", "good"))
EVERY = ("query", "key", "value", "output", "up", "down")


def base(family="bert"):
    size, changes = SIZES[family]
    kind, entries = ("bpe", 280) if family == "roberta" else ("wordpiece", 60)
    tokenizer = train_from_iterator(["the fox ran"] * 5, kind=kind, size=entries)
    return cw.new(size, tokenizer, **changes)


def trained(model, task=TASK, lora=None):
    """The model as if it had learned a task."""
    lora = lora or Lora(rank=2)
    made = model.for_task(task, seed=1)
    add_lora(made.model, lora)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    pairs = {n: (m.lora_a.detach(), m.lora_b.detach()) for n, m in adapted(made.model).items()}
    merge_lora(made.model)
    return made, pairs, lora


def written(folder, family="bert", task=TASK, lora=None):
    model = base(family)
    made, pairs, lora = trained(model, task, lora)
    write_adapter(
        made.checkpoint, folder, pairs, alpha=lora.alpha, dropout=lora.dropout, base="some/base"
    )
    return model, made


@pytest.mark.parametrize("family", SIZES)
@pytest.mark.parametrize(
    "task",
    [TASK, Classify(labels=("a", "b", "c"), pooling="mean"), Tag(labels=("O", "B-A"), crf=True)],
    ids=["classes", "own head", "tags"],
)
def test_a_base_and_its_adapter_are_the_merged_model(tmp_path, family, task):
    model, made = written(tmp_path / "adapter", family, task, Lora(rank=2, targets=EVERY))
    load_adapter(model, tmp_path / "adapter")
    ours, theirs = model.model.state_dict(), made.model.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert model.task == task


def test_pieces_of_a_weight_are_told_apart_and_the_folder_says_so(tmp_path):
    written(tmp_path / "pieces", "modernbert", lora=Lora(rank=2, targets=("query", "gate")))
    written(tmp_path / "whole", "modernbert", lora=Lora(rank=2, targets=("output", "down")))
    config = json.loads((tmp_path / "pieces" / "adapter_config.json").read_text())
    assert config["target_modules"] == ["Wi:gate", "Wqkv:query"]
    assert config["modules_to_save"] == ["classifier", "head"]
    weights = load_file(tmp_path / "pieces" / "adapter_model.safetensors")
    assert "base_model.model.model.layers.1.attn.Wqkv:query.lora_A.weight" in weights
    told = (tmp_path / "pieces" / "README.md").read_text()
    assert "PEFT cannot\nload it." in told and "load_adapter(model, folder)" in told
    assert not (tmp_path / "whole" / "README.md").exists()


def test_a_pair_for_the_whole_weight_is_taken_apart(tmp_path):
    """As PEFT has it where it adapts ModernBERT's Wqkv."""
    model, _ = written(tmp_path / "adapter", "modernbert", lora=Lora(rank=2, targets=("output",)))
    place = tmp_path / "adapter" / "adapter_model.safetensors"
    generator = torch.Generator().manual_seed(4)
    down, up = (torch.randn(shape, generator=generator) for shape in ((2, 16), (48, 2)))
    name = "base_model.model.model.layers.1.attn.Wqkv"
    save_file(
        {**load_file(place), f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}, place
    )
    note_files(place.parent, [place.name], [])
    before = {key: value.clone() for key, value in model.model.state_dict().items()}
    load_adapter(model, tmp_path / "adapter")
    after, learned = model.model.state_dict(), (8 * up @ down).chunk(3)
    for piece, difference in zip(("query", "key", "value"), learned, strict=True):
        key = f"encoder.layers.1.attention.part.{piece}.weight"
        torch.testing.assert_close(after[key], before[key] + difference)
    save_file(
        {**load_file(place), f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up[:47]}, place
    )
    with pytest.raises(CheckpointError, match=r"of \(47, 16\), and the model's is \(48, 16\)"):
        load_adapter(base("modernbert"), tmp_path / "adapter")


def test_the_layout_is_the_published_one(tmp_path):
    written(tmp_path / "adapter", lora=Lora(rank=2, alpha=5.0, dropout=0.25))
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config == {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS",
        "base_model_name_or_path": "some/base",
        "r": 2,
        "lora_alpha": 5.0,
        "lora_dropout": 0.25,
        "target_modules": ["query", "value"],
        "modules_to_save": ["classifier", "pooler"],
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    weights = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    layers = [f"base_model.model.bert.encoder.layer.{layer}.attention.self" for layer in (0, 1)]
    assert set(weights) == {
        *(f"{layer}.{name}.lora_{part}.weight" for layer in layers for name in ("query", "value")
          for part in "AB"),
        *(f"base_model.model.{name}.{kind}" for name in ("bert.pooler.dense", "classifier")
          for kind in ("weight", "bias")),
    }  # fmt: skip
    assert weights[f"{layers[0]}.query.lora_A.weight"].shape == (2, 16)


@pytest.mark.parametrize(
    ("family", "targets", "expected"),
    [
        ("distilbert", ("query", "value"), ["q_lin", "v_lin"]),
        ("bert", ("up",), ["intermediate.dense"]),
        # What ends in output.dense is also the attention's, so layers must be named.
        ("bert", ("down",), ["0.output.dense", "1.output.dense"]),
        ("bert", ("output", "down"), ["output.dense"]),
    ],
)
def test_targets_are_the_shortest_endings_that_mean_them_alone(tmp_path, family, targets, expected):
    written(tmp_path / "adapter", family, lora=Lora(rank=2, targets=targets))
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["target_modules"] == expected


def test_without_a_noted_task_heads_go_where_there_are_heads(tmp_path):
    model, made = written(tmp_path / "adapter")
    (tmp_path / "adapter" / "clozeworks.json").unlink()
    ready = model.for_task(TASK, seed=9)
    load_adapter(ready, tmp_path / "adapter")
    ours, theirs = ready.model.state_dict(), made.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def changed(folder, **changes):
    place = folder / "adapter_config.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **changes}))


def without(folder, ending):
    place = folder / "adapter_model.safetensors"
    kept = {name: t for name, t in load_file(place).items() if not name.endswith(ending)}
    save_file(kept, place)


def reshaped(folder, ending):
    place = folder / "adapter_model.safetensors"
    weights = load_file(place)
    for name in weights:
        if name.endswith(ending):
            weights[name] = weights[name].unsqueeze(-1)
    save_file(weights, place)


NO_PLACE = (
    "{folder}: base_model.model.bert.pooler.dense.bias has no place in this model; load the model "
    "the adapter was trained on ('some/base'), with its head."
)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda folder: (folder / "adapter_config.json").unlink(),
            "{folder} has no adapter_config.json, so it is not an adapter; name the folder of one, "
            "such as RUN/model/adapter.",
        ),
        (
            lambda folder: changed(folder, use_dora=True),
            "{folder}/adapter_config.json: use_dora is True; Clozeworks computes only False; merge "
            "the adapter with the library that wrote it, and load the result.",
        ),
        (
            lambda folder: changed(folder, lora_alpha=0),
            "{folder}/adapter_config.json: lora_alpha is 0; it must be a number above 0; restore "
            "the file.",
        ),
        (
            lambda folder: changed(folder, r=float("inf")),
            "{folder}/adapter_config.json: r is inf; it must be a whole number above 0; restore "
            "the file.",
        ),
        (
            lambda folder: changed(folder, lora_alpha=10**400),
            "{folder}/adapter_config.json: lora_alpha is a number of more than 100 digits; it must "
            "be a number above 0; restore the file.",
        ),
        (
            lambda folder: reshaped(folder, "0.attention.self.query.lora_A.weight"),
            "{folder}: base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight "
            "has no partner of rank 2; restore adapter_model.safetensors.",
        ),
        (
            lambda folder: (folder / "adapter_model.safetensors").unlink(),
            "{folder} has no adapter_model.safetensors; only safetensors are read; save the "
            "adapter as such.",
        ),
        (
            lambda folder: without(folder, "0.attention.self.query.lora_B.weight"),
            "{folder}: base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight "
            "has no partner of rank 2; restore adapter_model.safetensors.",
        ),
        (
            lambda folder: without(folder, "classifier.bias"),
            "{folder} lacks heads.classes.project.bias, which its task needs; restore "
            "adapter_model.safetensors.",
        ),
        (lambda folder: (folder / "clozeworks.json").unlink(), NO_PLACE),
    ],
)
def test_what_cannot_be_read_is_said_and_changes_nothing(tmp_path, damage, sentence):
    folder = tmp_path / "adapter"
    model, _ = written(folder)
    damage(folder)
    before = model.checkpoint
    with pytest.raises(CheckpointError) as caught:
        load_adapter(model, folder)
    assert str(caught.value) == sentence.format(folder=folder)
    assert model.checkpoint is before


def test_cut_short_it_is_said(tmp_path):
    model, _ = written(tmp_path / "adapter")
    place = tmp_path / "adapter" / "adapter_model.safetensors"
    place.write_bytes(place.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"is damaged or was cut short \(.*\); copy it again"):
        load_adapter(model, tmp_path / "adapter")


def test_notes_that_cannot_be_read_are_said(tmp_path):
    model, _ = written(tmp_path / "adapter")
    (tmp_path / "adapter" / "clozeworks.json").write_text('{"task": {"kind": "dance"}}')
    with pytest.raises(CheckpointError, match="trained for the task 'dance', which is not known"):
        load_adapter(model, tmp_path / "adapter")


def test_another_model_is_said(tmp_path):
    written(tmp_path / "adapter")
    other = cw.new("bert-tiny", base().tokenizer, **{**SMALL, "hidden_size": 32})
    with pytest.raises(CheckpointError) as caught:
        load_adapter(other, tmp_path / "adapter")
    sentence = str(caught.value)
    assert sentence.startswith(f"{tmp_path / 'adapter'}: base_model.model.bert.")
    assert (
        "is for a weight of (16, 16), and the model's is (32, 32); load the model the" in sentence
    )
