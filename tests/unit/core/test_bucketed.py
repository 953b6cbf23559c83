"""Buckets of distances: the published values, and a bias by query and key."""

import math

import pytest
import torch

from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.core.positions.bucketed import BucketTable
from clozeworks.errors import SettingError

BOTH = {
    0: 0, 1: 17, 7: 23, 8: 24, 15: 25, 16: 26, 64: 30, 128: 31,
    -1: 1, -8: 8, -16: 10, -32: 12, -63: 13, -64: 14, -100: 15,
}  # fmt: skip
BEFORE = {0: 0, 5: 0, 300: 0, -15: 15, -16: 16, -32: 21, -64: 26, -100: 30, -127: 31, -900: 31}


def built(both_sides, heads=3):
    module = BucketTable(heads=heads, both_sides=both_sides).build(16)
    torch.nn.init.normal_(module.table.weight, generator=torch.Generator().manual_seed(0))
    return module


@pytest.mark.parametrize(("both_sides", "known"), [(True, BOTH), (False, BEFORE)])
def test_published_values(both_sides, known):
    found = built(both_sides).buckets(torch.tensor(list(known)))
    assert found.tolist() == list(known.values())


def naive(distance, both_sides):
    """The formula, one number at a time, in float32."""
    count, bucket = 32, 0
    if both_sides:
        count, bucket = 16, 16 if distance > 0 else 0
        far = abs(distance)
    else:
        far = max(-distance, 0)
    exact = count // 2
    if far < exact:
        return bucket + far
    log = torch.tensor(far / exact, dtype=torch.float32).log().item()
    grown = torch.tensor(log, dtype=torch.float32) / math.log(128 / exact) * (count - exact)
    return bucket + min(exact + int(grown), count - 1)


@pytest.mark.parametrize("both_sides", [True, False])
def test_every_distance_up_to_300(both_sides):
    distances = torch.arange(-300, 301)
    found = built(both_sides).buckets(distances).tolist()
    assert found == [naive(distance, both_sides) for distance in distances.tolist()]


@pytest.mark.parametrize("both_sides", [True, False])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (1, 9), (3, 40), (200, 200)])
def test_the_bias_is_the_table_by_distance(both_sides, queries, keys):
    module = built(both_sides)
    layout = Layout([queries])
    source = AttentionSource(torch.zeros(keys, 16), Layout([keys])) if queries != keys else None
    (group,) = layout.plan(Layout([keys]), torch.device("cpu")).groups
    bias = module(ForwardContext(layout, source=source))(group)
    places = torch.arange(queries)[:, None] + keys - queries
    buckets = module.buckets(torch.arange(keys) - places)
    assert torch.equal(bias[0], module.table.weight[buckets].permute(2, 0, 1))


def test_places_may_be_given():
    module = built(True)
    source = AttentionSource(torch.zeros(6, 16), Layout([6]), positions=torch.tensor([4, 0]))
    layout = Layout([2])
    (group,) = layout.plan(source.layout, torch.device("cpu")).groups
    bias = module(ForwardContext(layout, source=source))(group)
    distances = torch.arange(6) - torch.tensor([[4], [0]])
    assert torch.equal(bias[0], module.table.weight[module.buckets(distances)].permute(2, 0, 1))


def test_a_pass_makes_it_once():
    module = built(True)
    layout = Layout([4])
    (group,) = layout.plan(layout, torch.device("cpu")).groups
    bias = module(ForwardContext(layout))
    assert bias(group) is bias(group)


@pytest.mark.parametrize(("count", "farthest"), [(3, 128), (32, 8)])
def test_too_few_buckets(count, farthest):
    with pytest.raises(SettingError, match=f"positions.count is {count}; it must be at least 4"):
        BucketTable(heads=2, both_sides=True, count=count, farthest=farthest).build(16)
