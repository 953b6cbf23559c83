"""Conditions: how they are written, and what meets them."""

import pytest

from clozeworks.errors import SettingError
from clozeworks.search.filters import Condition, conditions


@pytest.mark.parametrize(
    ("written", "columns", "holds"),
    [
        ("n<10", {"n": 9}, True),
        ("n<10", {"n": "9.5"}, True),
        ("n<10", {"n": 10}, False),
        ("n>=9", {"n": "10"}, True),
        ("n = 1.0", {"n": "1"}, True),
        ("name<b", {"name": "apple"}, True),
        ("name!=b", {"name": "b"}, False),
        ("name!=b", {}, False),  # a document without the column meets no condition
        ("name=a=b", {"name": "a=b"}, True),
        ("open=true", {"open": True}, True),
        ("empty=", {"empty": "x"}, False),
        ("n=9007199254740993", {"n": 9007199254740993}, True),
        ("n=9007199254740993", {"n": 9007199254740992}, False),  # one float64 for both
        ("n>1e3", {"n": 1000.5}, True),
    ],
)
def test_what_meets_a_condition(written, columns, holds):
    assert Condition.read(written).holds(columns) is holds


def test_several_forms():
    assert conditions(None) == []
    assert conditions("a=1") == conditions(["a=1"]) == conditions({"a": 1})
    assert conditions({"a": True})[0].holds({"a": True})
    with pytest.raises(SettingError, match="where is '=1'; a condition is a column, one of"):
        conditions("=1")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("year==2005", "== is none of = != < <= > >=; write year=2005"),
        ("year=>2025", "write year>=2025"),
        ("year =< 2001", "write year<=2001"),
        ("year<>2005", "write year!=2005"),
        ("year>=", "there is no value after >="),
    ],
)
def test_slips_of_the_pen_are_no_conditions(written, words):
    with pytest.raises(SettingError, match=words):
        Condition.read(written)


def test_numbers_are_not_less_than_words():
    condition = Condition.read("year>=2025 and lang=en")
    with pytest.raises(SettingError, match="year holds numbers, and '2025 and lang=en' is not one"):
        condition.holds({"year": 2016})
    assert not condition.holds({"year": "2016"})  # a column of texts
