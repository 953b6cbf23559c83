"""Labels, tags and answers stay right, whatever is done to an item."""

import dataclasses
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.data.augment.changing import Draw
from clozeworks.data.augment.delete import Delete
from clozeworks.data.augment.guess import ReplaceByModel
from clozeworks.data.augment.passage import Passage
from clozeworks.data.augment.replace import Replace
from clozeworks.data.augment.swap import Swap
from clozeworks.rng import RandomStream
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tagging.items import WordsItem

CHANCE = RandomStream(3, "augment")
WORDS = ["old", "cat", "New", "York", "高", "兴", "a", ",", "(", "😀", "é", "don't"]
SCHEMES = {
    "IO": ["O", "O", "PER", "LOC"],
    "IOB1": ["O", "O", "I-PER", "I-LOC", "B-PER"],
    "IOB2": ["O", "O", "B-PER", "I-PER", "B-LOC"],
    "BIOES": ["O", "O", "B-PER", "I-PER", "E-PER", "S-LOC"],
}
context_letters = st.sampled_from("ab  \t\n.,(é我京😀1")


@pytest.mark.parametrize("augment", ["several"], indirect=True)
def test_all_else_is_as_it_was(augment, rng, items):
    texts = {"text", "first", "second", "spans", "tags", "question", "context", "answers"}
    for item in items:
        changed = [augment(item, rng, epoch, 0) for epoch in range(20)]
        assert any(new != item for new in changed)
        for field in dataclasses.fields(item):
            if field.name not in texts:
                assert {getattr(new, field.name) for new in changed} == {getattr(item, field.name)}


def test_both_texts_of_a_pair_are_changed_each_in_its_own_way(rng):
    text = "one two three four five six seven eight"
    augment = Delete(fraction=0.5).build()
    pairs = [augment(PairItem(text, text), rng, 0, index) for index in range(30)]
    assert sum(pair.first != text for pair in pairs) > 20
    assert sum(pair.second != text for pair in pairs) > 20
    assert sum(pair.first != pair.second for pair in pairs) > 20


def test_a_question_is_changed_and_so_is_the_rest_of_the_context(augment, rng, items):
    item = items[-1]
    changed = [augment(item, rng, 0, index) for index in range(60)]
    assert any(new.question != item.question for new in changed)
    assert any(new.context != item.context for new in changed)


def entities(words, tags):
    """Neighbours of one type; what begins with B or S, or follows E, is on its own."""
    found = []
    for place, (word, tag) in enumerate(zip(words, tags, strict=True)):
        before = tags[place - 1] if place else "O"
        joins = tag[-3:] == before[-3:] and tag[:2] not in ("B-", "S-") and before[:2] != "E-"
        if tag == "O":
            continue
        if joins:
            found[-1].append((word, tag))
        else:
            found.append([(word, tag)])
    return found


@st.composite
def tagged(draw):
    tags = SCHEMES[draw(st.sampled_from(sorted(SCHEMES)))]
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(tags)), min_size=1, max_size=12)
    )
    return WordsItem.of_words(*zip(*pairs, strict=True))


def is_sound(item):
    """Words in order, without overlap, and nothing but white space between them."""
    bounds = [bound for span in item.spans for bound in span]
    left = item.text
    for begin, end in reversed(item.spans):
        left = left[:begin] + left[end:]
    return bounds == sorted(bounds) and not left.strip() and len(item.tags) == len(item.spans)


@settings(max_examples=60)
@given(tagged(), st.integers(0, 10**6))
def test_entities_and_their_tags_stay(augment_of, item, index):
    for name, augment in augment_of.items():
        new = augment(item, CHANCE, 0, index)
        assert is_sound(new), name
        assert entities(new.words, new.tags) == entities(item.words, item.tags), name
        assert new.text.strip()


def test_two_entities_would_become_one_if_all_between_them_were_deleted():
    item = WordsItem.of_words(["Ann", "and", "Bob"], ["PER", "O", "PER"])
    augment = Delete(fraction=1.0).build()
    assert augment(item, CHANCE, 0, 0) == item
    longer = WordsItem.of_words(["so", "Ann", "and", "then", "Bob"], ["O", "PER", "O", "O", "PER"])
    left = {augment(longer, CHANCE, 0, index).words for index in range(30)}
    assert left == {("Ann", "and", "Bob"), ("Ann", "then", "Bob")}
    # The usual mistake is to delete all that is tagged O.
    careless = dataclasses.replace(
        Passage.of_words(longer.text, longer.spans, longer.tags), keep_one_of=()
    )
    assert set(Delete(fraction=1.0).changes(careless, Draw(CHANCE, 0, 0))) == {0, 2, 3}


