"""The best weights are kept, and waiting ends."""

import torch
from torch import nn

from clozeworks.engine.best import Best, Judged


def judged(value, higher=True):
    return Judged(value, higher, {})


def test_the_best_weights_come_back():
    model = nn.Linear(2, 2)
    best = Best()
    for step, value in enumerate([0.5, 0.7, 0.7, 0.6, float("nan")]):
        with torch.no_grad():
            model.weight.fill_(step)
        best.look(judged(value), model, step)
    assert (best.value, best.step, best.waited) == (0.7, 1, 3)
    best.restore(model)
    assert model.weight.tolist() == [[1, 1], [1, 1]]


def test_lower_may_be_better():
    best = Best()
    assert best.look(judged(0.5, higher=False), nn.Linear(1, 1), 1)
    assert not best.look(judged(0.6, higher=False), nn.Linear(1, 1), 2)
    assert best.look(judged(0.4, higher=False), nn.Linear(1, 1), 3)


def test_patience_ends():
    model, best = nn.Linear(1, 1), Best(patience=2)
    best.look(judged(0.5), model, 1)
    best.look(judged(0.4), model, 2)
    assert not best.hopeless
    best.look(judged(0.5), model, 3)
    assert best.hopeless
    assert not Best(patience=None, waited=99).hopeless


def test_frozen_weights_are_not_copied_and_a_snapshot_keeps_the_rest():
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    best = Best(patience=3)
    best.look(judged(0.5), model, 7)
    assert list(best.weights) == ["weight"]
    other = Best(patience=3)
    other.resume(best.state(), best.weights)
    assert other.state() == best.state()
    assert torch.equal(other.weights["weight"], best.weights["weight"])
