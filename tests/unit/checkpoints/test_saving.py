"""A folder is written whole or not at all, and what was read is written again."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

import clozeworks as cw
from clozeworks.checkpoints import tensors, whole_folder
from clozeworks.errors import InputError, OutputError, SettingError
from clozeworks.storage import tensor_file


def same_weights(one, other) -> bool:
    first, second = one.model.state_dict(), other.model.state_dict()
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        # What the library raises itself.
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_changes_nothing(bert_model, tmp_path, listing, monkeypatch, error, exists):
    model = cw.load(bert_model)
    target = bert_model if exists else tmp_path / "new" / "deep" / "model"
    before = listing(tmp_path)

    def full(*_, **__):
        raise error

    monkeypatch.setattr(tensor_file, "save_file", full)
    sentence = (
        f"{target} could not be written (No space left on device); nothing was changed; fix this, "
        "or choose another place."
    )
    with pytest.raises(OutputError) as caught:
        model.save(target, overwrite=exists)
    assert str(caught.value) == sentence
    assert listing(tmp_path) == before


@pytest.mark.parametrize("exchanges", [True, False])
def test_saving_onto_the_folder_the_weights_are_mapped_from(
    bert_model, tmp_path, monkeypatch, exchanges
):
    if not exchanges:
        monkeypatch.setattr(whole_folder, "_exchange", lambda *_: False)
    before = cw.load(bert_model, dtype="float32")
    kept = {name: tensor.clone() for name, tensor in before.model.state_dict().items()}
    model = cw.load(bert_model)
    model.save(bert_model, overwrite=True)
    model.save(bert_model, overwrite=True)
    for found in (model, cw.load(bert_model)):
        for name, tensor in found.model.state_dict().items():
            assert torch.equal(tensor, kept[name])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_replaced_folder_is_never_half_there(bert_model, tmp_path, monkeypatch):
    """Until the last step the old folder stands, whole; a failing last step brings it back."""
    model = cw.load(bert_model)
    (bert_model / "old.txt").touch()
    rename = type(bert_model).rename

    def fails(self, target):
        if self.name.endswith(".tmp"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    monkeypatch.setattr(whole_folder, "_exchange", lambda *_: False)
    monkeypatch.setattr(type(bert_model), "rename", fails)
    with pytest.raises(OutputError, match=r"could not be written \(Input/output error\)"):
        model.save(bert_model, overwrite=True)
    assert (bert_model / "old.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    monkeypatch.undo()
    model.save(bert_model, overwrite=True)
    assert not (bert_model / "old.txt").exists()


def test_a_folder_that_fills_up_meanwhile_is_not_replaced(bert_model, tmp_path):
    """Without overwrite the first of two wins, and its folder is whole."""
    model, target = cw.load(bert_model), tmp_path / "target"
    with (
        pytest.raises(OutputError, match=r"could not be written \(Directory not empty\)"),
        whole_folder.fresh_folder(target) as place,
    ):
        (place / "config.json").write_text("{}")
        model.save(target)
    assert same_weights(cw.load(target), model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "target"]


SAVE = """
import sys
import clozeworks as cw
model = cw.load(sys.argv[1])
print("ready", flush=True)
for _ in range(40):
    model.save(sys.argv[2], overwrite=True)
