"""Two streams: nothing leaks, a memory is as good as the tokens, shifts equal gathering."""

from dataclasses import replace

import pytest
import torch

from clozeworks.core.attention.masks import Permutation
from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.two_stream import (
    Memory,
    PermutationRanks,
    TargetQueries,
    remembered,
    two_streams,
)
from clozeworks.core.layout import Layout
from clozeworks.errors import UnsupportedError
from clozeworks.families import bert, xlnet
from clozeworks.families.family import Config

SIZES = {
    "xlnet": {
        "model_type": "xlnet", "vocab_size": 31, "d_model": 16, "n_layer": 3, "n_head": 2,
        "d_inner": 24, "dropout": 0.0,
    },
    "bert": {
        "model_type": "bert", "vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 3,
        "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 40,
    },
}  # fmt: skip
FAMILIES = {"xlnet": xlnet.FAMILY, "bert": bert.FAMILY}


def built(family="xlnet", **changes):
    found = FAMILIES[family]
    parts = frozenset({"vocabulary", "query_start"} & set(found.paths))
    model = found.blueprint(Config({**SIZES[family], **changes}), parts).build().double().eval()
    initialize(model, seed=3, std=0.3)
    return model


def tokens(count, seed=0):
    return torch.randint(5, 31, (count,), generator=torch.Generator().manual_seed(seed))


START = torch.linspace(-1, 1, 16, dtype=torch.float64)


@pytest.mark.parametrize("family", ["xlnet", "bert"])
def test_a_question_depends_on_what_comes_before_it_in_the_order_and_on_nothing_else(family):
    """The decisive one: replace a token, and see which answers change."""
    model = built(family)
    length = 12
    ids, layout = tokens(length), Layout([length])
    order = torch.randperm(length, generator=torch.Generator().manual_seed(1))
    target = torch.zeros(length, dtype=torch.bool)
    target[[1, 4, 5, 8, 10]] = True
    seen = order.where(target, torch.full_like(order, -1))
    ranks = PermutationRanks(order.where(target, torch.zeros_like(order)), seen)
    places = target.nonzero().squeeze(1)
    asked = TargetQueries(places, Layout([5]), START)

    def answers(ids):
        with torch.no_grad():
            return two_streams(model, ids, layout, targets=asked, ranks=ranks).queries[-1]

    before = answers(ids)
    for changed in range(length):
        other = ids.clone()
        other[changed] = 5 + (ids[changed] - 4) % 26
        moved = (answers(other) - before).abs().amax(dim=1)
        for number, place in enumerate(places.tolist()):
            visible = seen[changed] < ranks.sees[place]
            assert (moved[number] > 1e-6) if visible else (moved[number] == 0), (changed, place)


def test_a_token_is_known_to_its_own_place_in_the_content_stream_alone():
    """Of the token that comes first in the order nobody else knows, and h does, layer by layer."""
    model = built()
    ids, layout, place = tokens(6), Layout([6]), torch.tensor([2])
    seen = torch.full((6,), -1)
    seen[2] = 0
    ranks = PermutationRanks(torch.zeros(6, dtype=torch.long), seen)
    asked = TargetQueries(place, Layout([1]), START)
    other = ids.clone()
    other[2] = 5 + (ids[2] - 4) % 26
    with torch.no_grad():
        one, two = (
            two_streams(model, own, layout, targets=asked, ranks=ranks) for own in (ids, other)
        )
        # What the first layer's attention says at this place, if it sees what stands there or not.
        blind = ForwardContext(layout, mask=Permutation(ranks.sees, seen, itself=False))
        attention, feed_forward = model.encoder.layers[0].children()
        unaware = feed_forward(attention(one.content[0], blind), blind)
    for before, after in zip(one.content, two.content, strict=True):
        moved = (before - after).abs().amax(dim=1) > 0
        assert moved.tolist() == [False, False, True, False, False, False]
    for before, after in zip(one.queries, two.queries, strict=True):
        assert torch.equal(before, after)
    differs = (one.content[1] - unaware).abs().amax(dim=1) > 1e-6
    assert differs[2]


def test_in_the_natural_order_everything_asked_is_a_causal_model():
    length = 6
    ranks = torch.arange(length)
    layout = Layout([length])
    group = layout.plan(layout, torch.device("cpu")).groups[0]
    strictly = torch.ones(length, length, dtype=torch.bool).tril(-1)
    assert torch.equal(Permutation(ranks, ranks, itself=False).allowed(group)[0], strictly)
    with_itself = Permutation(ranks, ranks, itself=True).allowed(group)[0]
    assert torch.equal(with_itself, strictly | torch.eye(length, dtype=torch.bool))


def test_two_orders_are_the_same_only_if_they_are_the_same_object():
    ranks = torch.arange(4)
    one, other = (Permutation(ranks, ranks, itself=True) for _ in range(2))
    assert one == one and one != other and len({one, one, other}) == 2


