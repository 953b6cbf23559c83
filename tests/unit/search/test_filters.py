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
