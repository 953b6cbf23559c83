"""What was measured can be written, read, compared and shown."""

import json
import math
from dataclasses import replace

import pytest

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.tasks.metrics.measured import Measured, best_of


def measured(value=0.9124, *, primary="accuracy", higher=True, **others):
    return Measured({"macro_f1": 0.5, primary: value}, primary, higher, 10, **others)


def test_json_brings_back_the_same():
    before = measured(intervals={"accuracy": (0.894, 0.929)}, notes=("a note.",))
    assert Measured.from_dict(json.loads(json.dumps(before.to_dict()))) == before
    assert before.value == 0.9124


def test_lines_begin_with_what_decides():
    found = measured(intervals={"accuracy": (0.8941, 0.9289)}, notes=("a label is rare.",)).lines()
    assert found == [
        "accuracy 0.912 (0.894 to 0.929, 95 %)",
        "macro_f1 0.500",
        "note: a label is rare.",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.000"), (0.0001234, "1.23e-04"), (-0.5, "-0.500"), (1234.5, "1234.500")],
)
def test_tiny_values_are_not_shown_as_zero(value, shown):
    assert measured(value).lines()[0] == f"accuracy {shown}"


@pytest.mark.parametrize(
    ("now", "before", "higher", "better"),
    [
        (0.6, 0.5, True, True),
        (0.5, 0.5, True, False),
        (0.4, 0.5, True, False),
        (0.4, 0.5, False, True),
        (0.5, 0.5, False, False),
        (0.6, 0.5, False, False),
        (0.1, math.nan, True, True),
        (math.nan, 0.1, True, False),
        (math.nan, 0.1, False, False),
        (math.nan, math.nan, True, False),
    ],
)
def test_better_follows_the_direction(now, before, higher, better):
    assert measured(now, higher=higher).better_than(measured(before, higher=higher)) is better


def test_anything_is_better_than_nothing():
    assert measured().better_than(None)


def test_only_the_same_value_is_compared():
    with pytest.raises(SettingError) as error:
        measured(primary="f1").better_than(measured())
    assert str(error.value) == (
        "metric is 'f1'; what it is compared with was measured by 'accuracy'; measure both by one."
    )


def test_what_decides_must_be_there():
    with pytest.raises(UnknownName) as error:
        Measured({"accuracy": 1.0}, "acuracy", True, 1)
    assert str(error.value) == ("metric is 'acuracy'; known: accuracy. Did you mean 'accuracy'?")


def test_a_record_without_a_part_is_refused():
    record = measured().to_dict()
    del record["count"]
    with pytest.raises(InputError) as error:
        Measured.from_dict(record)
    assert str(error.value) == (
        "what was measured has no 'count'; it must have values, primary, higher_is_better, count, "
        "intervals and notes; measure again."
    )


def test_an_interval_of_nothing_is_not_certainty():
    sure = Measured({"accuracy": 1.0}, "accuracy", True, 30, {"accuracy": (1.0, 1.0)}, ("a",))
    assert sure.remarks[0] == "a"
    assert sure.remarks[1].startswith("nothing is wrong in 30 items,")
    assert "up to 0.1 may be wrong" in sure.remarks[1]
    assert sure.lines()[-1].startswith("note: nothing is wrong")
    assert replace(sure, intervals={"accuracy": (0.9, 1.0)}).remarks == ("a",)
    assert replace(sure, intervals={}).remarks == ("a",)
    # Where all answers are the same half of them may be wrong, and nothing varies either.
    flat = Measured({"matthews": 0.0}, "matthews", True, 30, {"matthews": (0.0, 0.0)})
    assert flat.remarks == ()


def test_the_best_of_several_is_the_cheaper_one_of_equal_ones():
    several = [
        Measured({"accuracy": value, "log_loss": loss}, "accuracy", True, 9)
        for value, loss in ((0.5, 0.1), (0.9, 0.6), (0.9, 0.4), (0.9, 0.4), (0.8, 0.0))
    ]
    assert best_of(several) == 1
    assert best_of(several, "log_loss") == 2
