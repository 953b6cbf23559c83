"""Disentangled attention, formula by formula."""

import dataclasses

import pytest
import torch

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.context import AttentionSource, ForwardContext
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.convolution import Convolution
from clozeworks.core.layout import Layout
from clozeworks.core.positions.disentangled import (
    Disentangled,
    DisentangledShared,
    DistanceRows,
    DistanceTable,
    buckets,
)

WIDTH, HEADS = 12, 3
OWN = Disentangled(span=4)
SCHEMES = [
    OWN,
    dataclasses.replace(OWN, terms=("c2p",), key_bias=False),
    dataclasses.replace(OWN, terms=("p2c",), farthest=9),
    DisentangledShared(span=6),
    DisentangledShared(span=6, farthest=11),
]


def built(scheme):
    scale = (WIDTH / HEADS * (1 + len(scheme.terms))) ** -0.5
    attention = SelfAttention(heads=HEADS, positions=scheme, scale=scale).build(WIDTH).double()
    table = DistanceTable(count=2 * scheme.span).build(WIDTH).double()
    initialize(attention, seed=3, std=0.5)
    initialize(table, seed=4, std=0.5)
    return attention, table


def by_hand(attention, table, x, distance):
    """One text, score by score."""
    keys, queries = attention.positions.projections(attention)
    places = attention.positions.distances
    q, k, v = (part(x).view(len(x), HEADS, -1) for part in
               (attention.query, attention.key, attention.value))  # fmt: skip
    out = torch.zeros_like(v)
    for head in range(HEADS):
        for i in range(len(x)):
            scores = []
            for j in range(len(x)):
                score = q[i, head] @ k[j, head]
                for project, content, far in (
                    (keys, q[i], i - j), (queries, k[j], distance(i, j)),
                ):  # fmt: skip
                    if project is not None:
                        row = int(places.rows(torch.tensor(far), places.span))
                        vector = project(table.table.weight[row]).view(HEADS, -1)
                        score = score + content[head] @ vector[head]
                scores.append(score * attention.scale)
            out[i, head] = torch.stack(scores).softmax(0) @ v[:, head]
    return attention.output(out.flatten(1))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_it_is_the_formula(scheme):
    """With the distance of the released code; that of the paper is another number."""
    attention, table = built(scheme)
    x = torch.randn(17, WIDTH, generator=torch.Generator().manual_seed(0)).double()
    context = ForwardContext(Layout([17]))
    context.shared = table(context)
    with torch.no_grad():
        found = attention(x, context)
        assert (found - by_hand(attention, table, x, lambda i, j: i - j)).abs().max() < 1e-12
        wrong = by_hand(attention, table, x, lambda i, j: j - i)
        assert ("p2c" in scheme.terms) == bool((found - wrong).abs().max() > 1e-3)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_queries_that_stand_anywhere_are_gathered(scheme):
    """Some of the queries alone, beside the same ones among all."""
    attention, table = built(scheme)
    lengths = [9, 17, 3, 17]
    x = torch.randn(sum(lengths), WIDTH, generator=torch.Generator().manual_seed(0)).double()
    layout = Layout(lengths)
    context = ForwardContext(layout)
    context.shared = table(context)
    asked = torch.tensor([0, 4, 8, 11, 25, 30, 45])
    some = ForwardContext(Layout([3, 2, 0, 2]), shared=context.shared)
    some.source = AttentionSource(x, layout, positions=layout.positions(x.device)[asked])
    with torch.no_grad():
        every, found = attention(x, context), attention(x[asked], some)
    assert (every[asked] - found).abs().max() < 1e-12


def test_the_last_queries_of_a_text_are_a_view_too():
    attention, table = built(OWN)
    x = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(0)).double()
    context = ForwardContext(Layout([10, 10]))
    context.shared = table(context)
    last = torch.tensor([7, 8, 9, 17, 18, 19])
    some = ForwardContext(
        Layout([3, 3]), shared=context.shared, source=AttentionSource(x, Layout([10, 10]))
    )
    with torch.no_grad():
        assert (attention(x, context)[last] - attention(x[last], some)).abs().max() < 1e-12


def test_buckets():
    known = {127: 127, 128: 128, 129: 129, 200: 169, 256: 192, 300: 207, 400: 233, 511: 255}
    far = torch.arange(-600, 601)
    found = buckets(far, 256, 512)
    assert {key: int(found[key + 600]) for key in known} == known
    assert torch.equal(found, -found.flip(0))
    assert (found.diff() >= 0).all()
    rows = DistanceRows(256, 512).rows(far, 256)
    assert rows.min() == 0 and rows.max() == 511
    assert (rows == 0).nonzero().flatten().tolist() == (far <= -512).nonzero().flatten().tolist()


@pytest.mark.parametrize("farthest", [None, 512])
def test_short_texts_need_the_middle_rows_only(farthest):
    places = DistanceRows(256, farthest)
    for longest in (1, 2, 64, 200, 256, 300, 600):
        reach = places.reach(longest)
        far = torch.arange(1 - longest, longest)
        whole = places.rows(far, 256) - (256 - reach)
        assert torch.equal(places.rows(far, reach), whole)
        assert reach == 256 or reach <= longest


def test_a_convolution_hears_its_own_text_only():
    part = Convolution(size=5, groups=2).build(WIDTH).double().eval()
    initialize(part, seed=1, std=0.5)
    lengths = [1, 6, 2, 11]
    x = torch.randn(sum(lengths), WIDTH, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        together = part(torch.zeros_like(x), ForwardContext(Layout(lengths), embedded=x))
        for text, found in zip(x.split(lengths), together.split(lengths), strict=True):
            padded = torch.nn.functional.pad(text.t()[None], (2, 2))
            assert (part.inner(padded)[0].t().tanh() - found).abs().max() < 1e-12
