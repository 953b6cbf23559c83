"""The split keeps everything once, keeps shares, and is a function of seed and items."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tagging.items import WordsItem


def texts(*labels):
    return [TextItem(f"text {number}", label) for number, label in enumerate(labels)]


def counts(items):
    return Counter(item.label for item in items)


def checked(items, share, seed=0):
    """Splits, and insists that each item is in one part, in the order it had."""
    train, dev = split(items, share, seed)
    assert sorted([*train, *dev], key=items.index) == items
    for part in (train, dev):
        assert part == sorted(part, key=items.index)
        assert part
    return train, dev


def test_shares_are_kept():
    items = texts(*("a" * 800 + "b" * 150 + "c" * 50))
    train, dev = checked(items, 0.1)
    assert counts(dev) == {"a": 80, "b": 15, "c": 5}
    assert counts(train) == {"a": 720, "b": 135, "c": 45}
    # A plain random choice would hardly ever hit these numbers for every seed.
    assert all(counts(split(items, 0.1, seed)[1]) == counts(dev) for seed in range(5))


def test_what_rounding_leaves_goes_to_those_that_lost_most():
    train, dev = checked(texts(*("a" * 17 + "b" * 14 + "c" * 19)), 0.1)
    assert (len(train), len(dev), counts(dev)) == (45, 5, {"a": 2, "b": 1, "c": 2})


def test_the_choice_is_random_and_belongs_to_the_seed():
    items = texts(*"ab" * 50)
    assert split(items, 0.2, 3) == split(list(items), 0.2, 3)
    assert split(items, 0.2, 3) != split(items, 0.2, 4)
    taken = Counter(item.text for seed in range(200) for item in split(items, 0.2, seed)[1])
    assert set(taken) == {item.text for item in items}
    assert min(taken.values()) > 15 and max(taken.values()) < 70  # each 40 times on average


def test_other_labels_do_not_change_the_choice():
    ours = texts(*"a" * 20)
    others = [TextItem(f"other {number}", "b") for number in range(20)]
    alone = split([*ours, *texts(*"c" * 20)], 0.25, 1)[1]
    both = split([*others, *ours], 0.25, 1)[1]
    assert [i for i in alone if i.label == "a"] == [i for i in both if i.label == "a"]


@given(
    labels=st.lists(st.sampled_from("abcdef"), min_size=2, max_size=60),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**40),
)
def test_a_label_with_two_items_is_in_both_parts(labels, share, seed):
    total = Counter(labels)
    items = texts(*labels)
    if max(total.values()) == 1:
        with pytest.raises(InputError):
            split(items, share, seed)
        return
    train, dev = checked(items, share, seed)
    for label, count in total.items():
        if count == 1:
            assert counts(dev)[label] == 0
        else:
            assert counts(train)[label] >= 1 and counts(dev)[label] >= 1


def test_several_labels_and_tags_by_the_rarest():
    items = [TextItem(f"t{n}", ("a", "b") if n % 10 == 0 else ("a",)) for n in range(100)]
    for seed in range(5):
        _, dev = checked(items, 0.2, seed)
        assert Counter("b" in item.label for item in dev) == {False: 18, True: 2}
    sentences = [
        WordsItem.of_words([f"w{n}", "x"], ["O", "B-LOC" if n % 10 == 0 else "O"])
        for n in range(100)
    ]
    for seed in range(5):
        _, dev = checked(sentences, 0.2, seed)
        assert sum("B-LOC" in item.tags for item in dev) == 2


def test_numbers_and_nothing():
    items = [PairItem(f"a{n}", "b", n / 7) for n in range(50)]
    train, dev = checked(items, 0.1)
    assert (len(train), len(dev)) == (45, 5)
    assert len(checked(texts(*[None] * 10), 0.01)[1]) == 1
    assert len(checked(texts(*[None] * 10), 0.99)[1]) == 9
    assert len(checked([TextItem(f"t{n}", ()) for n in range(10)], 0.3)[1]) == 3


@given(
    contexts=st.lists(st.integers(0, 9), min_size=2, max_size=60).filter(lambda c: len(set(c)) > 1),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_no_context_stands_in_both_parts(contexts, share, seed):
    items = [
        QuestionItem(f"q{n}", f"context {c}", (AnswerSpan("c", 0),)) for n, c in enumerate(contexts)
    ]
    train, dev = checked(items, share, seed)
    assert not {item.context for item in train} & {item.context for item in dev}


def test_the_share_of_questions():
    items = [QuestionItem(f"q{n}", f"context {n % 100}") for n in range(1000)]
    assert len(checked(items, 0.1)[1]) == 100
    assert split(items, 0.1, 1) != split(items, 0.1, 2)


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, float("nan")])
def test_shares_that_are_none(share):
    with pytest.raises(SettingError) as caught:
        split(texts("a", "a"), share, 0)
    assert str(caught.value) == (
        f"the fraction of development data is {share}; it must be above 0 and below 1."
    )


def test_an_empty_part_is_refused():
    end = (
        "there must be two items of a label, or two contexts; add some, or name a development file."
    )
    for items, said in (
        ([], "0 items"),
        (texts("a"), "1 item"),
        (texts("a", "b"), "2 items"),
        ([QuestionItem("q", "c"), QuestionItem("p", "c")], "2 items"),
    ):
        with pytest.raises(InputError) as caught:
            split(items, 0.5, 0)
        assert str(caught.value) == f"no development data can be taken from {said}; {end}"


def test_a_text_stands_in_one_part_only():
    items = [TextItem(f"text {number % 40} ", "ab"[number % 2]) for number in range(100)]
    for seed in range(5):
        train, dev = split(items, 0.2, seed)
        assert not {item.text for item in train} & {item.text for item in dev}
        assert len(train) + len(dev) == 100 and 16 <= len(dev) <= 24
        assert {item.label for item in dev} == {"a", "b"}


def test_a_label_that_only_a_repeated_text_has_stays_in_training():
    items = [TextItem(f"text {number}", "ab"[number % 2]) for number in range(10)]
    items += [TextItem(f"text {number}", f"rare {number}") for number in range(10)]
    with pytest.raises(InputError, match="no development data can be taken"):
        split([TextItem("one", "a"), TextItem("two", "b")], 0.2, 0)
    for seed in range(5):
        train, dev = split(items, 0.3, seed)
        assert {item.label for item in dev} <= {item.label for item in train}


def test_texts_that_are_too_few_are_split_all_the_same():
    items = [TextItem(f"text {number % 2}", "ab"[number % 2]) for number in range(20)]
    train, dev = split(items, 0.1, 0)
    assert (len(train), len(dev)) == (18, 2)
    items = [TextItem(f"text {number % 4}", "ab"[number % 2]) for number in range(40)]
    train, dev = split(items, 0.1, 0)  # two texts, one of each label, would be half of all
    assert (len(train), len(dev)) == (36, 4)
