"""Devices and number types by name."""

import pytest
import torch

import clozeworks as cw
from clozeworks.errors import SettingError, UnknownName
from clozeworks.runtime.devices import available_devices, find_device, find_dtype


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def cpu_only(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def test_the_best_device_is_an_accelerator(two_gpus):
    assert available_devices() == ["cuda:0", "cuda:1", "cpu"]
    assert find_device("auto") == find_device(None) == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda", 1)
    assert find_device("cpu") == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_named_beside_those_that_are(two_gpus):
    with pytest.raises(SettingError) as caught:
        find_device("cuda:2")
    assert str(caught.value) == (
        "device is 'cuda:2'; this machine has cuda:0, cuda:1, cpu; use one of these, or auto."
    )


def test_without_an_accelerator_the_cpu_is_the_best(cpu_only):
    assert find_device("auto") == torch.device("cpu")
    for name in ("cuda", "mps", "meta", "gpu", "cuda:x", ""):
        with pytest.raises(SettingError, match=f"^device is {name!r}; this machine has cpu; use"):
            find_device(name)


def test_a_model_is_loaded_to_a_device_that_exists(cpu_only):
    with pytest.raises(SettingError, match=r"^device is 'cuda'; this machine has cpu"):
        cw.load("a-model-that-is-not-read", device="cuda")


def test_number_types_have_names():
    assert find_dtype("bfloat16") == torch.bfloat16
    assert find_dtype(torch.float16) == torch.float16
    assert find_dtype("auto") is None
    assert find_dtype(None) is None
    with pytest.raises(UnknownName) as caught:
        find_dtype("bfloat61")
    assert str(caught.value) == ("dtype is 'bfloat61'; known: auto, bfloat16, float16, float32.")
