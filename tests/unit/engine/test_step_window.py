"""The sums behind a line of the metrics file."""

import json

import pytest

from clozeworks.display.training import parts_of
from clozeworks.engine.callbacks import Update
from clozeworks.engine.gradients import StepLoss, StepResult
from clozeworks.engine.metrics import StepWindow


def measured(total, correct, count, weight=1.0, tokens=100):
    return StepResult({"a": StepLoss(total, correct, count, weight)}, tokens)


def test_a_line_is_the_mean_over_all_questions_not_over_steps():
    window = StepWindow(["a"])
    window.add(Update(measured(30.0, 1, 10), 2.0, 0.1, skipped=False, spike=False))
    window.add(Update(measured(2.0, 2, 2), 1.0, 0.2, skipped=False, spike=False))
    record = window.record(7, 200, 1.5)
    assert record["a"] == {"loss": 32 / 12, "accuracy": 3 / 12}
    assert record["loss"] == 32 / 12
    assert (record["step"], record["learning_rate"], record["gradient"]) == (7, 0.2, 2.0)
    assert (record["tokens"], record["seconds"]) == (200, 1.5)
    assert record["tokens_per_second"] > 0
    assert "skipped" not in record and "spikes" not in record


def test_weights_count():
    window = StepWindow(["a"])
    window.add(Update(measured(30.0, 1, 10, weight=0.5), 2.0, 0.1, skipped=False, spike=False))
    assert window.record(1, 1, 1)["loss"] == 1.5


def test_a_skipped_step_counts_as_such_and_nowhere_else():
    window = StepWindow(["a"])
    window.add(Update(measured(30.0, 1, 10), 2.0, 0.1, skipped=False, spike=True))
    window.add(Update(measured(float("nan"), 0, 10), float("inf"), 0.1, skipped=True, spike=False))
    record = window.record(2, 200, 1.0)
    assert (record["skipped"], record["spikes"]) == (1, 1)
    assert record["a"]["loss"] == 3.0 and record["gradient"] == 2.0


def test_a_window_of_skipped_steps_alone_has_no_loss():
    """Zero would look like a model that knows everything."""
    window = StepWindow(["a"])
    window.add(Update(measured(float("nan"), 0, 10), float("nan"), 0.1, skipped=True, spike=False))
    record = window.record(1, 100, 1.0)
    assert record["loss"] is None and "a" not in record and record["skipped"] == 1


def test_where_nothing_can_be_right_a_line_has_no_accuracy():
    """0 would look like a model that knows nothing."""
    window = StepWindow(["a"])
    window.add(Update(measured(30.0, None, 10), 2.0, 0.1, skipped=False, spike=False))
    window = StepWindow.from_state(["a"], json.loads(json.dumps(window.state())))
    window.add(Update(measured(2.0, None, 2), 1.0, 0.2, skipped=False, spike=False))
    record = window.record(7, 200, 1.5)
    assert record["a"] == {"loss": 32 / 12}
    assert parts_of(record) == "a 2.667"


@pytest.mark.parametrize("cut", range(4))
def test_a_window_goes_on_from_its_state(cut):
    steps = [measured(0.1 * n, n, 10 + n, weight=0.3) for n in range(4)]
    whole, first = StepWindow(["a"]), StepWindow(["a"])
    for number, each in enumerate(steps):
        whole.add(Update(each, 0.1 * number, 0.5, skipped=number == 1, spike=number == 2))
        if number < cut:
            first.add(Update(each, 0.1 * number, 0.5, skipped=number == 1, spike=number == 2))
    later = StepWindow.from_state(["a"], json.loads(json.dumps(first.state())))
    for number, each in list(enumerate(steps))[cut:]:
        later.add(Update(each, 0.1 * number, 0.5, skipped=number == 1, spike=number == 2))
    timed = {"seconds", "tokens_per_second"}
    lines = [
        {key: value for key, value in window.record(4, 9, 0).items() if key not in timed}
        for window in (whole, later)
    ]
    assert lines[0] == lines[1]
