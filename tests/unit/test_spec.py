"""Bounds in annotations: checked in Python and from files, with the path of what is wrong."""

import pickle
from typing import Annotated, Any, Literal

import pytest

from clozeworks import config
from clozeworks.errors import MISSING, SettingError, UnknownName
from clozeworks.spec import (
    FINITE,
    NOT_EMPTY,
    Above,
    Advice,
    AtLeast,
    DropoutRate,
    PositiveInt,
    Probability,
    RandomSeed,
    bounds_in_words,
    check,
    spec,
)


@spec
class Inner:
    weight: Annotated[float, Above(0), Advice("leave the part out instead")] = 1.0


@spec
class Outer:
    rank: PositiveInt = 1
    most: PositiveInt | None = None
    dropout: DropoutRate = 0.0
    betas: tuple[Probability, ...] = (0.9,)
    weights: dict[str, Annotated[float, Above(0)]] | None = None
    names: Annotated[tuple[str, ...], NOT_EMPTY] = ("one",)
    seed: RandomSeed = 0
    choose: Literal["likeliest", "drawn"] = "drawn"
    rest: Annotated[float, FINITE] | Literal["auto"] = "auto"
    inner: Inner | None = None

    def __post_init__(self) -> None:
        if self.rank == 13:
            raise SettingError("rank", self.rank, "it brings bad luck", "leave `seed` out")


@spec
class Heir(Outer):
    more: PositiveInt = 1


BROKEN = [
    ({"rank": 0}, "rank is 0; it must be at least 1."),
    ({"most": -12_000}, "most is -12,000; it must be at least 1."),
    ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1."),
    ({"dropout": float("nan")}, "dropout is nan; it must be at least 0 and below 1."),
    ({"betas": (0.5, 1.5)}, "betas[1] is 1.5; it must be at least 0 and at most 1."),
    ({"weights": {"good": 0.0}}, "weights.good is 0.0; it must be above 0."),
    ({"weights": {"good": float("inf")}}, "weights.good is inf; it must be above 0 and finite."),
    ({"names": ()}, "names is empty; it must be non-empty."),
    ({"seed": 2**63}, "seed is 9,223,372,036,854,775,808; it must be at least 0 and below 2**63."),
    ({"choose": "all"}, "choose is 'all'; it must be 'likeliest' or 'drawn'."),
    ({"rest": float("nan")}, "rest is nan; it must be a finite number."),
    ({"rest": "car"}, "rest is 'car'; it must be 'auto'."),
    ({"rank": 13}, "rank is 13; it brings bad luck; leave `seed` out."),
]


@pytest.mark.parametrize(("values", "message"), BROKEN)
@pytest.mark.parametrize("cls", [Outer, Heir])
def test_bounds_hold_in_python(cls, values, message):
    with pytest.raises(SettingError) as error:
        cls(**values)
    assert str(error.value) == message


@pytest.mark.parametrize(("values", "message"), [case for case in BROKEN if "car" not in case[1]])
def test_bounds_hold_in_files_and_the_path_is_named(values, message):
    with pytest.raises(SettingError) as error:
        config.read(Outer, config.plain(values), "training.part")
    assert str(error.value) == f"training.part.{message}"
    assert error.value.setting.startswith("training.part.")


def test_what_is_allowed_is_allowed():
    chosen = Outer(rank=4, most=None, betas=(0.0, 1.0), weights={"a": 2.0}, rest=3.0, inner=Inner())
    assert config.read(Outer, config.plain(chosen)) == chosen
    assert Outer(rest=1).rest == 1


def test_the_path_leads_to_the_innermost_table():
    with pytest.raises(SettingError) as error:
        config.read(Outer, {"inner": {"weight": -1}}, "part")
    assert str(error.value) == (
        "part.inner.weight is -1.0; it must be above 0; leave the part out instead."
    )
    assert (error.value.setting, error.value.value) == ("part.inner.weight", -1.0)
    assert (error.value.rule, error.value.advice) == (
        "it must be above 0",
        "leave the part out instead",
    )


def test_an_heir_checks_its_own_fields_too():
    with pytest.raises(SettingError, match=r"^more is 0; it must be at least 1.$"):
        Heir(more=0)


def test_values_of_functions_are_checked_alike():
    check("ranks", 1, PositiveInt)
    check("anything", object(), Any)
    with pytest.raises(SettingError, match=r"^ranks is '2'; it must be at least 1.$"):
        check("ranks", "2", PositiveInt)


def test_bounds_in_words():
    assert bounds_in_words(DropoutRate) == "at least 0 and below 1"
    assert bounds_in_words(Annotated[int, AtLeast(2)] | None) == "at least 2"
    assert bounds_in_words(int) == ""


def test_names_of_settings_can_be_spelled_as_options():
    error = SettingError("num_beams", 4, "it must be divisible by `num_beam_groups`, 3", "fix it")
    typed = error.respelled(lambda name: "--" + name.replace("_", "-"))
    assert str(typed) == "--num-beams is 4; it must be divisible by --num-beam-groups, 3; fix it."


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SettingError("run", MISSING, "a recipe needs it"), "run is missing; a recipe needs it."),
        (SettingError("run", "", "name a folder"), "run is ''; name a folder."),
        (SettingError("ids", [1000, "a"], "no"), "ids is [1,000, 'a']; no."),
        (SettingError("on", True, "no"), "on is True; no."),
        (UnknownName("kind", "dgo", ("dog",)), "kind is 'dgo'; known: dog. Did you mean 'dog'?"),
    ],
)
def test_sentences_and_pickles(error, message):
    assert str(error) == message
    assert str(pickle.loads(pickle.dumps(error))) == message
