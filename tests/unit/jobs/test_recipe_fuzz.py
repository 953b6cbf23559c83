"""Recipes with anything at any key are read, or refused in a sentence."""

import copy
import math
import os
import random

import pytest

from clozeworks import config
from clozeworks.errors import ClozeworksError
from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.jobs.finetune.search import Search
from clozeworks.jobs.pretrain.recipe import changed, read_recipe
from clozeworks.jobs.recipe_text import toml

# How many recipes are tried; `FUZZED=200000` for a long search.
COUNT = int(os.environ.get("FUZZED", "600"))

PRETRAIN = {
    "run": "run",
    "seed": 3,
    "model": {"start": "bert-tiny", "config": {"hidden_size": 32}},
    "data": {"corpus": "corpus", "stages": [{"length": 16, "fraction": 1.0, "batch_tokens": 9}]},
    "objective": {
        "kind": "masked_lm",
        "hide": {"kind": "whole_words", "budget": {"kind": "random_rounding", "fraction": 0.15}},
        "show": {"random_from": "ordinary"},
        "examples": {"kind": "full_sentences", "length": 16},
    },
    "training": {
        "steps": 6,
        "batch_tokens": 128,
        "optimizer": {"kind": "adam_w", "betas": [0.9, 0.98], "weight_decay": 0.01},
        "schedule": {"kind": "linear", "warmup_steps": 3},
        "freezing": {"layers": 1},
    },
    "logging": {"every_steps": 1, "trackers": []},
    "evaluation": {"every_steps": 3, "tokens": 256},
    "checkpointing": {"every_minutes": 5.0, "keep": 2, "when_unwritable": "stop"},
}
FINETUNE = {
    "run": "run",
    "model": "model",
    "task": {
        "kind": "classify",
        "pooling": "mean",
        "metric": "accuracy",
        "windows": {"length": 64, "overlap": 8},
        "label_loss": {"smoothing": 0.1, "weights": {"a": 2.0}},
    },
    "data": {
        "train": ["a.csv"],
        "dev": ["b.csv"],
        "columns": {"text": "x"},
        "labels": "one",
        "mixture": {"kind": "proportional"},
    },
    "head": "fit",
    "lora": {"rank": 8, "alpha": 16.0, "targets": ["query"], "dropout": 0.1},
    "augment": {"kind": "delete", "fraction": 0.2},
    "adversarial": {"weight": 1.0},
    "scheduled_sampling": {"teacher_forcing": {"kind": "linear"}},
    "selection": {"patience": 3},
    "seeds": [0, 1],
    **{name: PRETRAIN[name] for name in ("training", "logging", "evaluation", "checkpointing")},
}
VALUES = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**70), 10**400, 1e308, 1e-320, math.nan, math.inf,
    -math.inf, 0.5, "", "none", "x", "\x00", "\ud800", "a" * 5000, "bert", "classify", "é\u202e",
    [], [[]], [0], ["x"], [None], [math.nan], [{}], {}, {"kind": []}, {"kind": None}, {"kind": "x"},
    {"kind": math.nan}, {"kind": {}}, {"": 1}, {"x": {"x": {"x": []}}},
    {"kind": "adam_w", "eps": "x"},
    {"kind": "linear"}, {"length": 1}, {"weights": {"a": math.inf}}, {1: 2}, object,
]  # fmt: skip
TEXTS = [
    "", "=", "[", "{", "'", '"', "nan", "-inf", "1e999", "9" * 5000, "[" * 3000, "{a=" * 900,
    "2024-01-01", "0x" + "f" * 400, "1_0", "\x00", "\n", "true", "none", "[[]]", "{kind=[]}",
    "{kind='x'}", "'''", "\ud800", "𝟙", "1979-05-27T07:32:00Z", "[1,'a']",
]  # fmt: skip


def paths(table, path=()):
    """Every key of nested tables and lists."""
    pairs = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def mutated(rng, base):
    """A copy with some keys changed, taken away, added or moved."""
    data = copy.deepcopy(base)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *above, last = rng.choice(list(paths(data)) or [("x",)])
        table = data
        for key in above:
            table = table[key]
        choice = rng.random()
        if choice < 0.7:
            table[last] = copy.deepcopy(rng.choice(VALUES))
        elif choice < 0.8:
            del table[last]
        elif isinstance(table, dict):
            key = rng.choice(
                ["x", "kind", "length", "labels", "problem", "tokens", 7, "", "windows"]
            )
            table[key] = copy.deepcopy(rng.choice([*VALUES, base]))
    return data


def refused_in_a_sentence(read, *arguments):
    try:
        read(*arguments)
    except ClozeworksError as error:
        sentence = str(error)
        assert sentence.endswith((".", "?", "…")) or "\n" in sentence, sentence
        assert len(sentence) < 3000, sentence[:200]


@pytest.mark.parametrize(
    ("base", "read"),
    [(PRETRAIN, read_recipe), (FINETUNE, read_finetune_recipe)],
    ids=["pretrain", "finetune"],
)
def test_any_value_at_any_key(base, read):
    rng = random.Random(0)
    for _ in range(COUNT):
        data = mutated(rng, base)
        refused_in_a_sentence(read, data)


def test_any_search():
    rng = random.Random(1)
    base = {"trials": 4, "learning_rates": [2e-5, 5e-5], "epochs": [3], "batch_sizes": [8, 16]}
    for _ in range(COUNT):
        data = mutated(rng, base)
        refused_in_a_sentence(config.read, Search, data, "search")


@pytest.mark.parametrize(
    ("base", "read"),
    [(PRETRAIN, read_recipe), (FINETUNE, read_finetune_recipe)],
    ids=["pretrain", "finetune"],
)
def test_any_change_on_the_command_line(base, read):
    rng = random.Random(2)
    names = [".".join(map(str, path)) for path in paths(base)]
    for _ in range(COUNT):
        name = rng.choice([*names, "", ".", "..", "run.x", "training", "x.y.z", "training..x", "é"])
        sign = rng.choice(["=", "=", "=", "", "=="])
        change = f"{name}{sign}{rng.choice(TEXTS)}"
        refused_in_a_sentence(read, base, [change])


def test_any_bytes_in_a_file(tmp_path):
    rng = random.Random(3)
    path = tmp_path / "recipe.toml"
    texts = ["\n".join(f"{key} = {toml(value)}" for key, value in PRETRAIN.items()).encode()]
    texts.append("\n".join(f"{key} = {toml(value)}" for key, value in FINETUNE.items()).encode())
    for number in range(COUNT):
        data = bytearray(texts[number % 2])
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            choice = rng.random()
            if choice < 0.4:
                data[at] = rng.randrange(256)
            elif choice < 0.7:
                del data[at : at + rng.randint(1, 30)]
            else:
                data[at:at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
        path.write_bytes(bytes(data))
        read = (read_recipe, read_finetune_recipe)[number % 2]
        refused_in_a_sentence(read, path)


def test_numbers_and_tables_beyond_reading(tmp_path):
    path = tmp_path / "recipe.toml"
    for text in ("seed = " + "9" * 5000, "x = " + "[" * 50000):
        path.write_text(text)
        with pytest.raises(ClozeworksError):
            changed(path, ())
