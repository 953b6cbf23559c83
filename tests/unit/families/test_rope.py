"""Rotary positions in configs: old and new keys, every kind of scaling, what is refused."""

import math

import pytest
import torch

from clozeworks.core.context import ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.core.positions.rotary import DynamicNtk, LongRope, Rotary, Slower, Yarn
from clozeworks.errors import ClozeworksError, SettingError
from clozeworks.families.family import Config, families
from clozeworks.families.rope import read_rotary, written_rotary

PAIRS = {"short_factor": [1, 1, 2, 2], "long_factor": [1, 2, 3, 4]}
KINDS = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2.0},
    "llama3": {"factor": 8.0, "original_max_position_embeddings": 16},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 16, **PAIRS},
}


def stated(**table):
    return Config({"rope_parameters": table, "max_position_embeddings": 64})


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_again(kind):
    found = read_rotary(stated(rope_type=kind, rope_theta=50.0, **KINDS[kind]), 2048)
    assert read_rotary(Config(written_rotary(found) | {"max_position_embeddings": 64}), 1) == found
    old = Config(
        {
            "rope_scaling": {"type": kind, **KINDS[kind]},
            "rope_theta": 50.0,
            "max_position_embeddings": 64,
        }
    )
    assert read_rotary(old, 2048) == found


def test_what_is_not_stated():
    yarn = read_rotary(stated(rope_type="yarn", factor=4.0), 2048).scaling
    assert isinstance(yarn, Yarn) and (yarn.factor, yarn.length) == (4.0, 64)
    assert yarn.attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    ratio = read_rotary(stated(rope_type="yarn", original_max_position_embeddings=16), 1).scaling
    assert ratio.factor == 4.0
    long = read_rotary(
        stated(rope_type="longrope", original_max_position_embeddings=16, **PAIRS), 1
    ).scaling
    assert long.attention_factor == pytest.approx(1.5**0.5)
    assert read_rotary(Config({}), 2048) == Rotary(theta=10_000.0)


def test_the_older_key_and_the_config_itself_count():
    both = Config(
        {
            "rope_parameters": {"rope_type": "linear", "factor": 2.0},
            "rope_scaling": {"rope_type": "linear", "factor": 3.0},
        }
    )
    assert read_rotary(both, 2048).scaling == Slower(factor=3.0)
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8}
    config = Config({"rope_parameters": yarn, "original_max_position_embeddings": 32})
    assert read_rotary(config, 2048).scaling.length == 32


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rope_type": "proportional"}, "rope.rope_type is 'proportional'; known: default, dyn"),
        ({"rope_type": "linear"}, "factor is None; it must be a number above 0; state it."),
        ({"rope_type": "dynamic", "factor": 0}, "factor is 0; it must be a number above 0"),
        ({"rope_type": "yarn", "rope_theta": 1.0}, "rope_theta is 1.0; yarn needs a number above"),
        ({"rope_type": "longrope"}, "short_factor is None; it must be a list of numbers, one for"),
        (
            {"rope_type": "longrope", "short_factor": [1.0, "x"]},
            "short_factor is 'x'; each must be a number above 0; correct it.",
        ),
        (
            {"partial_rotary_factor": 0.5},
            "partial_rotary_factor is 0.5; a part of each head would not be turned",
        ),
    ],
)
def test_what_is_refused(table, message):
    with pytest.raises(ClozeworksError, match=message.replace(".", r"\.")):
        read_rotary(stated(**table), 2048)


@pytest.mark.parametrize("kind", KINDS)
def test_odd_values_get_a_sentence(kind):
    odd = [[], {}, "x", -1, 0, 1.5, True, [1], float("nan"), float("inf"), 10**12, None]
    keys = [*KINDS[kind], "attention_factor", "beta_fast", "mscale", "truncate", "rope_theta"]
    for key in keys:
        for value in odd:
            table = {"rope_type": kind, **KINDS[kind], key: value}
            try:
                read_rotary(stated(**table), 2048).build(8, 1, 8)
            except ClozeworksError as error:
                assert str(error).endswith("."), error


def test_factors_must_fit_the_head():
    scaling = LongRope(short=(1.0,), long=(1.0,), length=8, attention_factor=1.0)
    rule = "short factors is 1; a head of 8 has 4 pairs, with a factor each; give as many."
    with pytest.raises(SettingError, match=rule):
        Rotary(theta=9.0, scaling=scaling).build(8, 1, 8)
    with pytest.raises(SettingError, match="head_width is 2; a larger theta needs heads of at"):
        Rotary(theta=9.0, scaling=DynamicNtk(factor=2.0, length=8)).build(8, 4, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_change_no_turn(kind):
    module = read_rotary(stated(rope_type=kind, **KINDS[kind]), 2048).build(8, 1, 8)
    lengths = [10, 100, 64, 17, 65]
    x = torch.randn(sum(lengths), 1, 8, dtype=torch.float64)
    together, _ = module.turned(x, x, ForwardContext(Layout(lengths)))
    for text, packed in zip(x.split(lengths), together.split(lengths), strict=True):
        alone, _ = module.turned(text, text, ForwardContext(Layout([len(text)])))
        assert torch.equal(alone, packed)


@pytest.mark.parametrize(("kind", "border"), [("dynamic", 64), ("longrope", 16)])
def test_texts_longer_than_those_of_training_turn_otherwise(kind, border):
    module = read_rotary(stated(rope_type=kind, **KINDS[kind]), 2048).build(8, 1, 8)
    x = torch.ones(border + 1, 1, 8)
    at, _ = module.turned(x[:-1], x[:-1], ForwardContext(Layout([border])))
    beyond, _ = module.turned(x, x, ForwardContext(Layout([border + 1])))
    below, _ = module.turned(x[:9], x[:9], ForwardContext(Layout([9])))
    assert torch.equal(at[:9], below)
    assert not torch.allclose(at[:9], beyond[:9])
    grown, _ = module.turned(x[-1:], x[-1:], ForwardContext(Layout([1], before=[border])))
    assert torch.equal(grown[0], beyond[-1]), "a text that grew to this length"


@pytest.mark.parametrize("kind", KINDS)
def test_llama_writes_every_kind(kind):
    family = families()["llama"]
    config = Config(
        {
            **family.published("llama-7b"),
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "num_hidden_layers": 1,
            "rope_parameters": {"rope_type": kind, "rope_theta": 50.0, **KINDS[kind]},
        }
    )
    blueprint = family.blueprint(config, frozenset())
    written = family.config(blueprint, config)
    assert family.blueprint(Config({**config, **written}), frozenset()) == blueprint
    assert blueprint.from_json(blueprint.to_json()) == blueprint
