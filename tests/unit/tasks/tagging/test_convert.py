"""From one scheme to another and back."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.tagging.entities import convert, entities_of
from clozeworks.tasks.tagging.schemes import BIO, BIOES, BMES, IO, IOB1, PLAIN, SCHEMES
from clozeworks.tasks.tagging.tags import EntitySpan, Spelling

WITH_ENTITIES = [scheme for scheme in SCHEMES.values() if scheme.begins]


@st.composite
def sentences(draw):
    """Some entities and the length of their sentence."""
    entities, place = [], 0
    for kind, before, words in draw(
        st.lists(st.tuples(st.sampled_from(["A", "B-C"]), st.integers(0, 1), st.integers(1, 4)))
    ):
        entities.append(EntitySpan(kind, place + before, place + before + words))
        place += before + words
    return entities, place + draw(st.integers(0, 2))


@pytest.mark.parametrize(
    ("source", "target"),
    list(product(WITH_ENTITIES, WITH_ENTITIES)),
    ids=lambda scheme: scheme.name,
)
@given(
    sentence=sentences(), order=st.sampled_from(["before", "behind"]), mark=st.sampled_from("-_")
)
@settings(max_examples=25, deadline=None)
def test_there_and_back(source, target, sentence, order, mark):
    entities, length = sentence
    spelling = Spelling(order, mark, source.letters)
    # What IO cannot say is one entity from the start.
    merged = IO in (source, target)
    if merged:
        entities = IO.spans(IO.tags(entities, length, merge=True))
    labels = [spelling.write(tag) for tag in source.tags(entities, length)]
    assert entities_of(labels, source, spelling=spelling, invalid="refuse") == entities
    other = convert(labels, source, target, spelling=spelling)
    there = Spelling(order, mark, target.letters)
    assert entities_of(other, target, spelling=there, invalid="refuse") == entities
    assert convert(other, target, source, spelling=there) == labels


@given(sentence=sentences(), scheme=st.sampled_from(WITH_ENTITIES))
@settings(max_examples=100, deadline=None)
def test_valid_tags_are_read_the_same_in_every_way(sentence, scheme):
    entities, length = sentence
    labels = [Spelling().write(tag) for tag in scheme.tags(entities, length, merge=True)]
    ways = [entities_of(labels, scheme, invalid=way) for way in ("promote", "drop", "refuse")]
    assert ways[0] == ways[1] == ways[2]
    assert scheme is IO or ways[0] == entities


@given(
    labels=st.lists(
        st.sampled_from(["O", *(f"{role}-{kind}" for role in "BIES" for kind in "XY")])
    ),
    scheme=st.sampled_from(WITH_ENTITIES),
)
@settings(max_examples=200, deadline=None)
def test_mended_tags_follow_the_rules(labels, scheme):
    repaired = convert(labels, scheme, scheme, invalid="promote", merge=True)
    assert convert(repaired, scheme, scheme) == repaired
    assert [label == "O" for label in repaired] == [label == "O" for label in labels]


@pytest.mark.parametrize(
    ("labels", "source", "target", "expected"),
    [
        ("B-A I-A I-A O B-A B-B", BIO, BIOES, "B-A I-A E-A O S-A S-B"),
        ("I-A I-A B-A I-B", IOB1, BIO, "B-A I-A B-A B-B"),
        ("B-A L-A U-A", BIOES, BIO, "B-A I-A B-A"),
        ("A_B A_I O", BIO, BMES, "A_B A_E O"),
        ("B M E S", BMES, BIO, "B I I B"),
        ("B-A I-A", BIO, BMES, "B-A E-A"),
        ("PER PER O LOC", IO, BIO, "B-PER I-PER O B-LOC"),
        ("PER PER O LOC", IO, IO, "PER PER O LOC"),
        ("B-A L-A U-A", BIOES, BIOES, "B-A L-A U-A"),  # its own letters stay
    ],
)
def test_examples(labels, source, target, expected):
    assert convert(labels.split(), source, target) == expected.split()


@pytest.mark.parametrize(
    ("labels", "scheme", "promoted", "dropped"),
    [
        ("O I-A I-A", BIO, "O B-A I-A", "O O O"),
        ("B-A I-B", BIO, "B-A B-B", "B-A O"),
        ("B-A I-A O", BIOES, "B-A E-A O", "O O O"),
        ("E-A E-A", BIOES, "S-A S-A", "O O"),
    ],
)
def test_mending(labels, scheme, promoted, dropped):
    tags = labels.split()
    assert convert(tags, scheme, scheme, invalid="promote") == promoted.split()
    assert convert(tags, scheme, scheme, invalid="drop") == dropped.split()


@pytest.mark.parametrize(
    ("labels", "scheme", "message"),
    [
        ("O O I-A", BIO, "word 3: I-A stands after O; BIO"),
        ("I-A", BIO, "word 1: the sentence begins with I-A; BIO"),
        ("S-A B-A", BIOES, "word 2: the sentence ends with B-A; BIOES"),
    ],
)
def test_refusals(labels, scheme, message):
    with pytest.raises(InputError) as caught:
        convert(labels.split(), scheme, BIO)
    assert str(caught.value) == (
        f"{message} does not allow it; correct the tag, choose another scheme, or read it as "
        "conlleval does with invalid='promote'."
    )


def test_io_loses_nothing_unasked():
    with pytest.raises(InputError, match="IO cannot tell them apart"):
        convert(["B-A", "B-A"], BIO, IO)
    assert convert(["B-A", "B-A"], BIO, IO, merge=True) == ["I-A", "I-A"]


def test_plain_tags_are_not_converted():
    with pytest.raises(SettingError, match="spell no entities"):
        convert(["B-A"], BIO, PLAIN)
    with pytest.raises(SettingError, match="spell no entities"):
        convert(["NOUN"], PLAIN, BIO)
