"""Memory is kept while a run lasts, and nothing else changes."""

import pytest
import torch

from clozeworks.runtime import allocator as memory
from clozeworks.runtime.allocator import memory_kept


def test_tensors_are_as_ever():
    with memory_kept():
        assert float(torch.ones(30_000_000).sum()) == 30_000_000
    assert float(torch.ones(30_000_000).sum()) == 30_000_000


def test_another_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    with memory_kept():
        pass


def test_settings_come_back_after_an_error(monkeypatch):
    calls: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, name: int, value: int) -> None:
            calls.append((name, value))

        def malloc_trim(self, pad: int) -> None:
            calls.append((0, pad))

    monkeypatch.setattr(memory, "_glibc", Library)
    with pytest.raises(KeyError), memory_kept():
        raise KeyError
    assert dict(calls) == {**memory._USUAL, 0: 0} and len(calls) == 9
