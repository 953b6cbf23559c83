"""Heads that an objective brings: built, tied, counted and shown like any other."""

import dataclasses
from typing import ClassVar

import pytest
import torch

from clozeworks import registry
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.projection import Projection
from clozeworks.core.heads.span_boundary import BoundaryVocabulary
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layout import Layout
from clozeworks.core.tree import tree
from clozeworks.families.bert import FAMILY
from clozeworks.families.family import Config
from clozeworks.spec import Slot, spec


@pytest.fixture
def blueprint():
    settings = {**FAMILY.published("bert-tiny"), "vocab_size": 50, "hidden_size": 32}
    settings |= {"num_attention_heads": 2, "intermediate_size": 48}
    plain = FAMILY.blueprint(Config(settings), frozenset({"vocabulary"}))
    heads = {**plain.heads, "span_boundary": BoundaryVocabulary(), "contrastive": Projection()}
    return dataclasses.replace(plain, heads=heads)


def test_they_stand_in_blueprints(blueprint):
    assert Blueprint.from_json(blueprint.to_json()) == blueprint
    names = [node.label for _, node in tree(blueprint).walk()]
    assert "heads.span_boundary: BoundaryVocabulary(), shares the token table" in names
    assert "heads.contrastive: Projection()" in names
    without = {"vocabulary": blueprint.heads["vocabulary"]}
    added = blueprint.count() - dataclasses.replace(blueprint, heads=without).count()
    boundary = 15 * 200 + (2 * 32 + 200 + 1) * 32 + 33 * 32 + 4 * 32 + 50
    assert added == boundary + 32 * 33  # the decoder's table counts once


def test_both_decoders_are_the_table_even_where_it_is_narrow(blueprint):
    narrow = dataclasses.replace(blueprint.embeddings, width=8)
    model = dataclasses.replace(blueprint, embeddings=narrow).build()
    initialize(model, seed=1)
    head = model.heads["span_boundary"]
    assert head.decoder.weight is model.embeddings.tokens.weight
    assert head.decoder.weight.shape == (50, 8) and head.second.weight.shape == (8, 32)
    assert head(torch.randn(3, 32), torch.randn(3, 32), torch.arange(3)).shape == (3, 50)


def test_first_weights_of_other_parts_do_not_change(blueprint):
    plain = dataclasses.replace(
        blueprint, heads={"vocabulary": blueprint.heads["vocabulary"]}
    ).build()
    model = blueprint.build()
    for built in (plain, model):
        initialize(built, seed=4)
    for name, parameter in plain.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name
    assert not model.heads["span_boundary"].decoder.bias.any()
    assert model.heads["span_boundary"].places.weight.any()


def test_who_brings_a_head_asks_it(blueprint):
    model = blueprint.build()
    with pytest.raises(AssertionError, match="asked by the objective that brings it"):
        model.scores("span_boundary", torch.zeros(3, 32), Layout([3]))


def test_an_untied_head_shares_nothing(blueprint):
    assert Vocabulary(norm=LayerNorm(), tied=False).shared() == {}
    assert Projection().shared() == {}


def test_a_narrower_slot_is_no_spec():
    class Wide(Slot):
        is_slot: ClassVar[bool] = True

    class Narrow(Wide):
        is_slot: ClassVar[bool] = True

    @spec
    class First(Wide):
        pass

    @spec
    class Second(Narrow):
        pass

    assert registry.specs(Wide) == {"first": First, "second": Second}
    assert registry.specs(Narrow) == {"second": Second}
