"""Loading a tokenizer again and again: the same one, and no more memory."""

import gc
import sys
from pathlib import Path

import pytest

from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator


def resident():
    """Kilobytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_does_not_grow(tmp_path):
    train_from_iterator(["the cat sat on the mat"] * 50, kind="bpe", size=300).save(tmp_path)

    def load(times):
        for _ in range(times):
            assert Tokenizer.load(tmp_path).fingerprint
        gc.collect()
        return resident()

    before = load(100)
    # 50 kB a call where every one has a memory of words of its own.
    assert load(100) - before < 100 * 30


def test_changed_files_are_read_again(tmp_path):
    first = train_from_iterator(["the cat sat"] * 9, kind="wordpiece", size=40)
    second = train_from_iterator(["a dog lay"] * 9, kind="wordpiece", size=40)
    for tokenizer in (first, second, first):
        tokenizer.save(tmp_path)
        assert Tokenizer.load(tmp_path).fingerprint == tokenizer.fingerprint
