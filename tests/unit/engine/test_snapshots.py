"""Snapshots: whole or not at all, checked to the last bit, the older if the newer is damaged."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from clozeworks.engine import snapshots as module
from clozeworks.engine.snapshots import (
    DamagedSnapshot,
    Snapshots,
    fill_optimizer,
    optimizer_tensors,
)
from clozeworks.errors import OutputError
from clozeworks.storage import tensor_file

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]


@pytest.fixture
def snapshots(tmp_path):
    return Snapshots(tmp_path / "snapshots", keep=2)


@pytest.fixture
def filled(snapshots, tensors):
    """Writes snapshots of some steps."""

    def write(*steps):
        for step in steps:
            snapshots.begin(step, tensors(step), {"tokens": step * 10, "name": "é"})
            snapshots.wait()
        return snapshots

    return write


def test_what_is_read_is_what_was_written(filled, tensors):
    snapshot, damaged = filled(7).read_latest()
    assert (snapshot.step, snapshot.state, damaged) == (7, {"tokens": 70, "name": "é"}, [])
    expected = tensors(7)
    assert snapshot.tensors.keys() == expected.keys()
    for file, group in expected.items():
        assert snapshot.tensors[file].keys() == group.keys()
        for name, tensor in group.items():
            assert torch.equal(snapshot.tensors[file][name], tensor)


def test_the_folder_holds_the_newest_and_names_it(filled):
    snapshots = filled(1, 2, 30, 1_000_000_000)
    assert snapshots.steps() == [30, 1_000_000_000]
    assert (snapshots.folder / "latest").read_text() == "step-1000000000\n"
    assert sorted(path.name for path in snapshots.folder.iterdir()) == [
        "latest",
        "step-000000030",
        "step-1000000000",
    ]
    assert sorted(path.name for path in (snapshots.folder / "step-000000030").iterdir()) == FILES


def test_training_may_change_the_weights_while_they_are_written(snapshots, tensors):
    given, state = tensors(1.0), {"sums": [1.0]}
    snapshots.begin(1, given, state)
    state["sums"][0] = 9.0  # the state at once
    snapshots.wait_for_tensors()
    given["model"]["a"].fill_(9.0)  # and the weights when they are written
    snapshots.wait()
    found = snapshots.read(1)
    assert found.tensors["model"]["a"].tolist() == [1, 1, 1] and found.state == {"sums": [1.0]}


def test_no_snapshot_is_no_damage(snapshots):
    assert snapshots.read_latest() == (None, []) and snapshots.steps() == []


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_found(filled, name):
    snapshots = filled(1, 2)
    path = snapshots.folder / "step-000000002" / name
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        snapshot, sentences = snapshots.read_latest()
        assert snapshot.step == 1
        assert len(sentences) == 1 and str(path.parent) in sentences[0]
        if name != "manifest.json":
            assert sentences == [f"{path} is damaged: its content is not what its manifest says."]


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_cut_or_gone_are_found(filled, name):
    snapshots = filled(1, 2)
    path = snapshots.folder / "step-000000002" / name
    path.write_bytes(path.read_bytes()[:-3])
    snapshot, [sentence] = snapshots.read_latest()
    assert snapshot.step == 1 and str(path) in sentence
    path.unlink()
    snapshot, [sentence] = snapshots.read_latest()
    assert snapshot.step == 1 and f"{path} cannot be read (" in sentence


def test_if_none_is_whole_the_run_stops(filled):
    snapshots = filled(1, 2)
    for path in snapshots.folder.glob("*/state.json"):
        path.write_bytes(b"{}")
    folder = snapshots.folder
    with pytest.raises(DamagedSnapshot) as caught:
        snapshots.read_latest()
    assert str(caught.value) == (
        f"{folder}/step-000000002/state.json is damaged: its size is not what its manifest says. "
        f"{folder}/step-000000001/state.json is damaged: its size is not what its manifest says. "
        f"No snapshot in {folder} is whole, so the run cannot go on; restore one, or remove that "
        "folder to begin again at the first step."
    )


def test_damaged_snapshots_do_not_push_out_good_ones(tmp_path, tensors):
    snapshots = Snapshots(tmp_path, keep=1)
    snapshots.begin(5, tensors(), {})
    snapshots.wait()
    shutil.copytree(tmp_path / "step-000000005", tmp_path / "step-000000009")
    snapshot, [sentence] = snapshots.read_latest()
    assert snapshot.step == 5 and "step-000000009" in sentence
    snapshots.remove_after(5)
    snapshots.begin(6, tensors(), {})
    snapshots.wait()
    assert snapshots.steps() == [6] and snapshots.read_latest()[0].step == 6


def full_saving(*_, **__):
    raise SafetensorError(
        "Error while serializing: I/O error: No space left on device (os error 28)"
    )


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("where", "name", "refuse"),
    [
        (tensor_file, "save_file", full_saving),
        (module.os, "fsync", full),
        (module.Path, "mkdir", full),
    ],
    ids=["saving", "syncing", "making a folder"],
)
def test_a_full_disk_leaves_the_old_snapshots_and_no_half_one(
    filled, tensors, monkeypatch, where, name, refuse
):
    snapshots = filled(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, refuse)
        snapshots.begin(3, tensors(3.0), {})
        with pytest.raises(OutputError) as caught:
            snapshots.wait()
    target = snapshots.folder / "step-000000003"
    assert str(caught.value) == f"{target} could not be written (No space left on device)"
    assert snapshots.steps() == [1, 2] and snapshots.newest == -1
    assert len(list(snapshots.folder.iterdir())) == 3
    snapshots.raise_failure()  # speaks only once
    filled(3)
    assert snapshots.steps() == [2, 3]


def test_no_error_of_the_writer_is_lost(snapshots, tensors, monkeypatch):
    def broken(*_, **__):
        raise MemoryError("no memory")

    monkeypatch.setattr(module, "write_tensors", broken)
    snapshots.begin(3, tensors(), {})
    with pytest.raises(OutputError, match=r"could not be written \(no memory\)"):
        snapshots.wait()


@pytest.mark.parametrize("moment", range(14))
def test_a_writer_killed_at_any_moment_leaves_a_whole_snapshot(
    filled, tensors, monkeypatch, moment
):
    """Each call that changes the disk may be the last one."""
    snapshots = filled(1, 2)
    left = [moment]

    class Killed(BaseException):
        pass

    def mortal(real):
        def call(*arguments, **options):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_tensors", mortal(module.write_tensors))
        patch.setattr(module, "sync", mortal(module.sync))
        patch.setattr(module.Path, "rename", mortal(module.Path.rename))
        patch.setattr(module.Path, "write_text", mortal(module.Path.write_text))
        patch.setattr(module.Path, "replace", mortal(module.Path.replace))
        # A process that is dead removes nothing.
        dead = mortal(shutil.rmtree)
        patch.setattr(module.shutil, "rmtree", lambda *a, **o: left[0] and dead(*a, **o))
        snapshots._write(3, tensors(3.0), '{"tokens": 3}', True)
    monkeypatch.undo()
    later = Snapshots(snapshots.folder, keep=2)
    snapshot, damaged = later.read_latest()
    assert snapshot.step in (2, 3) and damaged == []
    later.remove_leftovers()
    assert {path.name[:5] for path in later.folder.iterdir()} <= {"step-", "lates"}
    later.begin(4, tensors(4.0), {})
    later.wait()
    assert later.steps()[-1] == 4 and (later.folder / "latest").read_text() == "step-000000004\n"
    assert len(later.steps()) == 2


def test_the_state_of_an_optimiser_goes_into_a_fresh_one():
    model = torch.nn.Linear(3, 2)
    names = {id(value): name for name, value in model.named_parameters()}
    first = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    first.step()
    saved = {name: value.clone() for name, value in optimizer_tensors(first, names).items()}
    assert "weight/exp_avg" in saved and "bias/step" in saved
    second = torch.optim.AdamW(model.parameters())
    fill_optimizer(second, names, saved)
    found = optimizer_tensors(second, names)
    assert found.keys() == saved.keys()
    assert all(torch.equal(found[name], saved[name]) for name in saved)


def test_without_pruning_all_older_ones_stay(filled, tensors):
    snapshots = filled(1, 2)
    snapshots.begin(3, tensors(3.0), {}, prune=False)
    snapshots.wait()
    assert snapshots.steps() == [1, 2, 3]


def test_a_file_that_cannot_be_read_now_is_not_taken_for_damaged(filled, monkeypatch):
    snapshots = filled(1, 2)
    real = Path.open

    def failing(path, *args, **options):
        if "step-000000002" in str(path):
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(OutputError, match="fix the disk or its permissions"):
        snapshots.read_latest()


def test_all_later_ones_go_and_no_other(tmp_path, tensors):
    snapshots = Snapshots(tmp_path, keep=9)
    for step in (3, 4, 5, 9):
        snapshots.begin(step, tensors(float(step)), {})
        snapshots.wait()
    snapshots.remove_after(4)
    assert snapshots.steps() == [3, 4]


@pytest.mark.parametrize("name", ["state\\u0000.json", "state\\ud800.json", "../state.json"])
def test_a_manifest_that_names_no_file(filled, name):
    snapshots = filled(1, 2)
    path = snapshots.folder / "step-000000002" / "manifest.json"
    path.write_text(path.read_text().replace("state.json", name))
    snapshot, damaged = snapshots.read_latest()
    assert (snapshot.step, damaged) == (1, [f"{path} is damaged."])
