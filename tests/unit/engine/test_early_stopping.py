"""The best weights are kept, and waiting ends."""

import torch
from torch import nn

from clozeworks.engine.evaluation import EarlyStopping, EvalResult


def judged(value, higher=True):
    return EvalResult(value, higher, {})


def test_the_best_weights_come_back():
    model = nn.Linear(2, 2)
    best = EarlyStopping()
    for step, value in enumerate([0.5, 0.7, 0.7, 0.6, float("nan")]):
        with torch.no_grad():
            model.weight.fill_(step)
        best.update(judged(value), model, step)
    assert (best.value, best.step, best.waited) == (0.7, 1, 3)
    best.restore(model)
    assert model.weight.tolist() == [[1, 1], [1, 1]]


def test_what_is_no_number_is_not_even_better_than_nothing():
    best = EarlyStopping()
    assert not best.update(judged(float("nan")), nn.Linear(1, 1), 1)
    assert best.value is None and best.update(judged(-9.0), nn.Linear(1, 1), 2)


def test_lower_may_be_better():
    best = EarlyStopping()
    assert best.update(judged(0.5, higher=False), nn.Linear(1, 1), 1)
    assert not best.update(judged(0.6, higher=False), nn.Linear(1, 1), 2)
    assert best.update(judged(0.4, higher=False), nn.Linear(1, 1), 3)


def test_of_equal_values_the_one_that_costs_less_counts():
    model, best = nn.Linear(1, 1), EarlyStopping(patience=3)

    def look(value, loss, step):
        with torch.no_grad():
            model.weight.fill_(step)
        return best.update(EvalResult(value, True, {}, loss=loss), model, step)

    assert look(1.0, 0.69, 1)
    assert look(1.0, 0.2, 2)
    assert not look(1.0, 0.3, 3)
    assert not look(0.9, 0.1, 4)
    assert (best.step, best.loss) == (2, 0.2)
    assert best.should_stop  # no better value for three evaluations, though one cost less
    later = EarlyStopping()
    later.resume(best.state(), best.weights)
    assert not later.update(EvalResult(1.0, True, {}, loss=0.2), model, 5)
    assert later.update(EvalResult(1.0, True, {}, loss=0.1), model, 6)
    assert not EarlyStopping(value=1.0).update(EvalResult(1.0, True, {}, loss=0.1), model, 7)
    wild = EarlyStopping(value=1.0, loss=float("nan"))
    assert not wild.update(EvalResult(1.0, True, {}, loss=float("nan")), model, 8)
    assert wild.update(EvalResult(1.0, True, {}, loss=0.7), model, 9)


def test_what_the_evaluator_wants_is_kept_with_the_best_weights_of_this_session():
    model, best = nn.Linear(1, 1), EarlyStopping()
    for value, kept in ((0.5, "first"), (0.7, "second"), (0.6, "third"), (float("nan"), "fourth")):
        best.update(EvalResult(value, True, {}, kept=kept), model, 1)
    assert best.kept == "second"
    later = EarlyStopping()
    later.resume(best.state(), best.weights)
    assert later.kept is None


def test_patience_ends():
    model, best = nn.Linear(1, 1), EarlyStopping(patience=2)
    best.update(judged(0.5), model, 1)
    best.update(judged(0.4), model, 2)
    assert not best.should_stop
    best.update(judged(0.5), model, 3)
    assert best.should_stop
    assert not EarlyStopping(patience=None, waited=99).should_stop


def test_frozen_weights_are_not_copied_and_a_snapshot_keeps_the_rest():
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    best = EarlyStopping(patience=3)
    best.update(judged(0.5), model, 7)
    assert list(best.weights) == ["weight"]
    other = EarlyStopping(patience=3)
    other.resume(best.state(), best.weights)
    assert other.state() == best.state()
    assert torch.equal(other.weights["weight"], best.weights["weight"])
