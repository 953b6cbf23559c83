"""Every item is in one part, no text in two; shares and labels are kept; the seed decides."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.data.labelled.splitting import SplitFractions, counts_of, parted
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tagging.items import WordsItem


def texts(*pairs):
    return [TextItem(text, label, f"row {n}") for n, (text, label) in enumerate(pairs)]


def checked(items, shares, seed=0, titles=None):
    """Parts items, and insists that each is in one part, in the order it had."""
    found = parted(items, shares, seed, titles)
    order = {item.source_location: number for number, item in enumerate(items)}
    for some in found.parts.values():
        assert some
        assert [order[item.source_location] for item in some] == sorted(
            order[item.source_location] for item in some
        )
    places = Counter(item.source_location for some in found.parts.values() for item in some)
    assert places == Counter(order.keys())
    return found


def sizes(found):
    return {name: len(items) for name, items in found.parts.items()}


pairs = st.tuples(st.sampled_from(["", " "]), st.integers(0, 30), st.sampled_from("abcd"))


@given(
    rows=st.lists(pairs, min_size=40, max_size=120),
    dev=st.floats(0.05, 0.4),
    test=st.floats(0.05, 0.4),
    seed=st.integers(0, 2**40),
)
def test_no_text_is_in_two_parts(rows, dev, test, seed):
    items = texts(*((f"{space}text {text}", label) for space, text, label in rows))
    try:
        found = checked(items, SplitFractions(dev, test), seed)
    except InputError as error:
        assert str(error).startswith("nothing is left for the part ")
        return
    seen = [{item.text.strip() for item in some} for some in found.parts.values()]
    assert sum(map(len, seen)) == len(set.union(*seen))
    assert list(found.parts) == ["train", "dev", "test"]
    known = set(counts_of(found.parts["train"]))
    assert all(set(counts_of(some)) <= known for some in found.parts.values())
    assert found == parted(list(items), SplitFractions(dev, test), seed)


@given(
    labels=st.lists(st.sampled_from("ab"), min_size=100, max_size=300),
    dev=st.floats(0.1, 0.4),
    test=st.floats(0.1, 0.4),
    seed=st.integers(0, 99),
)
def test_shares_and_labels(labels, dev, test, seed):
    items = texts(*((f"text {number}", label) for number, label in enumerate(labels)))
    found = checked(items, SplitFractions(dev, test), seed)
    for name, share in (("dev", dev), ("test", test)):
        for label, total in Counter(labels).items():
            if total > 20:
                assert abs(counts_of(found.parts[name])[label] - share * total) <= 2


def test_each_label_keeps_its_share_whatever_the_seed():
    items = texts(*((f"text {n}", "rare" if n % 10 == 0 else "usual") for n in range(1000)))
    for seed in range(5):
        found = checked(items, SplitFractions(0.1, 0.2), seed)
        counts = {name: counts_of(some) for name, some in found.parts.items()}
        assert counts == {
            "train": {"usual": 630, "rare": 70},
            "dev": {"usual": 90, "rare": 10},
            "test": {"usual": 180, "rare": 20},
        }
    assert parted(items, SplitFractions(), 1) != parted(items, SplitFractions(), 2)


def test_a_part_that_is_not_asked_for_is_not_there():
    items = texts(*((f"text {n}", "ab"[n % 2]) for n in range(100)))
    assert sizes(checked(items, SplitFractions(0.1, 0))) == {"train": 90, "dev": 10}
    assert sizes(checked(items, SplitFractions(0, 0.2))) == {"train": 80, "test": 20}


def test_pairs_and_sentences_stay_together():
    both = [PairItem("one", f"other {n // 3}", "ab"[n % 2], f"row {n}") for n in range(90)]
    found = checked(both, SplitFractions(0.2, 0.2))
    seconds = [{item.second for item in some} for some in found.parts.values()]
    assert sum(map(len, seconds)) == 30
    words = [WordsItem.of_words([f"w{n // 2}"], ["O"], f"line {n}") for n in range(60)]
    found = checked(words, SplitFractions(0.2, 0.2))
    assert sum(len({item.text for item in some}) for some in found.parts.values()) == 30


def test_a_label_that_training_would_lack_is_trained_on():
    # The text with both labels counts as its first, so chance alone may put `rare` anywhere.
    rows = [(f"text {n}", "usual") for n in range(10)]
    items = texts(*rows, ("text 3", "rare"))
    for seed in range(20):
        found = checked(items, SplitFractions(0.3, 0.3), seed)
        assert "rare" in counts_of(found.parts["train"])


def questions(contexts):
    return [
        QuestionItem(f"q{n}", f"context {c}", source_location=f"q {n}")
        for n, c in enumerate(contexts)
    ]


@given(contexts=st.lists(st.integers(0, 30), min_size=30), seed=st.integers(0, 99))
def test_questions_about_a_context_are_in_one_part(contexts, seed):
    if len(set(contexts)) < 3:
        return
    try:
        found = checked(questions(contexts), SplitFractions(0.2, 0.2), seed)
    except InputError:
        return
    assert found.together == "context"
    seen = [{item.context for item in some} for some in found.parts.values()]
    assert sum(map(len, seen)) == len(set(contexts))


def test_questions_about_an_article_are_in_one_part():
    items = questions([number // 2 for number in range(400)])
    titles = {item.source_location: f"title {number // 10}" for number, item in enumerate(items)}
    found = checked(items, SplitFractions(), 0, titles)
    assert found.together == "article"
    assert sizes(found) == {"train": 320, "dev": 40, "test": 40}
    seen = [{titles[item.source_location] for item in some} for some in found.parts.values()]
    assert sum(map(len, seen)) == 40
    # A context that two articles share makes them one.
    shared = [*items, QuestionItem("q", "context 0", source_location="q last")]
    found = checked(shared, SplitFractions(), 0, titles | {"q last": "title 39"})
    for some in found.parts.values():
        held = {(titles | {"q last": "title 39"})[item.source_location] for item in some}
        assert len(held & {"title 0", "title 39"}) in (0, 2)
    # Too few articles for such small parts, or one that is not known.
    few = {item.source_location: f"title {number // 50}" for number, item in enumerate(items)}
    assert checked(items, SplitFractions(), 0, few).together == "context"
    assert checked(items, SplitFractions(0.2, 0), 0, few).together == "article"
    assert checked(items, SplitFractions(0.2, 0), 0, {**few, "q 0": "x"}).together == "article"
    del few["q 3"]
    assert checked(items, SplitFractions(0.2, 0), 0, few).together == "context"


@pytest.mark.parametrize(
    ("dev", "test", "sentence"),
    [
        (1, 0.1, "--dev is 1; it must be at least 0 and below 1."),
        (0.1, -0.1, "--test is -0.1; it must be at least 0 and below 1."),
        (float("nan"), 0, "--dev is nan; it must be at least 0 and below 1."),
        (0, 0, "--dev is 0; --test is 0, and one must be above 0; {}"),
        (0.5, 0.5, "--dev is 0.5; --test is 0.5, and some must be left; {}"),
    ],
)
def test_shares_that_are_none(dev, test, sentence):
    with pytest.raises(SettingError) as caught:
        SplitFractions(dev, test)
    assert str(caught.value) == sentence.format("write for example --dev 0.1 --test 0.1.")


def test_too_few():
    for items, name in (
        (texts(("a", "x"), ("b", "y")), "test"),
        (texts(("a", "x"), ("b", "x")), "dev"),
        (texts(("a", "x"), ("a ", "x"), (" a", "x")), "test"),
    ):
        with pytest.raises(InputError) as caught:
            parted(items, SplitFractions(), 0)
        assert str(caught.value) == (
            f"nothing is left for the part {name!r}: there are {len(items)} items; for each part "
            "there must be another text with the same label, or another context; add some."
        )