"""


def test_two_processes_saving_to_one_folder(start, tiny_models, tmp_path):
    target = tmp_path / "target"
    shutil.copytree(tiny_models["bert"], target)
    running = [start(["-c", SAVE, folder, target]) for folder in tiny_models.values()]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    while any(process.poll() is None for process in running):
        assert target.is_dir()
    assert [(process.wait(), process.stderr.read()) for process in running] == [(0, ""), (0, "")]
    found = cw.load(target)
    assert same_weights(found, cw.load(tiny_models[found.family.model_type]))
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_link_is_followed_and_stays_a_link(bert_model, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("model")
    cw.load(link).save(link, overwrite=True)
    assert link.is_symlink() and not bert_model.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model"]


def test_everybody_may_read_what_the_umask_allows(bert_model, tmp_path):
    cw.load(bert_model).save(tmp_path / "whole")
    cw.load(bert_model).save(tmp_path / "parts", shard_bytes=40_000)
    assert len(list((tmp_path / "parts").glob("model-*.safetensors"))) > 2
    modes = {path.stat().st_mode for path in tmp_path.glob("[wp]*/*")}
    assert len(modes) == 1


def test_unknown_keys_of_a_config_survive(bert_model, tmp_path):
    path = bert_model / "config.json"
    config = json.loads(path.read_text())
    config["task_specific"] = {"名": [1, 2]}
    path.write_text(json.dumps(config))
    (bert_model / "clozeworks.json").unlink()  # as if another library had written it
    cw.load(bert_model).save(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "config.json").read_text(encoding="utf-8"))
    assert again == config


@pytest.mark.parametrize(
    ("modes", "written"),
    [
        (("first",), ["pooling_mode_cls_token"]),
        (("max", "mean"), ["pooling_mode_max_tokens", "pooling_mode_mean_tokens"]),
        (("mean", "first"), ["mean", "cls"]),
    ],
)
@pytest.mark.parametrize("normalize", [True, False])
def test_pooling_survives_in_its_order(bert_model, tmp_path, modes, written, normalize):
    model = cw.load(bert_model)
    model.pooling = cw.Pooling(modes=modes, normalize=normalize, max_length=20)
    model.save(tmp_path / "again")
    config = json.loads((tmp_path / "again" / "1_Pooling" / "config.json").read_text())
    flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    assert config.get("pooling_mode", flags) == written
    again = cw.load(tmp_path / "again")
    assert again.pooling == model.pooling
    np.testing.assert_array_equal(again.embed("the cat"), model.embed("the cat"))
    with pytest.raises(InputError, match=r"^text 1 has 32 tokens; at most 20 are allowed;"):
        again.embed("cat " * 30)


@pytest.mark.parametrize(
    ("config", "modes"),
    [
        ({"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True}, ("mean",)),
        ({"pooling_mode": ["cls", "lasttoken"]}, ("first", "last")),
        ({"pooling_mode_weightedmean_tokens": True}, ("weighted_mean",)),
    ],
)
def test_newer_and_older_sentence_files(bert_model, config, modes):
    package = "sentence_transformers.sentence_transformer.modules"
    steps = [
        {"idx": 0, "name": "0", "path": "", "type": f"{package}.transformer.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{package}.pooling.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{package}.normalize.Normalize"},
    ]
    (bert_model / "modules.json").write_text(json.dumps(steps))
    (bert_model / "1_Pooling").mkdir()
    (bert_model / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert cw.load(bert_model).pooling == cw.Pooling(modes=modes, normalize=True, stated=True)


def test_hidden_layers(tiny_models):
    model = cw.load(tiny_models["bert"])
    layers = [model.hidden_states("the cat sat", layer=layer) for layer in (0, 1, 2)]
    assert layers[0].tokens == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    assert layers[0].offsets[1:4] == [(0, 3), (4, 7), (8, 11)]
    assert all(layer.vectors.shape == (5, 32) for layer in layers)
    assert not np.allclose(layers[0].vectors, layers[1].vectors)
    np.testing.assert_array_equal(model.hidden_states("the cat sat").vectors, layers[2].vectors)
    np.testing.assert_allclose(
        layers[2].vectors.mean(axis=0), model.embed("the cat sat"), atol=1e-5
    )
    for layer in (1, 2):
        counted = model.hidden_states("the cat sat", layer=layer - 3).vectors
        np.testing.assert_array_equal(counted, layers[layer].vectors)
    with pytest.raises(SettingError) as caught:
        model.hidden_states("the cat", layer=3)
    assert str(caught.value) == (
        "layer is 3; this model has 2 layers; use 0 (the embeddings) to 2, or a negative number "
        "that counts from the last."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "text 2 is empty; a vector needs at least one word; drop it."),
        (" \n", "text 2 is only white space; a vector needs at least one word; drop it."),
        (
            "a\udc80",
            "text 2 has a lone surrogate (U+DC80) at character 2; it is not valid Unicode; remove "
            "it or repair the file's encoding.",
        ),
    ],
)
def test_texts_that_cannot_become_vectors(tiny_models, text, sentence):
    model = cw.load(tiny_models["bert"])
    for task in (model.embed, model.hidden_states):
        with pytest.raises(InputError) as caught:
            task(["the cat", text])
        assert str(caught.value) == sentence


def test_shards_are_filled_before_the_next_one_begins(tmp_path):
    weights = {f"w{number}": torch.full((10,), float(number)) for number in range(7)}  # 40 bytes
    tensors.write_weights(tmp_path, weights, shard_bytes=85)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    names = [index["weight_map"][f"w{number}"] for number in range(7)]
    assert names == [f"model-{number // 2 + 1:05d}-of-00004.safetensors" for number in range(7)]
    assert index["metadata"]["total_size"] == 280
