"""Rotary positions: distances alone count, wherever queries stand."""

import math

import pytest
import torch

from clozeworks.core.attention.attend import attend
from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.core.positions.rotary import Rotary, Yarn, plain_speeds
from clozeworks.errors import SettingError

HEADS, WIDE = 2, 8


def tokens(count, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, HEADS, WIDE, generator=generator, dtype=torch.float64).to(dtype)


def built(theta=100.0):
    return Rotary(theta=theta).build(HEADS * WIDE, HEADS, WIDE)


def turned(x, layout, theta=100.0):
    """The heads of one text as it turns them, (H, L, D)."""
    q, k = built(theta).turned(x, x, ForwardContext(layout))
    assert torch.equal(q, k)
    return q.transpose(0, 1)


def test_it_is_the_formula():
    x = tokens(5)
    found = turned(x, Layout([5]))
    for place in range(5):
        for pair in range(WIDE // 2):
            angle = place * 100.0 ** (-2 * pair / WIDE)
            left, right = x[place, :, pair], x[place, :, pair + WIDE // 2]
            first = left * math.cos(angle) - right * math.sin(angle)
            second = right * math.cos(angle) + left * math.sin(angle)
            # Angles are float32 throughout.
            torch.testing.assert_close(found[:, place, pair], first, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(
                found[:, place, pair + WIDE // 2], second, atol=1e-6, rtol=1e-5
            )


def test_products_depend_on_the_distance_alone():
    same = tokens(1).expand(40, -1, -1)
    rows = turned(same, Layout([40]))
    products = rows @ rows.transpose(1, 2)  # (H, L, L)
    for distance in (0, 1, 7, 30):
        along = products.diagonal(distance, dim1=1, dim2=2)
        assert (along - along[:, :1]).abs().max() <= 1e-5
    assert (products[:, 0, 1] - products[:, 0, 2]).abs().min() > 1e-3


def mixed(x, queries, keys, context):
    q, k = built().turned(x[-queries.total :], x, context)
    return attend(q, k, x, queries=queries, keys=keys)


def test_queries_that_come_later_stand_at_the_end_of_their_keys():
    x = tokens(12)
    whole = mixed(x, Layout([12]), Layout([12]), ForwardContext(Layout([12])))
    source = AttentionSource(tokens=x.flatten(1), layout=Layout([12]))
    last = mixed(x, Layout([3]), Layout([12]), ForwardContext(Layout([3]), source=source))
    assert (whole[-3:] - last).abs().max() <= 1e-12
    source.positions = torch.tensor([9, 10, 11])
    stated = mixed(x, Layout([3]), Layout([12]), ForwardContext(Layout([3]), source=source))
    assert torch.equal(last, stated)
    source.positions = torch.tensor([2, 3, 4])
    moved = mixed(x, Layout([3]), Layout([12]), ForwardContext(Layout([3]), source=source))
    assert (last - moved).abs().max() > 1e-3


def test_angles_are_made_once_for_a_layout_and_theta():
    layout = Layout([9, 4])
    x = tokens(13)
    for _ in range(3):
        for theta in (100.0, 7.0):
            built(theta).turned(x, x, ForwardContext(layout))
    made = [key for key in layout._made if key[0] == "angles"]
    assert len(made) == 2


def test_a_text_goes_on_where_it_was_left():
    x = tokens(7)
    whole = turned(x, Layout([7]))
    later = turned(x[5:], Layout([2], before=[5]))
    assert torch.equal(whole[:, 5:], later)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_half_precision_stays_what_it_is_and_is_turned_in_full(dtype):
    x = tokens(30, dtype=dtype)
    found = turned(x, Layout([30]))
    assert found.dtype == dtype
    expected = turned(x.float(), Layout([30]))
    assert torch.equal(found, expected.to(dtype))


@pytest.mark.parametrize("theta", [0.0, -1.0])
def test_theta_must_be_above_0(theta):
    with pytest.raises(SettingError, match=r"^theta is .*; it must be above 0\."):
        built(theta)


def test_yarn_leaves_fast_pairs_alone_and_slows_the_slow_ones():
    scaling = Yarn(factor=4.0, length=64, attention_factor=1.0, fast=8.0, slow=1.0)
    plain = plain_speeds(10_000.0, 32, torch.device("cpu"))
    speeds = scaling.speeds(10_000.0, 32, torch.tensor([1]))
    turns = 64 * plain / (2 * torch.pi)
    assert (turns > 8).any() and (turns < 0.5).any()
    torch.testing.assert_close(speeds[turns > 8], plain[turns > 8])
    torch.testing.assert_close(speeds[turns < 0.5], plain[turns < 0.5] / 4)
    between = speeds / plain
    assert (between.diff() <= 1e-6).all() and ((between > 0.26) & (between < 0.99)).any()
