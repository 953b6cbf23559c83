"""What every way must keep: run over the files of the folder."""

import dataclasses
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import clozeworks
from clozeworks import config, registry
from clozeworks.data.augment import AugmentSpec
from clozeworks.errors import SettingError
from clozeworks.rng import RandomStream

KINDS = registry.specs(AugmentSpec)
# What becomes of items, asked for in any order; run here, and in processes of their own.
SCRIPT = """
from clozeworks import config
from clozeworks.rng import RandomStream
from clozeworks.data.augment import AugmentSpec
from clozeworks.tasks.classify import *
from clozeworks.tasks.compare import *
from clozeworks.tasks.spans.questions import *
from clozeworks.tasks.tagging.items import *


def guess(texts):
    return [["river", "dog", "house"]] * len(texts)


def outcomes(specs, items, places):
    found = {}
    for epoch, index in places:
        for name, spec in specs.items():
            augment = config.read(AugmentSpec, spec).build(guess)
            for kind, item in enumerate(items):
                new = augment(item, RandomStream(7, "augment"), epoch, index)
                found[name, kind, epoch, index] = repr(new)
    return ascii(sorted(found.items()))
"""
POSITIONS = [(epoch, index) for epoch in (0, 1, 2) for index in (0, 1, 2**33)]


def test_every_kind_is_tried(ways):
    assert {registry.kind(type(spec)) for spec in ways.values()} == set(KINDS)


@pytest.mark.parametrize("cls", KINDS.values(), ids=lambda cls: cls.__name__)
def test_specs_are_small_frozen_and_name_their_paper(cls):
    assert len(dataclasses.fields(cls)) <= 8
    assert cls.__dataclass_params__.frozen
    assert cls.paper
    card = inspect.getdoc(inspect.getmodule(cls))
    assert all(heading in card for heading in ("Paper:", "The idea:", "Example:"))


@pytest.mark.parametrize("cls", KINDS.values(), ids=lambda cls: cls.__name__)
def test_the_example_on_the_card_can_be_built(cls):
    card = " ".join(inspect.getdoc(inspect.getmodule(cls)).split())
    example = card.split("Example: `")[1].split("`")[0]
    names = {kind.__name__: kind for kind in KINDS.values()}
    assert isinstance(eval(example, names), cls)


def test_settings_are_written_and_read(ways):
    for spec in ways.values():
        assert config.read(AugmentSpec, json.loads(json.dumps(config.plain(spec)))) == spec


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_gives_the_same(ways, items, seed):
    specs = {name: config.plain(spec) for name, spec in ways.items()}
    here: dict = {}
    exec(SCRIPT, here)
    code = f"{SCRIPT}\nprint(outcomes({specs!r}, {items!r}, {POSITIONS[::-1]!r}))"
    source = str(Path(clozeworks.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == here["outcomes"](specs, items, POSITIONS)


def test_each_place_and_each_seed_draws_anew(augment, items):
    def outcomes(seed, epochs, indices):
        rng = RandomStream(seed, "augment")
        return {augment(items[0], rng, e, i).text for e in epochs for i in indices}

    assert len(outcomes(0, range(12), [4])) > 4
    assert len(outcomes(0, [0], range(12))) > 4
    assert len({text for seed in range(12) for text in outcomes(seed, [0], [0])}) > 4
    assert len({text for _ in range(12) for text in outcomes(0, [0], [0])}) == 1


def test_items_are_not_changed_in_place(augment, items, rng):
    before = repr(items)
    for item in items:
        assert type(augment(item, rng, 0, 0)) is type(item)
    assert repr(items) == before


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, float("nan")])
def test_chances_are_above_0_and_at_most_1(ways, value):
    for spec in ways.values():
        for name in {"probability", "fraction"} & {
            field.name for field in dataclasses.fields(spec)
        }:
            with pytest.raises(SettingError) as caught:
                dataclasses.replace(spec, **{name: value})
            assert str(caught.value) == (f"{name} is {value}; it must be above 0 and at most 1.")
