"""Long texts: every token is covered, and judged where it has most context."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.spans.windows import (
    Windows,
    asking,
    by_item,
    first_tokens,
    judged_in,
    offsets_of,
    read_windows,
)
from clozeworks.text.training.train import train_from_iterator

TOKENIZER = train_from_iterator(
    ["a b c d e f g h i j 我 爱 学 习 。 🙂 é tab"] * 3, kind="wordpiece", size=120
)


def best_by_hand(windows):
    """The window of most context for each token, spelled out."""
    total = max(window.first + window.count for window in windows)
    found = []
    for token in range(total):
        rated = []
        for number, window in enumerate(windows):
            if window.first <= token < window.first + window.count:
                left = token - window.first
                right = window.first + window.count - 1 - token
                rated.append((-(min(left, right) + 0.01 * window.count), number))
        found.append(min(rated)[1])
    return found


@settings(max_examples=60, deadline=None)
@given(
    words=st.integers(1, 90), length=st.integers(14, 30), step=st.integers(1, 9), pair=st.booleans()
)
def test_windows_cover_every_token_once_and_step_by_step(words, length, step, pair):
    text = " ".join("abcdefghij"[number % 10] for number in range(words))
    texts, pairs = (["a b"], [text]) if pair else ([text], None)
    windows = read_windows(
        TOKENIZER,
        texts,
        pairs,
        windows=Windows(length=length, step=step),
        max_length=None,
        moves="second" if pair else "only",
        offsets=True,
    )
    whole = TOKENIZER.encode(texts, pairs, offsets=True)[0]
    moving = [n for n, part in enumerate(whole.part) if part == (1 if pair else 0)]
    assert max(window.first + window.count for window in windows) == len(moving) == words
    assert [window.first for window in windows] == [step * n for n in range(len(windows))]
    for window in windows:
        assert len(window) <= length
        here = window.encoded.ids[window.moving]
        assert here == [whole.ids[n] for n in moving][window.first : window.first + window.count]
        rest = window.encoded.ids[: window.before] + window.encoded.ids[window.moving.stop :]
        assert rest == [whole.ids[n] for n in range(len(whole)) if n not in moving]
    assert judged_in(windows).tolist() == best_by_hand(windows)
    assert offsets_of(windows).tolist() == [list(whole.offsets[n]) for n in moving]
    owned = asking(windows, np.arange(words))
    assert sorted(np.concatenate([window.about for window in owned]).tolist()) == list(range(words))


def test_the_longer_text_moves_and_the_shorter_stands_in_every_window():
    long, short = "a b c d e f g h i j " * 4, "i j"
    for texts, pairs in (([long], [short]), ([short], [long])):
        windows = read_windows(
            TOKENIZER, texts, pairs, windows=Windows(length=16), max_length=None, moves="longer"
        )
        ids = TOKENIZER.encode([short], special=False)[0].ids
        assert len(windows) > 2
        for window in windows:
            joined = ",".join(map(str, window.encoded.ids))
            assert ",".join(map(str, ids)) in joined


def test_what_fits_is_one_window_whatever_the_overlap():
    windows = read_windows(TOKENIZER, ["a b c"], windows=Windows(overlap=0), max_length=512)
    assert [len(window) for window in windows] == [5]


def test_first_tokens_of_words_in_any_script():
    text = "我爱学习。 é 🙂\ttab ab"
    spans = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (8, 9), (10, 13), (14, 16)]
    encoded = TOKENIZER.encode([text], offsets=True)[0]
    offsets = np.array(
        [o for o, part in zip(encoded.offsets, encoded.part, strict=True) if part == 0]
    )
    found = first_tokens(spans, offsets)
    for (begin, end), token in zip(spans, found.tolist(), strict=True):
        assert token >= 0
        assert begin <= offsets[token][0] < end
        assert token == 0 or offsets[token - 1][1] <= begin
    assert first_tokens([(5, 6), (0, 1)][:1], offsets).tolist() == [-1]  # a space has no token
    assert first_tokens([(0, 1)], np.zeros((0, 2), np.int64)).tolist() == [-1]


def test_windows_of_an_item_stand_together():
    windows = read_windows(TOKENIZER, ["a " * 30, "b"], windows=Windows(length=12), max_length=None)
    groups = by_item(windows)
    assert [{window.item for window in group} for group in groups] == [{0}, {1}]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Windows(length=0), "length is 0; it must be at least 1."),
        (lambda: Windows(step=0), "step is 0; it must be at least 1."),
        (lambda: Windows(overlap=-1), "overlap is -1; it must be at least 0."),
        (
            lambda: Windows(overlap=3, step=4),
            "overlap is 3; `step` is 4; one follows from the other; leave one out.",
        ),
        (
            lambda: Windows(length=600).limit(512),
            "windows.length is 600; this model takes at most 512 tokens; lower it.",
        ),
        (
            lambda: Windows(overlap=9).shared(9),
            "windows.overlap is 9; a window has room for 9 tokens of text; it must be smaller; "
            "lower it, or raise `windows.length`.",
        ),
    ],
)
def test_settings_that_cannot_be(make, sentence):
    with pytest.raises(SettingError) as caught:
        make()
    assert str(caught.value) == sentence


def test_a_question_that_fills_the_window_is_refused():
    with pytest.raises(InputError) as caught:
        read_windows(
            TOKENIZER,
            ["a " * 20],
            ["b " * 20],
            windows=Windows(length=24),
            max_length=None,
            moves="second",
            source_locations=["faq.jsonl, line 3"],
        )
    assert str(caught.value) == (
        "faq.jsonl, line 3: 23 tokens stand in every window (special ones and the text that is "
        "not cut), and a window has 24; there must be room for 8 of the long text; shorten the "
        "other text, or raise windows.length."
    )
