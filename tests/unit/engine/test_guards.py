"""What is marked, what is skipped, and the sentence that ends a run."""

import json
import math
import random

import pytest
import torch

from clozeworks.engine.guards import MOST_IN_A_ROW, Diverged, Guards


@pytest.mark.parametrize(
    ("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf), (-math.inf, 1.0), (1.0, math.nan)]
)
def test_numbers_that_are_not_finite_are_counted(loss, norm):
    guards = Guards()
    assert guards.finite(1.0, 1.0)
    assert not guards.finite(loss, norm) and not guards.finite(loss, norm)
    assert (guards.skipped, guards.in_a_row) == (2, 2)
    assert guards.finite(2.0, 2.0)
    assert (guards.skipped, guards.in_a_row) == (2, 0)


def usual(guards, steps, seed=0):
    rng = random.Random(seed)
    return [guards.is_spike(5.0 - step / 1000 + rng.gauss(0, 0.1)) for step in range(steps)]


def test_a_spike_is_marked_and_usual_losses_are_not():
    guards = Guards()
    assert not any(usual(guards, 500))
    assert guards.is_spike(7.0) and guards.spikes == 1
    assert not guards.is_spike(4.5)


def test_nothing_is_marked_before_the_usual_is_known():
    guards = Guards()
    usual(guards, 90)
    assert not guards.is_spike(50.0)


def test_a_fall_is_no_spike():
    guards = Guards()
    usual(guards, 200)
    assert not guards.is_spike(0.1)


def test_guards_go_on_from_their_state():
    whole, first = Guards(), Guards()
    losses = [5.0 + math.sin(step) for step in range(300)] + [20.0, 5.0]
    marks = [whole.is_spike(loss) for loss in losses]
    before = [first.is_spike(loss) for loss in losses[:150]]
    later = Guards.from_state(json.loads(json.dumps(first.state())))
    assert before + [later.is_spike(loss) for loss in losses[150:]] == marks
    assert later == whole and any(marks)


@pytest.fixture
def model():
    return torch.nn.ModuleDict({"small": torch.nn.Linear(2, 2), "large": torch.nn.Linear(2, 2)})


def sentence(model, times):
    guards = Guards()
    for _ in range(times):
        guards.finite(math.nan, 1.0)
    guards.check(1234, 0.01, model)


def test_fewer_than_ten_in_a_row_are_borne(model):
    sentence(model, MOST_IN_A_ROW - 1)


def test_ten_in_a_row_end_the_run_with_what_is_known(model):
    torch.nn.init.constant_(model["large"].weight, 512.0)
    with pytest.raises(Diverged) as caught:
        sentence(model, MOST_IN_A_ROW)
    assert str(caught.value) == (
        "step 1,234: loss or gradient was not finite 10 times in a row, at a learning rate of "
        "1.00e-02; all weights are finite, the largest is 512 in large.weight. Lower "
        "training.learning_rate, lengthen the warm-up of training.schedule, or set "
        "training.max_grad_norm; the snapshots before this are still there."
    )
    with torch.no_grad():
        model["large"].bias[1] = math.inf
    with pytest.raises(Diverged, match=r"the weights themselves are not finite, first large\.bias"):
        sentence(model, MOST_IN_A_ROW)
