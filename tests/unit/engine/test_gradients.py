"""How a step is cut, and over how many workers, changes nothing but rounding."""

import dataclasses

import pytest
import torch

from clozeworks.core.layers.dropout import current_generator
from clozeworks.engine.optimizers.adam_w import AdamW
from clozeworks.objectives.published import published

NAMES = ["bert", "albert", "spanbert", "roberta"]


@pytest.fixture
def after(network, loader, gradients, weights):
    """The weights after five steps, and what each step cost."""

    def train(name, *, piece, count=1, dropout=0.0, steps=5, measured=None):
        objective = published(name, 24)
        model = network(objective, dropout=dropout).train()
        optimizer = AdamW().build(model, 1e-3)
        taken = gradients(model, objective, count)
        batches = loader(objective, piece=piece, workers=count)
        costs = []
        for step in range(steps):
            costs.append(taken.take(step, batches.batch(step)))
            optimizer.step()
        return weights(model), costs

    return train


def furthest(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("name", NAMES)
def test_many_small_pieces_equal_a_large_one(after, name):
    small, costs = after(name, piece=32)
    large, others = after(name, piece=4096)
    assert furthest(small, large) < 1e-6
    for cost, other in zip(costs, others, strict=True):
        assert cost.tokens == other.tokens
        assert cost.loss == pytest.approx(other.loss, abs=1e-5)
        for part in cost.parts:
            assert cost.parts[part].count == other.parts[part].count > 0
            assert cost.parts[part].correct == other.parts[part].correct


@pytest.mark.parametrize("name", ["bert", "spanbert"])
def test_two_lanes_equal_one(after, name):
    torch.set_num_threads(1)
    one, costs = after(name, piece=64, count=1)
    torch.set_num_threads(2)
    two, others = after(name, piece=64, count=2)
    assert furthest(one, two) < 1e-6
    assert [cost.tokens for cost in costs] == [cost.tokens for cost in others]


def test_the_same_run_twice_gives_the_same_bits_with_dropout_and_lanes(after):
    one, costs = after("bert", piece=32, count=2, dropout=0.1)
    two, others = after("bert", piece=32, count=2, dropout=0.1)
    assert furthest(one, two) == 0.0 and costs == others
    without, _ = after("bert", piece=32, count=2)
    assert furthest(one, without) > 1e-5


def test_means_of_pieces_would_be_something_else(network, loader, gradients):
    """The usual mistake: each piece's own mean, averaged."""
    objective = published("bert", 24)
    model = network(objective).train()
    (whole,) = loader(objective, piece=4096).batch(0)
    pieces = loader(objective, piece=32).batch(0)
    counts = [piece.counts()["masked_lm"] for piece in pieces]
    assert len(set(counts)) > 1, "the pieces must differ for this to say anything"

    def gradient(pieces):
        gradients(model, objective).take(0, pieces)
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    right = gradient([whole])
    assert furthest(gradient(pieces), right) < 1e-6
    wrong = {name: torch.zeros_like(value) for name, value in right.items()}
    for piece in pieces:
        for name, value in gradient([piece]).items():
            wrong[name] += value / len(pieces)
    assert furthest(wrong, right) > 1e-3


def test_the_gradient_is_the_one_of_the_mean_over_all_questions(network, loader, gradients):
    objective = published("bert", 24)
    model = network(objective).train()
    pieces = loader(objective, piece=32).batch(3)
    (whole,) = loader(objective, piece=4096).batch(3)
    measured = gradients(model, objective).take(3, pieces)
    ours = [p.grad.clone() for p in model.parameters()]
    losses = objective.loss(model, whole.tensors()).terms
    value = sum(cost.total / cost.count for cost in losses.values())
    assert measured.loss == pytest.approx(float(value.detach()), abs=1e-5)
    for grad, expected in zip(
        ours, torch.autograd.grad(value, list(model.parameters())), strict=True
    ):
        assert torch.allclose(grad, expected, atol=1e-6)


def test_a_weight_counts_in_the_loss(network, loader, gradients):
    objective = published("bert", 24)
    model = network(objective).train()
    part = dataclasses.replace(
        gradients(model, objective).take(0, loader(objective).batch(0)).parts["masked_lm"],
        weight=0.5,
    )
    assert part.loss == part.total / part.count
    assert part.accuracy == part.correct / part.count


def test_what_is_dropped_depends_on_step_and_piece_alone(gradients):
    model = torch.nn.Linear(1, 1)

    def drawn(step, piece, seed=5):
        with gradients(model, published("bert"), seed=seed).drawing(step, piece):
            return torch.rand(4, generator=current_generator()).tolist()

    assert drawn(3, 1) == drawn(3, 1)
    assert len({tuple(drawn(*place)) for place in [(3, 1), (3, 2), (4, 1), (31, 1)]}) == 4
    assert drawn(3, 1) != drawn(3, 1, seed=6)


def test_a_part_that_nobody_asks_gets_no_gradient(network, loader, gradients):
    """So that no optimiser decays it."""
    model = network(published("bert", 24)).train()
    objective = published("roberta", 24)
    gradients(model, objective).take(0, loader(objective).batch(0))
    grads = {name: p.grad for name, p in model.named_parameters()}
    unused = sorted(name for name, grad in grads.items() if grad is None)
    assert unused and all("next_sentence" in name or "pooler" in name for name in unused)
