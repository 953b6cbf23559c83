"""Scores by distance: a shifted view is what gathering by index gives."""

import pytest
import torch

from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.core.ops.relative_scores import falling, is_even, products_by_place, rising, skewed


def group_of(queries, keys):
    return Layout([queries]).plan(Layout([keys]), torch.device("cpu")).groups[0]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (1, 4), (3, 7), (7, 7), (2, 2)])
def test_products_by_query_and_by_key_are_laid_out_by_place(queries, keys):
    group = group_of(queries, keys)
    ahead = keys - queries
    by_query = falling(group).double().expand(2, 3, queries, -1)  # a table that names the distance
    by_key = rising(group).double().expand(2, 3, keys, -1)
    wanted = torch.arange(queries)[:, None] + ahead - torch.arange(keys)
    assert torch.equal(skewed(by_query, keys)[1, 2], wanted.double())
    assert torch.equal(skewed(by_key, queries).transpose(-1, -2)[0, 1], wanted.double())


def test_gradients_flow_through_the_shift():
    products = torch.randn(1, 1, 4, 8, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: skewed(x, 4), (products,))


def test_uneven_queries_are_told():
    even = Layout([3, 4]).plan(Layout([5, 6]), torch.device("cpu")).groups
    assert all(is_even(group, ForwardContext(Layout([3, 4]))) for group in even)
    group = group_of(2, 5)
    source = AttentionSource(torch.zeros(5, 1), Layout([5]), positions=torch.tensor([1, 3]))
    assert not is_even(group, ForwardContext(Layout([2]), source=source))
    assert torch.equal(
        ForwardContext(Layout([2]), source=source).query_positions(group), source.positions[None]
    )


@pytest.mark.parametrize(("length", "columns"), [(1, 1), (5, 9), (9, 4), (256, 256), (300, 270)])
def test_products_by_place_are_the_skewed_products(length, columns):
    """In value and gradient, also where rows are cut into blocks."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, length, 4, generator=generator).double().requires_grad_()
    table = torch.randn(length + columns, 3, 4, generator=generator).double().requires_grad_()
    weights = torch.randn(2, 3, length, columns, generator=generator).double()
    found = products_by_place(x, table, columns)
    expected = skewed(x @ table.permute(1, 2, 0), columns)
    assert (found - expected).abs().max() < 1e-12
    ours = torch.autograd.grad((found * weights).sum(), (x, table))
    plain = torch.autograd.grad((expected * weights).sum(), (x, table))
    for left, right in zip(ours, plain, strict=True):
        assert (left - right).abs().max() < 1e-11
