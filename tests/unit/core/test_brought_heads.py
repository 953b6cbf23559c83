"""Heads that an objective brings: built, tied, counted and shown like any other."""

import copy
import dataclasses
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F

from clozeworks import registry
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.pooled import PooledClasses, Pooler, Projection
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
    assert model.heads["span_boundary"].positions.weight.any()


def test_who_brings_a_head_asks_it(blueprint):
    model = blueprint.build()
    with pytest.raises(AssertionError, match="run by the objective that brings it"):
        model.head("span_boundary")


def test_a_head_says_what_its_answers_cost(blueprint):
    model = blueprint.build()
    initialize(model, seed=2, std=0.3)
    hidden, targets, layout = torch.randn(5, 32), torch.tensor([3, 49]), Layout([2, 3])
    head, positions = model.vocabulary, torch.tensor([1, 4])
    assert head is model.head("vocabulary")
    logits = head.logits(hidden, layout, positions)
    assert torch.allclose(logits, head.logits(hidden, layout)[positions], atol=1e-5)
    loss = head.loss(head.read(hidden, layout, positions), targets)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    assert loss.count == 2 and torch.allclose(loss.total, expected)
    assert torch.equal(torch.cat(list(head.chunks(hidden))), head(hidden))
    boundary = model.heads["span_boundary"]
    left, right, offsets = hidden[:2], hidden[3:], torch.arange(2)
    loss = boundary.loss(left, right, offsets, targets)
    expected = F.cross_entropy(boundary(left, right, offsets), targets, reduction="sum")
    assert loss.count == 2 and torch.allclose(loss.total, expected)


def test_a_pooled_head_reads_the_pooler_without_owning_it(blueprint):
    heads = {"classes": PooledClasses(count=3)}
    model = dataclasses.replace(blueprint, heads=heads, pooler=Pooler()).build()
    names = [name for name in model.state_dict() if "pooler" in name]
    assert names == ["pooler.dense.weight", "pooler.dense.bias"]
    twin = copy.deepcopy(model)
    initialize(twin, seed=2, std=0.3)
    hidden, layout = torch.randn(5, 32), Layout([2, 3])
    expected = twin.heads["classes"].project(torch.tanh(twin.pooler.dense(hidden[[0, 2]])))
    assert torch.equal(twin.head("classes").logits(hidden, layout), expected)


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
