"""How messages count things."""

import pytest

from clozeworks.wording import counted


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
