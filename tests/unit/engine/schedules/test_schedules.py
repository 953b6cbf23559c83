"""Rates at the steps where mistakes show, and what every schedule must keep."""

import inspect
import json
import math

import pytest

from clozeworks import config, registry
from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.engine.schedules.constant import Constant
from clozeworks.engine.schedules.cosine import Cosine
from clozeworks.engine.schedules.inverse_square_root import InverseSquareRoot
from clozeworks.engine.schedules.linear import Linear
from clozeworks.errors import SettingError, UnknownName

ALL = registry.specs(ScheduleSpec)
CASES = [
    *(cls(warmup_steps=warmup) for cls in ALL.values() for warmup in (1, 20, 100)),
    Linear(warmup_steps=20, anchor="start"),
    Linear(warmup_steps=20, anchor="start", end=0.1),
    Linear(warmup_steps=0, end=0.3),
    Cosine(warmup_steps=0, end=0.1),
    Constant(warmup_steps=0),
    InverseSquareRoot(warmup_steps=0, hold=40),
]
every = pytest.mark.parametrize("schedule", CASES, ids=str)


def table(schedule, steps, at):
    return [schedule.factor(step, steps) for step in at]


def test_the_folder():
    assert set(ALL) >= {"linear", "cosine", "constant", "inverse_square_root"}


def test_bert_to_the_step():
    """10,000 of a million, where the released code drops to 0.99."""
    at = [0, 1, 9_999, 10_000, 999_999, 1_000_000]
    bert = table(Linear(warmup_steps=10_000, anchor="start"), 1_000_000, at)
    assert bert == pytest.approx([0, 1e-4, 0.9999, 0.99, 1e-6, 0], rel=1e-9)
    later = table(Linear(warmup_steps=10_000, anchor="warmup"), 1_000_000, at)
    assert later == pytest.approx([0, 1e-4, 0.9999, 1, 1 / 990_000, 0], rel=1e-9)
    assert bert[:3] == later[:3]
    assert bert[3:5] != pytest.approx(later[3:5], rel=1e-3)  # the other anchor would show


AT = [0, 1, 19, 20, 60, 99, 100, 150]


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (Linear(warmup_steps=20, anchor="start"), [0, 0.05, 0.95, 0.8, 0.4, 0.01, 0, 0]),
        (Linear(warmup_steps=20, anchor="warmup"), [0, 0.05, 0.95, 1, 0.5, 1 / 80, 0, 0]),
        (Linear(warmup_steps=20, anchor="start", end=0.5),
         [0, 0.05, 0.95, 0.9, 0.7, 0.505, 0.5, 0.5]),
        (Linear(warmup_steps=20, anchor="warmup", end=0.5),
         [0, 0.05, 0.95, 1, 0.75, 0.5 + 1 / 160, 0.5, 0.5]),
        (Cosine(warmup_steps=20),
         [0, 0.05, 0.95, 1, 0.5, (1 + math.cos(math.pi * 79 / 80)) / 2, 0, 0]),
        (Cosine(warmup_steps=20, end=0.1),
         [0, 0.05, 0.95, 1, 0.55, 0.1 + 0.45 * (1 + math.cos(math.pi * 79 / 80)), 0.1, 0.1]),
        (Constant(warmup_steps=20), [0, 0.05, 0.95, 1, 1, 1, 1, 1]),
        (InverseSquareRoot(warmup_steps=20),
         [0, 0.05, 0.95, 1, (1 / 3) ** 0.5, (20 / 99) ** 0.5, 0.2**0.5, 0.2**0.5]),
    ],
    ids=str,
)  # fmt: skip
def test_tables(schedule, wanted):
    assert table(schedule, 100, AT) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_t5_to_the_step():
    """1 / sqrt(max(step, 10,000)): a hundredth for 10,000 steps, a thousandth at a million."""
    schedule = InverseSquareRoot(warmup_steps=0, hold=10_000)
    at = [0, 1, 10_000, 40_000, 1_000_000]
    rates = [0.01 * factor for factor in table(schedule, 1_000_000, at)]
    assert rates == pytest.approx([0.01, 0.01, 0.01, 0.005, 0.001], rel=1e-12)
    assert table(InverseSquareRoot(warmup_steps=10, hold=40), 200, [5, 10, 40, 160]) == [
        0.5,
        1,
        1,
        0.5,
    ]
    # The fall without the hold begins at once.
    assert table(InverseSquareRoot(warmup_steps=1), 1_000_000, [40_000]) == [0.005]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"warmup_steps": 0, "hold": -1}, "hold is -1; it must be at least 0."),
        ({"warmup_steps": 20, "hold": 5},
         "hold is 5; `warmup_steps` is 20, and the rate rises until then; raise it, or leave it "
         "out."),
    ],
)  # fmt: skip
def test_complaints_about_hold(settings, sentence):
    with pytest.raises(SettingError) as caught:
        InverseSquareRoot(**settings)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("kind", sorted(ALL))
@pytest.mark.parametrize(
    ("fraction", "steps", "warmup"), [(0.1, 100, 10), (0.06, 95, 6), (0.9, 1, 0)]
)
def test_a_fraction_of_the_steps_is_that_many_steps(kind, fraction, steps, warmup):
    schedule = ALL[kind](warmup_fraction=fraction)
    assert schedule.warmup(steps) == warmup
    if warmup:
        same = ALL[kind](warmup_steps=warmup)
        assert table(schedule, steps, range(steps)) == table(same, steps, range(steps))