@pytest.mark.parametrize(("kind", "same"), [("uni", True), ("bi", False)])
def test_a_memory_is_as_good_as_the_tokens_where_nobody_looks_ahead(kind, same):
    model = built(attn_type=kind)
    lengths, half = [14, 9], [6, 5]
    ids = tokens(sum(lengths))
    pieces = ids.split(lengths)
    first = torch.cat([piece[:size] for piece, size in zip(pieces, half, strict=True)])
    second = torch.cat([piece[size:] for piece, size in zip(pieces, half, strict=True)])
    rest = Layout([a - b for a, b in zip(lengths, half, strict=True)])
    with torch.no_grad():
        whole = model(ids, Layout(lengths)).split(lengths)
        expected = torch.cat([piece[size:] for piece, size in zip(whole, half, strict=True)])
        memory = remembered(model, first, Layout(half))
        found = two_streams(model, second, rest, memory=memory).content[-1]
    assert ((found - expected).abs().max() < 1e-10) == same


def test_nothing_is_learned_through_a_memory():
    model = built()
    memory = remembered(model, tokens(5, 1), Layout([5]))
    assert not any(states.requires_grad for states in memory.inputs)
    ids = torch.full((4,), 30)  # a token that the memory does not hold
    two_streams(model, ids, Layout([4]), memory=memory).content[-1].square().sum().backward()
    gradient = model.embeddings.tokens.weight.grad
    assert gradient[30].any() and not gradient[:30].any()


def test_a_text_may_have_no_memory_and_nothing_asked():
    model = built()
    layout, ids = Layout([7, 8]), tokens(15)
    ranks = PermutationRanks(torch.zeros(15, dtype=torch.long), torch.full((15,), -1))
    memory = remembered(model, tokens(4, 1), Layout([0, 4]))
    asked = TargetQueries(torch.tensor([9, 11]), Layout([0, 2]), START)
    alone = TargetQueries(torch.tensor([2, 4]), Layout([2]), START)
    with torch.no_grad():
        both = two_streams(model, ids, layout, targets=asked, ranks=ranks, memory=memory)
        own = PermutationRanks(ranks.sees[7:], ranks.seen[7:])
        only = Memory(memory.inputs, Layout([4]))
        single = two_streams(model, ids[7:], Layout([8]), targets=alone, ranks=own, memory=only)
        plain = two_streams(
            model,
            ids[:7],
            Layout([7]),
            ranks=PermutationRanks(*(r[:7] for r in (ranks.sees, ranks.seen))),
        )
    torch.testing.assert_close(both.queries[-1], single.queries[-1], atol=1e-12, rtol=0)
    torch.testing.assert_close(both.content[-1][7:], single.content[-1], atol=1e-12, rtol=0)
    torch.testing.assert_close(both.content[-1][:7], plain.content[-1], atol=1e-12, rtol=0)


def test_a_question_that_sees_nothing_is_answered_by_its_place_alone():
    model = built().train()
    ranks = PermutationRanks(torch.tensor([0, 1]), torch.tensor([0, 1]))
    asked = TargetQueries(torch.tensor([0, 1]), Layout([2]), START)
    out = two_streams(model, tokens(2), Layout([2]), targets=asked, ranks=ranks).queries[-1]
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.encoder.parameters() if p.grad is not None)


@pytest.mark.parametrize("ahead", [0, 5])
def test_the_shift_equals_gathering_by_distance(ahead):
    model = built(clamp_len=6)
    attention = model.encoder.layers[0]["attention"].part
    queries, keys = Layout([7, 7]), Layout([7 + ahead] * 2)
    seen = torch.zeros(keys.total, 16, dtype=torch.float64)
    places = queries.positions(torch.device("cpu")) + ahead
    rows = [torch.randn(2, 2, size, 8, dtype=torch.float64) for size in (7, 7 + ahead)]
    group = queries.plan(keys, torch.device("cpu")).groups[0]
    biases = [
        attention.positions(
            attention, ForwardContext(queries, source=AttentionSource(seen, keys, positions=given))
        )(*rows, group)[2]
        for given in (None, places)
    ]
    assert biases[0].shape == (2, 2, 7, 7 + ahead)
    torch.testing.assert_close(*biases, atol=1e-12, rtol=0)


def test_a_scheme_the_family_cannot_have_is_named():
    blueprint = xlnet.FAMILY.blueprint(Config(SIZES["xlnet"]), frozenset())
    attention, feed_forward = blueprint.encoder.layers[0]
    other = replace(attention, part=replace(attention.part, positions=None))
    tower = replace(blueprint.encoder, layers=((other, feed_forward),) * 3)
    with pytest.raises(UnsupportedError, match="positions is None, but a config of xlnet"):
        xlnet.FAMILY.config(replace(blueprint, encoder=tower))


def test_a_target_position_is_asked_with_its_own_type():
    """A query of the second segment attends as its own token does, not as one of the first."""
    model = built()
    ids, layout, types = tokens(6), Layout([6]), torch.tensor([0, 0, 0, 1, 1, 1])
    ranks = PermutationRanks(torch.full((6,), 2), torch.tensor([0, 0, 0, 0, 1, 5]))
    asked = TargetQueries(torch.tensor([5]), Layout([1]), START)

    def query(types):
        return two_streams(model, ids, layout, types, targets=asked, ranks=ranks).queries[-1]

    with torch.no_grad():
        in_second = query(types)
        # The keys stay as they are: what changes is the segment of the query alone.
        in_first = query(torch.tensor([0, 0, 0, 1, 1, 0]))
        # XLNet knows only whether two tokens are of one segment, not of which.
        mirrored = query(1 - types)
    assert (in_second - in_first).abs().max() > 1e-3
    torch.testing.assert_close(in_second, mirrored, atol=1e-12, rtol=0)
