"""A config that says the same in other words is written in the words it had."""

import dataclasses

import pytest

from clozeworks.errors import CheckpointError
from clozeworks.families.family import Config, families

FAMILIES = families()
CASES = [
    ("bert", "hidden_act", "gelu_python"),
    ("bert", "hidden_act", "gelu_fast"),
    ("llama", "hidden_act", "swish"),
    ("gpt2", "activation_function", "gelu_pytorch_tanh"),
    ("t5", "feed_forward_proj", "gated-gelu_new"),
]


@pytest.mark.parametrize(("model_type", "key", "spelled"), CASES)
def test_a_spelling_is_kept_while_it_is_right(model_type, key, spelled):
    family = FAMILIES[model_type]
    stated = Config({**family.published(next(iter(family.sizes))), key: spelled})
    blueprint = family.blueprint(stated, frozenset())
    assert family.config(blueprint, stated)[key] == spelled
    assert family.config(blueprint)[key] != spelled, "nobody stated it"
    layers = tuple(
        tuple(
            dataclasses.replace(sub, part=dataclasses.replace(sub.part, activation="relu"))
            if hasattr(sub.part, "activation")
            else sub
            for sub in layer
        )
        for layer in blueprint.encoder.layers
    )
    changed = dataclasses.replace(
        blueprint, encoder=dataclasses.replace(blueprint.encoder, layers=layers)
    )
    assert "relu" in family.config(changed, stated)[key], "it would be wrong now"


@pytest.mark.parametrize(("key", "value"), [("dense_act_fn", "silu"), ("is_gated_act", True)])
def test_t5_refuses_two_statements_that_differ(key, value):
    family = FAMILIES["t5"]
    config = Config({**family.published("t5-small"), key: value})
    rule = f"{key} is {value!r}; feed_forward_proj says otherwise; leave it out, or make them agree"
    with pytest.raises(CheckpointError, match=rule):
        family.blueprint(config, frozenset())
    agreeing = Config({**config, "dense_act_fn": "relu", "is_gated_act": False})
    assert family.blueprint(agreeing, frozenset())
