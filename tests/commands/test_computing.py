"""`--device` and `--dtype`: every command that computes has them, and half precision answers."""

import json

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.cli import main

# Commands that load a model without computing with it, or have no model at all.
WITHOUT = {"show", "new", "convert", "verify", "tokenizer", "corpus", "data"}
WITHOUT |= {"recipes", "init", "runs", "env"}
# Of groups of commands it is their commands that compute.
GROUPS = {"look": ("attention", "lens", "attribute", "contexts"), "finetune": ("tag",)}
NAMES = {*main.COMMANDS, *main.task_commands()} - WITHOUT - GROUPS.keys()
NAMES |= {f"{group} {name}" for group, names in GROUPS.items() for name in names}
TEXT = "the cat is on the mat"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_command_that_computes_takes_a_device(name, command):
    found = command(*name.split(), "--help").out
    assert "--device" in found
    assert "--dtype" in found or name == "quickstart"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_half_precision_on_a_cpu_gives_nearly_the_same_logits(tiny_models, name, dtype):
    exact = cw.load(tiny_models[name]).logits(TEXT, head="vocabulary").logits
    half = cw.load(tiny_models[name], dtype=dtype, device="auto").logits(TEXT, head="vocabulary")
    error = np.abs(np.asarray(half.logits, dtype=np.float32) - np.asarray(exact)).max()
    assert 0 < error < 0.02 * np.abs(np.asarray(exact)).max() + 1e-3


def test_commands_answer_in_half_precision(command, tiny_models, writers, tmp_path):
    options = ["--device", "cpu", "--dtype", "bfloat16"]
    bert = tiny_models["bert"]
    exact = json.loads(command("embed", bert, TEXT).out)
    half = json.loads(command("embed", bert, TEXT, *options).out)
    key = next(name for name, value in exact.items() if isinstance(value, list))
    np.testing.assert_allclose(half[key], exact[key], atol=0.05)
    assert half[key] != exact[key]
    for words in (
        ["fill", bert, "the [MASK] is here", *options],
        ["generate", writers["gpt2"], "the", "--max-new-tokens", "2", *options],
        ["generate", writers["t5"], "the", "--max-new-tokens", "2", *options],
        ["score", writers["gpt2"], TEXT, *options],
        ["choose", writers["gpt2"], TEXT, "--labels", "a,b", *options],
        ["exposure", writers["gpt2"], TEXT, "--given", "1", "--length", "2", *options],
        ["text-to-text", writers["t5"], "the", *options],
    ):
        outcome = command(*words)
        assert outcome.code == 0, (words[0], outcome.err)
        assert outcome.out


def test_a_number_type_that_is_not_known(command, tiny_models):
    outcome = command("fill", tiny_models["bert"], "the [MASK]", "--dtype", "float8")
    assert outcome.code == 2
    assert "auto" in outcome.err and "bfloat16" in outcome.err
    assert outcome.err.endswith("See: clozeworks fill --help\n")
