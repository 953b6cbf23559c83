"""The span boundary objective: what it asks, what it computes, where its gradient goes."""

import math

import numpy as np
import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import BatchBuilder
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.noise.budget import Ceiling
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.spans import Spans
from clozeworks.objectives.span_boundary import SpanBoundary
from clozeworks.rng import RandomStream

SPANBERT = Sum(parts=(MaskedLM.spanbert(), SpanBoundary()))


def asked(clean, hidden, objective=None):
    """What is asked when these tokens are hidden."""
    builder = BatchBuilder.of(clean)
    builder.masked_positions = np.array(hidden, dtype=np.int64)
    (objective or SpanBoundary()).collate(builder, None, None)
    return {name: values.tolist() for name, values in builder.targets["span_boundary"].items()}


def test_the_example_by_hand(examples):
    clean = examples([18], ids=[[range(10, 28)]])
    found = asked(clean, [3, 4, 5])  # with [CLS] before the text, boundaries are 2 and 6
    assert found == {
        "left": [2, 2, 2], "right": [6, 6, 6], "offsets": [0, 1, 2], "answers": [12, 13, 14],
    }  # fmt: skip


def test_a_span_at_an_end_has_no_boundary(examples):
    clean = examples([6, 6])  # tokens 1 to 6 and 9 to 14 are text
    assert asked(clean, [1, 2])["answers"] == []
    assert asked(clean, [6])["answers"] == []
    assert asked(clean, [9, 10, 13, 14])["answers"] == []
    assert asked(clean, [2])["left"] == [1] and asked(clean, [2])["right"] == [3]
    assert asked(clean, [1, 2, 3, 4, 5, 6])["answers"] == []
    assert asked(clean, [])["answers"] == []
    assert asked(examples([1]), [1])["answers"] == []


def test_boundaries_belong_to_the_same_segment(examples):
    pair = examples([(4, 4)])  # text at 1 to 4 and 6 to 9, special tokens at 0, 5 and 10
    assert asked(pair, [4])["answers"] == asked(pair, [6])["answers"] == []
    assert asked(pair, [3, 7])["left"] == [2, 6]
    bare = examples([4, 4], bare=True)  # nothing between the two examples
    for place in (0, 3, 4, 7):
        assert asked(bare, [place])["answers"] == []
    assert asked(bare, [2, 5])["right"] == [3, 6]
    assert asked(bare, [3, 4])["answers"] == []  # neighbours, but two spans


def test_at_most_fifteen_tokens_of_a_span(examples):
    clean = examples([40])
    found = asked(clean, range(5, 25))
    assert found["offsets"] == list(range(15))
    assert found["answers"] == clean.ids[5:20].tolist()
    assert asked(clean, range(5, 25), SpanBoundary(longest=3))["offsets"] == [0, 1, 2]


def test_targets_tell_the_text_again(examples, source):
    """From boundaries, offsets and answers the hidden text can be put back."""
    clean = examples([100, 33, 64] * 100, pieces=0.4)
    batch = SPANBERT.batch(clean, 7, source)
    masked, part = batch.targets["masked_lm"], batch.targets["span_boundary"]
    hidden = np.zeros(len(clean.ids), bool)
    hidden[masked["positions"]] = True
    at = part["left"] + 1 + part["offsets"]
    assert (clean.ids[at] == part["answers"]).all()
    assert hidden[at].all()
    assert not hidden[part["left"]].any() and not hidden[part["right"]].any()
    assert not clean.special[part["left"]].any() and not clean.special[part["right"]].any()
    # Everything between the two boundaries is hidden, and the boundaries are shown as they are.
    inside = np.cumsum(hidden)
    sizes = part["right"] - part["left"] - 1
    assert (inside[part["right"]] - inside[part["left"]] == sizes).all()
    assert (batch.ids[part["left"]] == clean.ids[part["left"]]).all()
    assert 0.8 < len(at) / hidden.sum() < 1


def test_masked_neighbours_would_be_seen(examples):
    """The usual mistake: spans that touch are not merged, and a boundary is hidden itself."""
    clean = examples([100] * 50, pieces=0.4)
    hidden = Spans().positions(clean, Draws.of(clean, RandomStream(0, "test")))
    flags = np.zeros(len(clean.ids), bool)
    flags[hidden] = True
    assert flags[hidden - 1].any()  # tokens as spans of their own have hidden neighbours
    part = asked(clean, hidden)
    assert not flags[part["left"]].any() and not flags[part["right"]].any()


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def norm(x, scale, shift):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt() * scale + shift


