"""How messages count things."""

import json

import pytest

from clozeworks.wording import as_json, counted, visible


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (1_234_567, "1,234,567 steps")],
)
def test_things_are_counted(number, said):
    assert counted(number, "step") == said


def test_what_an_s_does_not_make_several_of():
    assert counted(1, "copy", "copies") == "1 copy"
    assert counted(2, "copy", "copies") == "2 copies"
    assert counted(1, "item was", "items were") == "1 item was"
    assert counted(0, "item was", "items were") == "0 items were"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 我爱\u3000北京\u00a0é", "plain 我爱\u3000北京\u00a0é"),
        ("👩\u200d👩\u200d👧 می\u200cخواهم ☝️", "👩\u200d👩\u200d👧 می\u200cخواهم ☝️"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("\x9b31m\x7f\x00\r\b", "\\x9b31m\\x7f\\x00\\r\\x08"),
        ("abc\u202edcba\u2066\ufeff\u2028", "abc\\u202edcba\\u2066\\ufeff\\u2028"),
        ("\ud800", "\\ud800"),
        ("a\nb\tc", "a\\nb\\tc"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


def test_lines_may_stay():
    assert visible("a\nb\tc\r\x1b[2J", lines=True) == "a\nb\tc\\r\\x1b[2J"


def test_json_for_terminals_is_the_same_json():
    value = {"a\x1b\x7f\x9b\n\u2028": ["\u202e\U000e0001", "北京 é\u200d\ud800", 1.5, None]}
    text = as_json(value)
    assert json.loads(text) == value
    assert visible(text) == text
    assert "北京 é" in text and "\\u202e" in text
    assert json.loads(as_json(value, indent=1, ascii_only=True)) == value
