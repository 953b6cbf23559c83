"""Edits, and where places are afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.augment.edits import Edit, Edited

letters = st.text(st.sampled_from("ab \t\n.é我京👍🏽👩\u200d"), max_size=4) | st.text(max_size=4)


@st.composite
def edited(draw):
    """A text as pieces, each with what stands in its place; None if it stays."""
    pieces = draw(st.lists(st.tuples(letters, st.none() | letters), max_size=8))
    text, edits = "", []
    for old, new in pieces:
        if new is not None:
            edits.append(Edit(len(text), len(text) + len(old), new))
        text += old
    return pieces, text, edits


@given(edited())
def test_the_text_is_that_of_the_pieces(case):
    pieces, text, edits = case
    assert Edited(text, edits).text == "".join(old if new is None else new for old, new in pieces)


@given(edited(), st.data())
def test_what_no_edit_touches_is_found_again(case, data):
    _, text, edits = case
    begin, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    now = Edited(text, edits)
    first, last = now.moved(begin, end)
    assert 0 <= first <= last <= len(now.text)
    touched = any(edit.begin < end and begin < edit.end for edit in edits)
    inside = any(begin < edit.begin == edit.end < end for edit in edits)
    if not touched and not inside:
        assert now.text[first:last] == text[begin:end]


@given(edited(), st.data())
def test_pieces_stay_in_order_and_apart(case, data):
    _, text, edits = case
    bounds = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    now = Edited(text, edits)
    one, two = now.moved(*bounds[:2]), now.moved(*bounds[2:])
    if bounds[0] < bounds[1] and bounds[2] < bounds[3]:
        assert one[0] <= two[0] and one[1] <= two[1]
        # Only pieces that were swallowed by one edit can come to lie over each other.
        assert one[1] <= two[0] or one[0] == one[1] or two[0] == two[1]


@given(edited())
def test_what_is_replaced_exactly_becomes_its_replacement(case):
    _, text, edits = case
    now = Edited(text, edits)
    for number, edit in enumerate(edits):
        landing = now.landing(number)
        assert now.text[landing : landing + len(edit.text)] == edit.text
        beside = [other for other in edits if other.begin == other.end and other is not edit]
        apart = all(other.begin not in (edit.begin, edit.end) for other in beside)
        if edit.begin < edit.end and apart:
            assert now.moved(edit.begin, edit.end) == (landing, landing + len(edit.text))


def test_what_is_put_in_at_an_edge_stays_outside():
    now = Edited("ab cd ef", [Edit(3, 3, "<"), Edit(3, 3, "("), Edit(5, 5, ")")])
    assert now.text == "ab <(cd) ef"
    assert now.moved(3, 5) == (5, 7)
    assert now.moved(2, 6) == (2, 9)


def test_a_piece_that_was_changed_in_part():
    now = Edited("one two three", [Edit(2, 5, "XXXX")])
    assert now.text == "onXXXXwo three"
    assert now.moved(0, 4) == (0, 2)  # `one ` keeps `on`
    assert now.moved(4, 7) == (6, 8)  # `two` keeps `wo`
    assert now.moved(3, 4) == (6, 6)  # a place inside is behind what came instead


@pytest.mark.parametrize(
    "edits", [[Edit(2, 3, ""), Edit(1, 2, "")], [Edit(0, 2, ""), Edit(1, 3, "")], [Edit(2, 9, "")]]
)
def test_edits_come_in_order_and_within_the_text(edits):
    with pytest.raises(AssertionError, match="in order"):
        Edited("text", edits)
