"""Words of raw text, whatever the tokenizer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.text.characters import is_chinese, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("He lives in the U.S. (don't ask).", "He|lives|in|the|U.S.|(|don't|ask|)|."),
        ("It cost $3,500.75, e.g. at AT&T.", "It|cost|$|3,500.75|,|e.g.|at|AT&T|."),
        ("我爱学习！BERT很好。", "我|爱|学|习|！|BERT|很|好|。"),
        ("हिन्दी भाषा.", "हिन्दी|भाषा|."),
        ("👩‍👩‍👧 loves ❤️. 👍🏽🇩🇪🇫🇷", "👩‍👩‍👧|loves|❤️|.|👍🏽|🇩🇪|🇫🇷"),
        ("state-of-the-art a_b me@x.org", "state-of-the-art|a_b|me@x.org"),
        ("12,345 and a,b\tnaïve\ncafé", "12,345|and|a|,|b|naïve|café"),
    ],
)
def test_words(text, words):
    assert [text[begin:end] for begin, end in words_of(text)] == words.split("|")


def test_nothing_has_no_words():
    assert words_of(" \t\n\u3000") == []


@given(st.text())
def test_words_are_in_order_and_hold_every_visible_character(text):
    spans = words_of(text)
    assert all(begin < end for begin, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    rest = list(text)
    for begin, end in spans:
        rest[begin:end] = [" "] * (end - begin)
    assert not "".join(rest).strip()


def test_is_chinese():
    assert is_chinese("我爱。！")
    assert not is_chinese("我a")
    assert not is_chinese("")
