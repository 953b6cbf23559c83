"""Columns in a terminal: a Chinese character is as wide as two letters."""

from clozeworks.display.table import aligned, cut, filled, width


def test_widths_are_counted_in_cells():
    assert (width(""), width("ab"), width("北京"), width("e\u0301")) == (0, 2, 4, 1)
    assert filled("北", 4) == "北  " and filled("北京市", 4) == "北京市"


def test_columns_to_the_left_and_to_the_right():
    assert aligned([("北京", "1"), ("a", "12")]) == ["北京   1", "a     12"]
    assert aligned([("x", "北京", "b"), ("yy", "a", "")], left=(0, 1)) == ["x   北京  b", "yy  a"]


def test_what_is_too_wide_is_cut():
    assert cut("北京市", 6) == "北京市"
    assert cut("北京市区", 6) == "北京…"
    assert cut("abcdefg", 6) == "abcde…"
    assert width(cut("北" * 1_000_000, 24)) <= 24
