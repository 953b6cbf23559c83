"""The mask decoder: the last layer itself, twice, with places added to what asks."""

import dataclasses

import pytest
import torch

from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.core.model import hidden_states_at
from clozeworks.errors import InputError
from clozeworks.families.family import Config, families

SMALL = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 50, "max_relative_positions": 20, "position_buckets": 8,
    "max_position_embeddings": 30,
}  # fmt: skip
SIZES = ["deberta-base", "deberta-v3-base", "bert-tiny"]
LENGTHS = [9, 1, 14, 14, 6]
ASKED = torch.tensor([0, 4, 8, 11, 12, 30, 36, 38])


def built(size, passes=2, seed=1):
    family = next(family for family in families().values() if size in family.sizes)
    blueprint = family.blueprint(Config({**family.published(size), **SMALL}), frozenset())
    heads = {"mask_decoder": MaskDecoder(count=30, passes=passes)}
    model = dataclasses.replace(blueprint, heads=heads).build().double().eval()
    initialize(model, seed=seed, std=0.3)
    return model


def ids(seed=0):
    return torch.randint(5, 50, (sum(LENGTHS),), generator=torch.Generator().manual_seed(seed))


def decoded(model, tokens, layout, asked):
    with torch.no_grad():
        return hidden_states_at(model, tokens, layout, None, asked)


@pytest.mark.parametrize("size", SIZES)
def test_one_pass_without_places_is_the_last_layer(size):
    model = built(size, passes=1)
    model.heads["mask_decoder"].positions.table.weight.data.zero_()
    with torch.no_grad():
        plain = model(ids(), Layout(LENGTHS))[ASKED]
    assert (decoded(model, ids(), Layout(LENGTHS), ASKED) - plain).abs().max() < 1e-12


@pytest.mark.parametrize("size", SIZES)
def test_two_passes_by_hand(size):
    """Of a single text, all of it asked: queries of the pass before, keys of the layer below."""
    model = built(size)
    tokens, layout = ids()[:9], Layout([9])
    ran = []
    for index, layer in enumerate(model.encoder.layers):
        layer.attention.register_forward_hook(lambda *_, index=index: ran.append(index))
    found = decoded(model, tokens, layout, torch.arange(9))
    assert ran == [0, 1, 2, 2], "the layers below once, the last one twice and never plainly"
    with torch.no_grad():
        context = ForwardContext(layout)
        context.embedded = below = model.embeddings(tokens, layout)
        model.encoder.begin(context)
        for layer in model.encoder.layers[:2]:
            for sublayer in layer.children():
                below = sublayer(below, context)
        query = below + model.heads["mask_decoder"].positions.table.weight[:9]
        attention, feed_forward = model.encoder.layers[2].children()
        for _ in range(2):
            looking = ForwardContext(
                layout, source=AttentionSource(below, layout), shared=context.shared
            )
            mixed = attention.part(query, looking)
            query = feed_forward(attention.norm(query + mixed), context)
    assert (found - query).abs().max() < 1e-12


def test_it_has_places_and_no_layers():
    model = built("deberta-v3-base")
    own = dict(model.heads["mask_decoder"].named_parameters())
    assert {name: tuple(each.shape) for name, each in own.items()} == {
        "positions.table.weight": (30, 16)
    }
    without = dataclasses.replace(model.blueprint, heads={})
    assert model.blueprint.count() - without.count() == 30 * 16


@pytest.mark.parametrize("size", SIZES)
def test_neighbours_change_nothing(size):
    model = built(size)
    together = decoded(model, ids(), Layout(LENGTHS), ASKED)
    begins = torch.tensor([0, 9, 10, 24, 38, 44])
    for text in range(len(LENGTHS)):
        first, after = begins[text], begins[text + 1]
        own = (first <= ASKED) & (after > ASKED)
        if own.any():
            alone = decoded(model, ids()[first:after], Layout([LENGTHS[text]]), ASKED[own] - first)
            assert (together[own] - alone).abs().max() < 1e-12


def test_a_shift_of_places_is_seen_by_the_decoder_and_by_nothing_else():
    model = built("deberta-v3-base")
    tokens, layout, asked = ids()[:9], Layout([9]), torch.tensor([2, 5])
    with torch.no_grad():
        plain, before = model(tokens, layout), decoded(model, tokens, layout, asked)
        table = model.heads["mask_decoder"].positions.table.weight
        table.copy_(table.roll(4, 0))  # as if four tokens stood before the text
        assert torch.equal(plain, model(tokens, layout))
    assert (before - decoded(model, tokens, layout, asked)).abs().max() > 1e-3


def test_a_text_longer_than_the_places():
    model = built("deberta-v3-base")
    with pytest.raises(InputError, match="text 1 has 31 tokens; this model takes at most 30"):
        decoded(model, torch.arange(5, 36), Layout([31]), torch.tensor([3]))
