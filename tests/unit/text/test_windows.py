import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.errors import SettingError


def covered(windows, part):
    return {
        span
        for window in windows
        for span, owner in zip(window.offsets, window.part, strict=True)
        if owner == part
    }


@given(st.integers(0, 60), st.integers(3, 20), st.integers(0, 17))
def test_windows_cover_every_token(byte_level, words, length, overlap):
    text = "ab " * words
    if overlap >= length - 2:
        return
    whole = byte_level.encode([text], offsets=True)[0]
    windows = byte_level.windows(text, length, overlap)
    assert covered(windows, 0) == covered([whole], 0)
    for window in windows:
        assert len(window) <= length
        assert window.ids[0] == byte_level.first_id and window.ids[-1] == byte_level.last_id
    for left, right in itertools.pairwise(windows):
        assert left.offsets[1:-1][len(left) - 2 - overlap :] == right.offsets[1 : overlap + 1]
    # No window holds nothing new.
    if len(windows) > 1:
        assert covered(windows[:-1], 0) != covered(windows, 0)


def test_a_short_text_has_one_window(bert):
    assert len(bert.windows("the cat", 10, 4)) == 1
    assert bert.windows("", 10, 4)[0].ids == [bert.first_id, bert.last_id]


def test_a_pair_repeats_the_question(bert):
    windows = bert.windows("the cat", 8, 1, pair="sat on the mat, unhappy.")
    question = [bert.id_of("the"), bert.id_of("cat")]
    assert len(windows) > 1
    for window in windows:
        assert window.ids[1:3] == question
        assert window.types[:4] == [0] * 4 and set(window.types[4:]) == {1}
    whole = bert.encode(["the cat"], ["sat on the mat, unhappy."], offsets=True)[0]
    assert covered(windows, 1) == covered([whole], 1)


def test_no_room(bert):
    with pytest.raises(SettingError) as caught:
        bert.windows("the cat", 5, 1, pair="mat")
    assert str(caught.value) == (
        "length is 5; 5 tokens stand in every window, so at least 6 are needed; raise length."
    )


@pytest.mark.parametrize("overlap", [4, -1])
def test_overlap_fills_the_room(bert, overlap):
    with pytest.raises(SettingError) as caught:
        bert.windows("the cat", 6, overlap)
    assert str(caught.value) == (
        f"overlap is {overlap}; it must be at least 0 and below 4, the room a window of 6 has; "
        "lower overlap or raise length."
    )
