"""What is decayed, on a model made for it and on real ones."""

import pytest
import torch

from clozeworks.engine.param_groups import param_groups
from clozeworks.errors import SettingError
from clozeworks.families.bert import FAMILY
from clozeworks.families.family import Config


def names(model, groups):
    """Parameter names by role."""
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    return {group["role"]: {known[id(p)] for p in group["params"]} for group in groups}


def test_every_role(mixed, excluded):
    groups = param_groups(mixed, 0.25)
    assert names(mixed, groups) == {
        "decayed": {"table.weight", "dense.weight", "zero.weight"},
        "not decayed": excluded,
    }
    assert [group["weight_decay"] for group in groups] == [0.25, 0.0]
    parameters = [p for group in groups for p in group["params"]]
    assert len(parameters) == len(set(map(id, parameters))) == 8  # the tied table once


def test_a_real_model():
    settings = {**FAMILY.published("bert-tiny"), "vocab_size": 50}
    heads = frozenset({"pooler", "vocabulary", "next_sentence"})
    model = FAMILY.blueprint(Config(settings), heads).build()
    found = names(model, param_groups(model, 0.01))
    everything = {name for name, _ in model.named_parameters()}
    assert found["decayed"] | found["not decayed"] == everything
    assert not found["decayed"] & found["not decayed"]
    # The released regular expressions, on our names: LayerNorm, layer_norm, bias.
    assert {name for name in everything if "norm" in name or "bias" in name} == found["not decayed"]
    assert "embeddings.tokens.weight" in found["decayed"]
    matrices = {name for name, parameter in model.named_parameters() if parameter.dim() == 2}
    assert found["decayed"] == matrices


def test_a_group_without_parameters_is_left_out():
    assert [group["role"] for group in param_groups(torch.nn.LayerNorm(4), 0.1)] == ["not decayed"]
    assert [group["role"] for group in param_groups(torch.nn.Embedding(4, 4), 0.1)] == ["decayed"]


def test_nothing_to_train(mixed):
    with pytest.raises(SettingError) as error:
        param_groups(mixed.requires_grad_(False), 0.1)
    assert str(error.value) == (
        "training.freezing is set; all 10 parameter tensors of the model are frozen; freeze fewer."
    )
