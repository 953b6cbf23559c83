"""Memory that does not suffice, in the words of every library that may notice it."""

import errno

import pytest

from clozeworks.cli import main

SENTENCE = (
    "clozeworks: There is not enough memory for this; use smaller batches (--batch-tokens, or "
    "training.micro_batch_tokens in a recipe), shorter texts, or a smaller model.\n"
)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("could not create a primitive"),
        RuntimeError("could not create a memory object"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("MPS backend out of memory"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError(errno.ENOMEM, "Cannot allocate memory", "model.safetensors"),
    ],
    ids=str,
)
def test_a_sentence_says_what_to_do(error, command, monkeypatch):
    def fails(_):
        raise error

    monkeypatch.setattr(main, "_answer", fails)
    said = command("fill")
    assert (said.code, said.out, said.err) == (2, "", SENTENCE)


def test_other_errors_are_not_about_memory(monkeypatch):
    def fails(_):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(main, "_answer", fails)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main.run(["fill"])
