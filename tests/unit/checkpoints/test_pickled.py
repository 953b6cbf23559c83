"""Weights in pickles become safetensors in a process that can do nothing else."""

import json
import os
import pickle
import pickletools
import shutil
import zipfile
from collections import OrderedDict
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from safetensors.torch import load_file

import clozeworks as cw
from clozeworks.checkpoints import pickled as reading
from clozeworks.checkpoints.pickle_protocol import rewritten
from clozeworks.checkpoints.pickled import convert
from clozeworks.errors import CheckpointError, OutputError


@pytest.fixture
def pickled(tmp_path):
    """A function that writes a small model folder with its weights as `save` does."""

    def build(save, name="pytorch_model.bin"):
        folder = tmp_path / "published"
        model = cw.new("bert-tiny", tokenizer(tmp_path), num_hidden_layers=1, heads=["vocabulary"])
        model.save(folder, overwrite=True)
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        save(weights, folder / name)
        return folder, weights

    return build


@pytest.fixture
def here(monkeypatch):
    """Converts in this process: a child has to import torch, and does the same with more care."""

    def run(command, **_):
        source, target = map(Path, command[3:5])
        return CompletedProcess(command, 0, json.dumps(reading._rewrite(source, target)), "")

    monkeypatch.setattr(reading.subprocess, "run", run)


def tokenizer(folder):
    path = folder / "tokenizer"
    if not path.exists():
        path.mkdir()
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
        (path / "vocab.txt").write_text("\n".join(words) + "\n")
    return path


def as_zip(weights, path):
    torch.save(weights, path)


def as_before_1_6(weights, path):
    torch.save(weights, path, _use_new_zipfile_serialization=False)


@pytest.mark.parametrize("save", [as_zip, as_before_1_6])
def test_every_weight_and_every_other_file_is_kept(pickled, tmp_path, save):
    folder, weights = pickled(save)
    done = convert(folder, tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == weights.keys() and done.tensors == len(weights)
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    kept = {path.name for path in folder.iterdir()} - {"pytorch_model.bin"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == kept | {"model.safetensors"}
    assert cw.load(tmp_path / "out").fill("a [MASK]", top=1)


def test_weights_that_share_memory_are_written_once_each(pickled, here, tmp_path):
    def save(weights, path):
        table = weights["bert.embeddings.word_embeddings.weight"]
        torch.save({**weights, "cls.predictions.decoder.weight": table}, path)

    folder, weights = pickled(save)
    convert(folder, tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(
        found["cls.predictions.decoder.weight"], weights["bert.embeddings.word_embeddings.weight"]
    )


def test_what_training_programs_wrap_around_weights_is_taken_off(pickled, here, tmp_path):
    def save(weights, path):
        inner = {f"module.{name}": weight for name, weight in weights.items()}
        torch.save({"state_dict": {**inner}, "epoch": 3}, path)

    folder, weights = pickled(save)
    done = convert(folder, tmp_path / "out")
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == weights.keys()
    assert done.notes == (
        "The weights were under the key 'state_dict'; the rest was left out.",
        "Every name began with 'module.', as DataParallel writes it; it was removed.",
    )


def test_shards_keep_their_index(pickled, here, tmp_path):
    def save(weights, path):
        names = sorted(weights)
        halves = {"pytorch_model-1.bin": names[::2], "pytorch_model-2.bin": names[1::2]}
        for file, some in halves.items():
            torch.save({name: weights[name] for name in some}, path.with_name(file))
        weight_map = {name: file for file, some in halves.items() for name in some}
        path.with_name("pytorch_model.bin.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": weight_map})
        )

    folder, weights = pickled(save)
    convert(folder, tmp_path / "out")
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == weights.keys()
    assert not list((tmp_path / "out").glob("*.bin*"))
    assert cw.load(tmp_path / "out").blueprint.count() > 0


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_file_that_would_run_a_program_runs_none(pickled, tmp_path, protocol):
    mark = tmp_path / "was-here"

    def save(weights, path):
        torch.save({"a": torch.ones(2), "b": Harmful(mark)}, path, pickle_protocol=protocol)

    folder, _ = pickled(save)
    with pytest.raises(CheckpointError, match=r"it holds more than tensors \(posix.system\)"):
        convert(folder, tmp_path / "out")
    assert not mark.exists() and not (tmp_path / "out").exists()


def test_a_newer_protocol_is_read(pickled, here, tmp_path):
    def save(weights, path):
        state = {"state_dict": OrderedDict(weights), "epoch": 2**70, "note": "é" * 300}
        torch.save(state, path, pickle_protocol=4)

    folder, weights = pickled(save)
    done = convert(folder, tmp_path / "out")
    assert done.notes == ("The weights were under the key 'state_dict'; the rest was left out.",)
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)


