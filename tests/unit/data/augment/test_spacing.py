"""White space around words that change."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.augment.edits import Edited, rewrites
from clozeworks.data.augment.passage import Passage, is_word
from clozeworks.tasks.tagging.items import WordsItem

LETTERS = "ab1 \t\n.,(\"!é我京😀-'"
texts = st.text(st.sampled_from(LETTERS), max_size=25)


def rewritten(passage, changes):
    return Edited(passage.text, [edit for edit, _ in rewrites(passage, changes)]).text


def without(text, *words):
    passage = Passage.of_text(text)
    return rewritten(passage, {n: () for n in passage.free if passage.word(n) in words})


@pytest.mark.parametrize(
    ("text", "words", "left"),
    [
        ("one two three", ["two"], "one three"),
        ("one two three", ["one"], "two three"),
        ("one two three", ["three"], "one two"),
        ("one two three", ["one", "two"], "three"),
        ("one two three four", ["two", "three"], "one four"),
        ("  one two \n", ["one"], "  two \n"),
        ("  one two \n", ["two"], "  one \n"),
        ("one two, three.", ["two"], "one, three."),
        ("one two, three.", ["three"], "one two,."),
        ("one (two three) four", ["two"], "one (three) four"),
        ('one "two three" four', ["two"], 'one "three" four'),
        ('one ("two three") four', ["two"], 'one ("three") four'),
        ("one,two three", ["two"], "one, three"),
        ("one two (three)", ["two"], "one (three)"),
        ("one two(three)", ["two"], "one (three)"),
        ("one\ntwo three", ["two"], "one\nthree"),
        ("one two\nthree", ["two"], "one\nthree"),
        ("one two\nthree four", ["two", "three"], "one\nfour"),
        ("one  two three", ["two"], "one three"),
        ("one\ttwo\tthree", ["two"], "one\tthree"),
        ("我爱你", ["爱"], "我你"),
        ("我 love 你", ["love"], "我你"),
        ("我 爱 你", ["爱"], "我 你"),
        ("你好，big 家", ["big"], "你好，家"),
        ("a我b", ["我"], "a b"),
        ("yes😀no", ["😀"], "yes no"),
        (" one, two", ["one"], ", two"),
    ],
)
def test_a_deleted_word_takes_one_gap_with_it(text, words, left):
    assert without(text, *words) == left


@pytest.mark.parametrize(
    ("text", "changes", "now"),
    [
        ("one two", {0: ("two",), 1: ("one",)}, "two one"),
        ("one\ttwo", {0: ("two",), 1: ("one",)}, "two\tone"),
        ("x爱, the", {1: ("the",), 3: ("爱",)}, "x the, 爱"),
        ("我爱你", {1: ("love",)}, "我love你"),
        ("我 love 你", {1: ("爱",)}, "我爱你"),
        ("我 爱 你", {1: ("恨",)}, "我 恨 你"),
        ("one (two)", {2: ("two", "new")}, "one (two new)"),
        ("one (two)", {2: ("new", "two")}, "one (new two)"),
        ("我爱", {0: ("我", "很")}, "我很爱"),
        ("in New York, on", {1: ("Gotham",), 2: ()}, "in Gotham, on"),
        ("New York Big Apple", {0: ("x",), 1: (), 2: ("y",), 3: ()}, "x y"),
        ("one two three", {0: (), 1: ("new",)}, "new three"),
    ],
)
def test_new_words_fit_in(text, changes, now):
    assert rewritten(Passage.of_text(text), changes) == now


def test_pieces_of_a_word_do_not_grow_together_with_others():
    item = WordsItem("they do n't|do", ((0, 4), (5, 7), (8, 11), (12, 14)))
    assert rewritten(Passage.of_words(item.text, item.spans, item.tags), {1: ()}) == "they n't|do"
    joined = WordsItem("we don't go", ((0, 2), (3, 5), (5, 8), (9, 11)))
    assert (
        rewritten(Passage.of_words(joined.text, joined.spans, joined.tags), {1: ()}) == "we n't go"
    )
    assert (
        rewritten(Passage.of_words(joined.text, joined.spans, joined.tags), {2: ()}) == "we do go"
    )


def count(pattern, text):
    return len(re.findall(pattern, text))


@given(texts, st.randoms())
def test_deleting_leaves_a_readable_text(text, random):
    passage = Passage.of_text(text)
    going = [number for number in passage.free if random.random() < 0.5]
    now = rewritten(passage, dict.fromkeys(going, ()))
    assert count(r"\s[.,!]", now) <= count(r"\s[.,!]", text)  # no gap before a comma
    assert count(r"\s{2,}", now) <= count(r"\s{2,}", text)  # no double space
    assert count("[我京] [我京]", now) <= count("[我京] [我京]", text)
    # What stays are the words that were not deleted, in their order, none grown together.
    stayed = [passage.word(n) for n in range(len(passage.spans)) if n not in going]
    assert "".join(now.split()) == "".join(stayed)
    if not going:
        assert now == text


@given(texts, st.lists(st.sampled_from(["new", "我", "two words", "😀"]), min_size=1, max_size=3))
def test_every_new_word_stands_where_it_is_said_to(text, words):
    passage = Passage.of_text(text)
    changes = {number: tuple(words) for number in passage.free[::2]}
    made = rewrites(passage, changes)
    edited = Edited(text, [edit for edit, _ in made])
    placed = [
        (old, edited.text[edited.landing(n) + begin : edited.landing(n) + end])
        for n, (_, found) in enumerate(made)
        for old, begin, end in found
    ]
    assert placed == [(number, word) for number in passage.free[::2] for word in words]


@given(st.text(max_size=12))
def test_a_word_is_more_than_punctuation(text):
    plain = all(unicodedata.category(letter)[0] in "PZCM" for letter in text)
    assert is_word(text) == (not plain)