def test_without_warmup_the_first_step_has_the_highest_rate():
    for schedule in (
        Linear(warmup_steps=0),
        Linear(warmup_steps=0, anchor="start"),
        Cosine(warmup_steps=0),
    ):
        assert table(schedule, 10, [0, 10]) == [1.0, 0.0]
    assert Linear(warmup_steps=0).factor(3, 10) == Linear(warmup_steps=0, anchor="start").factor(
        3, 10
    )


def test_only_the_inverse_square_root_does_not_know_the_length():
    assert InverseSquareRoot(warmup_steps=5).factor(50, 100) == InverseSquareRoot(
        warmup_steps=5
    ).factor(50, 99)
    assert Linear(warmup_steps=5).factor(50, 100) != Linear(warmup_steps=5).factor(50, 99)


@every
def test_factors_are_within_0_and_1_and_do_not_jump(schedule):
    schedule.check(100)
    factors = table(schedule, 100, range(101))
    assert all(0 <= factor <= 1 for factor in factors)
    warmup = schedule.warmup(100)
    rising, falling = factors[:warmup], factors[warmup:]
    assert rising == [step / warmup for step in range(warmup)]
    assert falling == sorted(falling, reverse=True)
    steepest = max(1 / max(warmup, 1), math.pi / 2 / max(100 - warmup, 1))
    for step in range(warmup - 1, 99) if warmup else range(99):
        down = factors[step] - factors[step + 1]
        drop = 0.0
        if step + 1 == warmup and getattr(schedule, "anchor", "") == "start":
            drop = (1 - schedule.end) * warmup / 100  # the documented one
            assert down == pytest.approx(drop - 1 / warmup)
        elif not isinstance(schedule, InverseSquareRoot):
            assert abs(down) <= steepest + 1e-12
        else:  # steepest where it begins to fall: 1 - sqrt(w / (w + 1))
            assert abs(down) <= max(1 / max(warmup, schedule.hold), 0.3)


@every
def test_the_end_stays(schedule):
    assert schedule.factor(101, 100) == schedule.factor(100, 100) == schedule.factor(10**9, 100)


@every
def test_json_both_ways(schedule):
    data = json.loads(json.dumps(config.plain(schedule)))
    assert config.read(ScheduleSpec, data, "schedule") == schedule


@pytest.mark.parametrize("kind", sorted(ALL))
def test_files_say_where_they_come_from(kind):
    text = inspect.getdoc(inspect.getmodule(ALL[kind]))
    assert all(heading in text for heading in ("Paper:", "The idea:", "Used by:"))


@pytest.mark.parametrize("kind", sorted(ALL))
def test_warmup_longer_than_the_run(kind):
    schedule = ALL[kind](warmup_steps=2_000)
    schedule.check(2_000)
    with pytest.raises(SettingError) as error:
        schedule.check(1_999)
    assert str(error.value) == (
        "schedule.warmup_steps is 2,000; it must be at most 1,999, the steps of the run; make it "
        "shorter or the run longer."
    )


@pytest.mark.parametrize(
    ("settings", "kind", "sentence"),
    [
        ({"kind": "linear", "warmup_steps": -1}, SettingError,
         "schedule.warmup_steps is -1; it must be at least 0."),
        ({"kind": "linear", "warmup_steps": 1, "end": 1.5}, SettingError,
         "schedule.end is 1.5; it must be at least 0 and at most 1."),
        ({"kind": "cosine", "warmup_steps": 1, "end": math.nan}, SettingError,
         "schedule.end is nan; it must be at least 0 and at most 1."),
        ({"kind": "linear", "warmup_steps": 1, "anchor": "end"}, SettingError,
         "schedule.anchor is 'end'; it must be 'start' or 'warmup'."),
        ({"kind": "inverse_square_root", "warmup_steps": 0}, SettingError,
         "schedule.hold is 0; without warm-up it says how fast the rate falls; set it, such as "
         "hold = 10000, or `warmup_steps` or `warmup_fraction`."),
        ({"kind": "linear", "warmup_fraction": 1.0}, SettingError,
         "schedule.warmup_fraction is 1.0; it must be at least 0 and below 1."),
        ({"kind": "linear", "warmup_steps": 1, "warmup_fraction": 0.5}, SettingError,
         "schedule.warmup_steps is 1; `warmup_fraction`, 0.5, says the same thing twice; "
         "leave one of them out."),
        ({"kind": "linear", "warmup_steps": 0.1}, SettingError,
         "schedule.warmup_steps is 0.1; it must be int."),
        ({"kind": "cosin", "warmup_steps": 1}, UnknownName,
         "schedule.kind is 'cosin'; known: constant, cosine, inverse_square_root, linear. "
         "Did you mean 'cosine'?"),
    ],
)  # fmt: skip
def test_complaints(settings, kind, sentence):
    with pytest.raises(kind) as error:
        config.read(ScheduleSpec, settings, "schedule")
    assert str(error.value) == sentence


def test_an_anchor_given_in_python_is_checked_too():
    with pytest.raises(SettingError) as error:
        Linear(warmup_steps=1, anchor="end")
    assert str(error.value) == "anchor is 'end'; it must be 'start' or 'warmup'."