VALUE = {"a": [1, -2, 2**40, 1.5, None, True, (), ("x",), "x", b"y"], "x": OrderedDict(x="é\ud800")}


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_rewritten_pickle_means_the_same(protocol):
    data = rewritten(pickle.dumps(VALUE, protocol))
    assert pickle.loads(data) == VALUE
    assert max(opcode.proto for opcode, _, _ in pickletools.genops(data)) <= 3  # of bytes


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x93.",  # a global without names
        b"\x80\x04K\x01\x8c\x01a\x93.",  # one named by a number
        b"\x80\x04\x8c\x03a\nb\x8c\x01c\x93.",  # a name of two lines
        b"\x80\x04\x8c\xffa.",
        b"",
    ],
)
def test_a_pickle_that_cannot_be_taken_apart(data):
    with pytest.raises(ValueError):
        rewritten(data)


def test_a_full_disk_is_no_fault_of_the_file(pickled, small_disk):
    folder, _ = pickled(as_zip)
    with pytest.raises(OutputError) as caught:
        convert(folder, small_disk / "out")
    assert str(caught.value) == (
        f"{small_disk / 'out'} could not be written (No space left on device); nothing was "
        "changed; fix this, or choose another place."
    )
    assert not list(small_disk.iterdir())


def test_weights_of_sub_folders_are_converted_or_named(pickled, here, tmp_path):
    folder, _ = pickled(as_zip)
    for name in ("2_Dense", "onnx"):
        (folder / name).mkdir()
    torch.save({"linear.weight": torch.ones(2, 2)}, folder / "2_Dense" / "pytorch_model.bin")
    (folder / "2_Dense" / "config.json").write_text("{}")
    (folder / "onnx" / "model.onnx").touch()
    done = convert(folder, tmp_path / "out")
    assert done.notes == (
        "Weights of sub-folders were left out: onnx/model.onnx.",
        "2_Dense/pytorch_model.bin was converted, too: 2_Dense/model.safetensors.",
    )
    dense = load_file(tmp_path / "out" / "2_Dense" / "model.safetensors")
    assert dense["linear.weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert (tmp_path / "out" / "2_Dense" / "config.json").exists()


def test_a_bare_pickle_is_refused(pickled, tmp_path):
    mark = tmp_path / "was-here"
    folder, _ = pickled(lambda weights, path: path.write_bytes(pickle.dumps(Harmful(mark))))
    with pytest.raises(CheckpointError, match="cannot be converted"):
        convert(folder, tmp_path / "out")
    assert not mark.exists()


def test_a_small_file_cannot_take_much_memory(pickled, tmp_path):
    def save(weights, path):
        torch.save({"a": torch.zeros(1).expand(1 << 31)}, path)  # 4 bytes, and 8 GB once copied

    folder, _ = pickled(save)
    with pytest.raises(CheckpointError, match="memory"):
        convert(folder, tmp_path / "out")


def test_damaged_and_empty_files_get_a_sentence(pickled, here, tmp_path):
    folder, _ = pickled(as_zip)
    whole = (folder / "pytorch_model.bin").read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"PK\x03\x04 not a zip", bytes(range(256))):
        (folder / "pytorch_model.bin").write_bytes(content)
        with pytest.raises(CheckpointError, match="cannot be converted: it "):
            convert(folder, tmp_path / "out")
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as file:
        file.writestr("archive/data.pkl", b"")
    with pytest.raises(CheckpointError, match="cannot be converted"):
        convert(folder, tmp_path / "out")


def test_it_may_not_take_too_long(pickled, tmp_path):
    folder, _ = pickled(as_zip)
    with pytest.raises(CheckpointError, match=r"was not read within 0 seconds"):
        convert(folder, tmp_path / "out", max_seconds=0.01)


def test_folders_without_such_weights(pickled, tmp_path):
    folder, _ = pickled(as_zip)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(CheckpointError, match=r"neither pytorch_model\.bin nor"):
        convert(folder, tmp_path / "out")
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError, match="is not a folder"):
        convert(folder, tmp_path / "out")


def test_the_target_is_checked_first(pickled, tmp_path):
    folder, _ = pickled(as_zip)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    for overwrite in (False, True):  # nothing is advised that would be refused
        with pytest.raises(OutputError, match="neither a model nor a tokenizer, so it is not rep"):
            convert(folder, tmp_path / "out", overwrite=overwrite)
    (tmp_path / "out" / "config.json").touch()
    with pytest.raises(OutputError, match=r"exists and is not empty; .* replace it with --over"):
        convert(folder, tmp_path / "out")
    with pytest.raises(CheckpointError, match="name another one"):
        convert(folder, folder, overwrite=True)