def test_a_comma_between_entities_keeps_them_apart():
    item = WordsItem.of_words(["Ann", ",", "then", "Bob"], ["PER", "O", "O", "PER"])
    assert Delete(fraction=1.0).build()(item, CHANCE, 0, 0).words == ("Ann", ",", "Bob")


def test_words_of_entities_are_replaced_only_if_that_is_wanted():
    item = WordsItem.of_words(["old", "Ann", "Lee"], ["O", "B-PER", "I-PER"])
    table = {"old": ("aged",), "Ann": ("Eve",), "Ann Lee": ("Bob",), "lee": ("doe",)}
    assert Replace(fraction=1.0, synonyms=table).build()(item, CHANCE, 0, 0).words == (
        "aged",
        "Ann",
        "Lee",
    )
    new = Replace(fraction=1.0, synonyms=table, inside_entities=True).build()(item, CHANCE, 0, 0)
    assert (new.words, new.tags) == (("aged", "Eve", "Doe"), item.tags)


def test_words_of_entities_are_guessed_only_if_that_is_wanted():
    item = WordsItem.of_words(["old", "Ann", "Lee"], ["O", "B-PER", "I-PER"])
    spec = ReplaceByModel(fraction=1.0)
    for inside, words in ((False, ("x", "Ann", "Lee")), (True, ("x", "X", "X"))):
        augment = dataclasses.replace(spec, inside_entities=inside).build(
            lambda texts: [["x"]] * len(texts)
        )
        new = augment(item, CHANCE, 0, 0)
        assert (new.words, new.tags) == (words, item.tags)


def test_tags_move_with_their_words():
    item = WordsItem.of_words([*"abc", "Ann", *"def"], [*"OOO", "PER", *"OOO"])
    for index in range(30):
        new = Delete(fraction=0.5).build()(item, CHANCE, 0, index)
        assert [tag for word, tag in zip(new.words, new.tags, strict=True) if word == "Ann"] == [
            "PER"
        ]
        assert new.tags.count("O") == len(new.words) - 1


def test_words_without_tags_are_all_free():
    item = WordsItem.of_words(["one", "two", "three", "four"])
    changed = [Swap(fraction=0.5).build()(item, CHANCE, 0, index) for index in range(20)]
    assert all(sorted(new.words) == sorted(item.words) and new.tags is None for new in changed)
    assert len({new.words for new in changed}) == 3  # two pairs of four words


@st.composite
def questions(draw):
    context = draw(st.text(context_letters, min_size=1, max_size=40))
    spans = [
        sorted(draw(st.integers(0, len(context))) for _ in range(2))
        for _ in range(draw(st.integers(0, 3)))
    ]
    answers = tuple(AnswerSpan(context[begin:end], begin) for begin, end in spans)
    return QuestionItem("what is a ?", context, answers)


@settings(max_examples=100)
@given(questions(), st.integers(0, 10**6))
def test_every_answer_stands_where_it_is_said_to(augment_of, item, index):
    for name, augment in augment_of.items():
        new = augment(item, CHANCE, 0, index)
        assert [answer.text for answer in new.answers] == [a.text for a in item.answers], name
        for answer in new.answers:
            assert new.context[answer.begin : answer.end] == answer.text, name


def test_answers_that_touch_others_survive(augment, rng, items):
    item = items[-1]
    for index in range(100):
        new = augment(item, rng, 0, index)
        assert [new.context[a.begin : a.end] for a in new.answers] == [
            "London",
            "London",
            "in London",
        ]


def test_white_space_of_an_answer_is_not_taken():
    item = QuestionItem("Who?", "one two three", (AnswerSpan("two ", 4),))
    new = Delete(fraction=1.0).build()(item, CHANCE, 0, 0)
    assert new.context == "one two three"  # `three` is held, `one` is the last that is free
    longer = QuestionItem("Who?", "zero one two three four", (AnswerSpan("two ", 9),))
    contexts = {Delete(fraction=1.0).build()(longer, CHANCE, 0, i).context for i in range(20)}
    assert contexts == {"zero two three", "one two three", "two three four"}


@settings(max_examples=60)
@given(st.text(context_letters, max_size=30) | st.text(max_size=12), st.integers(0, 10**6))
def test_a_text_never_becomes_empty(augment_of, text, index):
    free = len(Passage.of_text(text).free)
    for name, augment in augment_of.items():
        new = augment(TextItem(text), CHANCE, 0, index).text
        assert bool(Passage.of_text(new).free) == bool(free), name
        if not free:
            assert new == text, name


def test_the_word_that_stays_is_any():
    augment = Delete(fraction=1.0).build()
    left = [augment(TextItem("one, two three."), CHANCE, 0, i).text for i in range(300)]
    counts = {text: len(list(group)) for text, group in groupby(sorted(left))}
    assert set(counts) == {"one,.", ", two.", ", three."} and min(counts.values()) > 70
