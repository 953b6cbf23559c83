"""Every GLUE task is decided by its own value."""

import numpy as np
import pytest

from clozeworks.errors import UnknownName
from clozeworks.tasks.metrics.classification import one_label
from clozeworks.tasks.metrics.measured import with_primary
from clozeworks.tasks.metrics.numbers import numbers

GOLD, SAID = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 0, 0])


@pytest.fixture
def two_labels():
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3], [0.5, 0.5]])
    return one_label(GOLD, SAID, ("no", "yes"), probabilities=shares)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cola", 1 / 6**0.5),
        ("sst2", 0.6),
        ("mrpc", (0.6 + 0.5) / 2),
        ("qqp", (0.6 + 0.5) / 2),
        ("rte", 0.6),
        ("f1", 0.5),
        ("matthews", 1 / 6**0.5),
    ],
)
def test_tasks_and_values_can_be_named(two_labels, name, value):
    found = with_primary(two_labels, name)
    assert found.value == pytest.approx(value)
    assert found.higher_is_better
    assert found.values == two_labels.values


def test_numbers_are_decided_by_the_mean_of_two_correlations():
    found = with_primary(numbers([1, 2, 3, 4], [1, 2, 3, 9]), "stsb")
    pearson = np.corrcoef([1, 2, 3, 4], [1, 2, 3, 9])[0, 1]
    assert found.value == pytest.approx((pearson + 1) / 2)


def test_some_values_are_better_when_lower(two_labels):
    assert not with_primary(two_labels, "log_loss").higher_is_better
    assert not with_primary(two_labels, "calibration_error").higher_is_better
    assert with_primary(with_primary(two_labels, "log_loss"), "accuracy").higher_is_better


def test_unknown_values_are_refused(two_labels):
    with pytest.raises(UnknownName) as error:
        with_primary(two_labels, "mathews")
    assert str(error.value) == (
        "metric is 'mathews'; known: accuracy, accuracy_and_f1, calibration_error, f1, log_loss, "
        "macro_f1, matthews, micro_f1, weighted_f1. Did you mean 'matthews'?"
    )


def test_a_task_whose_value_was_not_measured_is_refused(two_labels):
    with pytest.raises(UnknownName, match=r"^metric is 'pearson_and_spearman'; known: accuracy,"):
        with_primary(two_labels, "stsb")