def test_the_head_is_the_papers_formula(examples, source, model):
    built = model(SPANBERT)
    head = built.heads["span_boundary"]
    initialize(head, seed=5, std=0.4)
    for bias in (head.first.bias, head.second.bias, head.decoder.bias, head.first_norm.bias):
        torch.nn.init.normal_(bias, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(2)
    left, right = torch.randn(2, 3, 16, generator=generator, dtype=torch.float64)
    offsets = torch.tensor([0, 1, 14])
    w = dict(head.named_parameters())
    for row in range(3):
        h = torch.cat([left[row], right[row], w["positions.weight"][offsets[row]]])
        assert len(h) == 2 * 16 + 200
        h = gelu(w["first.weight"] @ h + w["first.bias"])
        h = norm(h, w["first_norm.weight"], w["first_norm.bias"])
        h = gelu(w["second.weight"] @ h + w["second.bias"])
        h = norm(h, w["second_norm.weight"], w["second_norm.bias"])
        scores = built.embeddings.tokens.weight @ h + w["decoder.bias"]
        assert (head(left, right, offsets)[row] - scores).abs().max() < 1e-12


def test_the_decoder_is_the_token_table_and_the_bias_is_not(model):
    built = model(SPANBERT)
    head, vocabulary = built.heads["span_boundary"], built.heads["vocabulary"]
    assert head.decoder.weight is built.embeddings.tokens.weight is vocabulary.decoder.weight
    assert head.decoder.bias is not vocabulary.decoder.bias
    assert built.tied() == {
        "heads.vocabulary.decoder.weight": "embeddings.tokens.weight",
        "heads.span_boundary.decoder.weight": "embeddings.tokens.weight",
    }


def test_the_gradient_reaches_the_boundaries_and_nothing_inside(examples, source, model):
    clean = examples([60], pieces=0.3)
    batch = SPANBERT.batch(clean, 1, source)
    built, tensors = model(SPANBERT), batch.tensors()
    hidden = built(tensors.ids, tensors.layout, tensors.types).detach().requires_grad_()
    costs = SPANBERT.losses(built, hidden, tensors)
    assert costs["span_boundary"].count > 0
    costs["span_boundary"].total.backward()
    reached = hidden.grad.abs().sum(1) > 0
    part = batch.targets["span_boundary"]
    boundaries = np.unique(np.concatenate([part["left"], part["right"]]))
    assert reached.nonzero().squeeze(1).tolist() == boundaries.tolist()
    assert not reached[batch.targets["masked_lm"]["positions"]].any()
    # The masked part is the other way round.
    hidden.grad = None
    costs["masked_lm"].total.backward()
    reached = (hidden.grad.abs().sum(1) > 0).nonzero().squeeze(1)
    assert reached.tolist() == batch.targets["masked_lm"]["positions"].tolist()


def test_no_spans_cost_nothing(examples, source, model):
    objective = Sum(
        parts=(MaskedLM(hide=Spans(budget=Ceiling(fraction=1.0)), show=MaskedLM.spanbert().show),
               SpanBoundary()),
    )  # fmt: skip
    batch = objective.batch(examples([5, 9]), 0, source)
    assert batch.counts() == {"masked_lm": 14, "span_boundary": 0}
    built = model(objective)
    loss = objective.loss(built, batch.tensors())
    value = loss.value()
    assert value.item() == pytest.approx(loss.means()["masked_lm"], abs=1e-12)
    assert "span_boundary" not in loss.means() | loss.accuracies()
    value.backward()
    for parameter in built.heads["span_boundary"].parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all()
    assert not built.heads["span_boundary"].first.weight.grad.any()


def test_it_cannot_stand_alone(examples, source):
    with pytest.raises(SettingError) as caught:
        SpanBoundary().batch(examples([9]), 0, source)
    assert str(caught.value) == (
        "objective.kind is 'span_boundary'; it predicts spans that masked_lm masks, and stands "
        "alone; put masked_lm with hide = spans before it in a sum."
    )
    with pytest.raises(SettingError, match=r"^longest is 0; it must be at least 1.$"):
        SpanBoundary(longest=0)


@pytest.mark.parametrize("with_boundary", [False, True])
def test_both_parts_learn(with_boundary, examples, source, model):
    """Text that counts to six over and over: with and without the second part costs fall."""
    parts = (MaskedLM.spanbert(), SpanBoundary())
    objective = Sum(parts=parts if with_boundary else parts[:1])
    built = model(objective, width=32).float()
    initialize(built, seed=1, std=0.05)
    optimizer = torch.optim.Adam(built.parameters(), lr=5e-3)
    ids = [[[20 + place % 6 for place in range(40)]]] * 12
    costs = []
    for epoch in range(60):
        clean = examples([40] * 12, ids=ids, epoch=epoch, pieces=0.2)
        loss = objective.loss(built, objective.batch(clean, 0, source).tensors())
        optimizer.zero_grad()
        loss.value().backward()
        optimizer.step()
        costs.append(loss.means())
    for name in objective.loss_names:
        first = np.mean([cost[name] for cost in costs[:3]])
        last = np.mean([cost[name] for cost in costs[-5:]])
        assert last < math.log(6) < first, name  # below the entropy of single tokens
