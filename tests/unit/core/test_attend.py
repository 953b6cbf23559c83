"""Attention on packed tokens against the formula, text by text."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from clozeworks.core.attention import attend as attend_file
from clozeworks.core.attention.attend import attend
from clozeworks.core.attention.masks import Causal, Full, MaskSpec, Window
from clozeworks.core.layout import Layout
from clozeworks.errors import InputError
from clozeworks.spec import spec

LENGTH = st.sampled_from([0, 1, 2, 3, 7, 8, 30, 31, 64, 130])


def by_formula(q, k, v, queries, keys, allowed, bias=None):
    """softmax(q k / sqrt(d)) v for one text after the other; blind queries give zeros."""
    mixed, weights = [], []
    for a, b, c in zip(
        q.split(queries.lengths), k.split(keys.lengths), v.split(keys.lengths), strict=True
    ):
        scores = torch.einsum("qhd,khd->hqk", a, b) * a.shape[-1] ** -0.5
        query_at = torch.arange(len(a)) + len(b) - len(a)
        key_at = torch.arange(len(b))
        if bias is not None:
            scores = scores + bias(query_at, key_at)
        mask = allowed(query_at[:, None], key_at[None])
        share = scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)
        weights.append(share)
        mixed.append(torch.einsum("hqk,khd->qhd", share, c))
    return torch.cat(mixed), weights


VIEWS = [
    (Full(), lambda q, k: torch.ones_like(q + k, dtype=torch.bool)),
    (Causal(), lambda q, k: k <= q),
    (Window(reach=2), lambda q, k: (q - k).abs() <= 2),
]


@pytest.mark.parametrize(("sees", "allowed"), VIEWS, ids=lambda value: type(value).__name__)
@given(lengths=st.lists(st.tuples(LENGTH, LENGTH), min_size=1, max_size=12), same=st.booleans())
@settings(max_examples=40, deadline=None)
def test_against_the_formula(sees, allowed, lengths, same):
    queries = Layout([a for a, _ in lengths])
    keys = queries if same else Layout([b for _, b in lengths])
    generator = torch.Generator().manual_seed(queries.total)
    q = torch.randn(queries.total, 2, 8, generator=generator)
    k, v = (torch.randn(keys.total, 2, 8, generator=generator) for _ in range(2))
    weights: list[torch.Tensor] = []
    mixed = attend(q, k, v, queries=queries, keys=keys, mask=sees, weights=weights)
    expected, shares = by_formula(q, k, v, queries, keys, allowed)
    torch.testing.assert_close(mixed, expected, atol=2e-6, rtol=1e-5)
    assert len(weights) == len(queries)
    for ours, theirs in zip(weights, shares, strict=True):
        if ours.numel():
            torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)


def test_gradients_flow_through_padded_groups():
    lengths = [9, 8, 30, 9, 31, 130, 8]
    layout = Layout(lengths)
    assert any(
        group.queries.start is None for group in layout.plan(layout, torch.device("cpu")).groups
    )
    tensors = [torch.randn(layout.total, 2, 8, dtype=torch.double) for _ in range(3)]
    ours = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.clone().requires_grad_() for tensor in tensors]
    direction = torch.randn(layout.total, 2, 8, dtype=torch.double)
    (attend(*ours, queries=layout, keys=layout) * direction).sum().backward()
    mixed, _ = by_formula(*theirs, layout, layout, VIEWS[0][1])
    (mixed * direction).sum().backward()
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left.grad, right.grad, atol=1e-10, rtol=1e-8)


@spec
class Nothing(MaskSpec):
    """For the test: the second query of every text is blind."""

    def allowed(self, group):
        mask = torch.ones(1, group.queries.length, group.keys.length, dtype=torch.bool)
        mask[:, 1] = False
        return mask


@pytest.mark.parametrize("grad", [False, True])
def test_a_query_that_sees_nothing_gives_zeros(grad):
    layout = Layout([5, 70, 5, 6])
    q, k, v = (torch.randn(layout.total, 2, 16, requires_grad=grad) for _ in range(3))
    mixed = attend(q, k, v, queries=layout, keys=layout, mask=Nothing())
    blind = torch.tensor(layout.starts) + 1
    assert torch.equal(mixed[blind], torch.zeros_like(mixed[blind]))
    assert mixed.isfinite().all()
    if grad:
        mixed.sum().backward()
        assert all(tensor.grad.isfinite().all() for tensor in (q, k, v))


class Slope(nn.Module):
    """A position scheme with a bias, and one that turns q: what attention is handed."""

    def forward(self, q, k, group):
        distance = group.key_positions()[:, None, :] - group.query_positions()[:, :, None]
        return 2 * q, k, -0.5 * distance.abs()[:, None].float()


def test_positions_inside_attention():
    queries, keys = Layout([3, 64, 4, 9]), Layout([5, 64, 4, 30])
    q = torch.randn(queries.total, 2, 8)
    k, v = (torch.randn(keys.total, 2, 8) for _ in range(2))
    mixed = attend(q, k, v, queries=queries, keys=keys, mask=Causal(), relate=Slope())
    expected, _ = by_formula(
        2 * q, k, v, queries, keys, VIEWS[1][1],
        bias=lambda a, b: -0.5 * (a[:, None] - b[None]).abs().float(),
    )  # fmt: skip
    torch.testing.assert_close(mixed, expected, atol=2e-6, rtol=1e-5)


def test_equal_neighbours_are_viewed_and_near_ones_share_a_group():
    device = torch.device("cpu")
    layout = Layout([64, 64, 64, 32, 32, 32, 32])
    groups = layout.plan(layout, device).groups
    assert [group.queries.start for group in groups] == [0, 192]
    layout = Layout([100, 98, 100, 97, 9])
    groups = layout.plan(layout, device).groups
    assert [group.texts for group in groups] == [(0, 1, 2, 3, 4)]  # padding one costs little
    layout = Layout([100, 98, 100, 97, 9, 9])
    groups = layout.plan(layout, device).groups
    assert [group.texts for group in groups] == [(0, 1, 2, 3, 4), (5,)]  # padding two does not


def test_equal_lengths_take_no_copy():
    layout = Layout([64, 64])
    q = torch.randn(128, 2, 8)
    rows = layout.plan(layout, q.device).groups[0].queries.take(q)
    assert rows.data_ptr() == q.data_ptr()


def test_tables_made_while_inferring_serve_training_too():
    layout = Layout([3, 5])
    with torch.inference_mode():
        q = torch.randn(8, 1, 4)
        attend(q, q, q, queries=layout, keys=layout, mask=Causal())
    q = torch.randn(8, 1, 4, requires_grad=True)
    attend(q, q, q, queries=layout, keys=layout, mask=Causal()).sum().backward()
    assert q.grad is not None


def test_scores_of_all_pairs_that_would_fill_the_memory_are_refused(monkeypatch):
    """Only where positions make scores of their own; plain attention never holds them."""
    monkeypatch.setattr(attend_file, "available", lambda device: 4 << 30)
    long = Layout([20_000])
    x = torch.zeros(20_000, 2, 4)

    def relate(q, k, group):
        raise AssertionError("too late")

    with pytest.raises(
        InputError, match=r"a text has 20,000 tokens; scores of all pairs of positions"
    ):
        attend(x, x, x, queries=long, keys=long, relate=relate)
