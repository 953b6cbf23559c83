"""A process alone: nothing to add up, nobody to wait for."""

import pytest
import torch

from clozeworks.engine.distributed import ProcessGroup
from clozeworks.errors import SettingError


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_alone():
    with ProcessGroup("cpu") as ranks:
        assert (ranks.rank, ranks.count, ranks.leads) == (0, 1, True)
        assert ranks.summed([1.5, 2.0]) == [1.5, 2.0]
        assert ranks.agreed(3.0) == 3.0
        tensor = torch.arange(3.0)
        ranks.add_up([tensor])
        assert tensor.tolist() == [0, 1, 2]
    assert not torch.distributed.is_initialized()


def test_torchrun_says_who_this_is(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    ranks = ProcessGroup("cpu")
    assert (ranks.rank, ranks.count, ranks.leads) == (3, 4, False)


def test_a_rank_that_is_no_number(monkeypatch):
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(SettingError, match="RANK is 'first'; torchrun sets it to a number; unset"):
        ProcessGroup("cpu")


@pytest.mark.parametrize("device", ["gpu", "cpuu", "meta", "cuda", "cuda:7", "mps"])
def test_a_device_that_is_not_there(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(
        SettingError, match=rf"^device is '{device}'; this machine has cpu; use one of"
    ):
        ProcessGroup(device)


def test_each_process_has_an_accelerator_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert ProcessGroup().device == ProcessGroup("cuda").device == torch.device("cuda", 2)
    assert ProcessGroup("cuda:1").device == torch.device("cuda", 1)
    assert ProcessGroup("cpu").device == torch.device("cpu")
