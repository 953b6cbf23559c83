"""Entities as conlleval reads them."""

import pytest

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.tasks.tagging.entities import entities_of
from clozeworks.tasks.tagging.schemes import BIO, BIOES, PLAIN
from clozeworks.tasks.tagging.tags import Spelling


def found(sentence, *arguments, **options):
    return entities_of(sentence.split(), *arguments, **options)


@pytest.mark.parametrize(
    ("sentence", "entities"),
    [
        ("O I-PER", [("PER", 1, 2)]),
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("I-PER I-PER", [("PER", 0, 2)]),
        ("E-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("S-PER I-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER I-PER O", [("PER", 0, 2)]),
        ("I-PER S-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-GPE-CITY I-GPE-CITY", [("GPE-CITY", 0, 2)]),
        ("PER_B PER_I LOC_B", [("PER", 0, 2), ("LOC", 2, 3)]),
        ("B-PER L-PER U-PER", [("PER", 0, 2), ("PER", 2, 3)]),
        ("B M E S", [("", 0, 3), ("", 3, 4)]),
        ("O O", []),
        ("", []),
    ],
)
def test_the_way_of_conlleval(sentence, entities):
    assert found(sentence) == entities


def test_strict():
    assert found("I-PER I-PER") == [("PER", 0, 2)]
    assert found("I-PER I-PER", BIO, invalid="drop") == []
    assert found("B-PER I-PER S-LOC", BIOES, invalid="drop") == [("LOC", 2, 3)]


def test_another_way_to_read_what_is_invalid():
    with pytest.raises(UnknownName) as caught:
        found("B-PER", invalid="dropped")
    assert str(caught.value) == (
        "invalid is 'dropped'; known: drop, promote, refuse. Did you mean 'drop'?"
    )


def test_a_spelling_that_is_known_is_not_guessed():
    assert found("B-S", spelling=Spelling("behind")) == [("B", 0, 1)]
    assert found("PER PER", spelling=Spelling("bare")) == [("PER", 0, 2)]
    with pytest.raises(InputError, match="word 1: the tag is 'PER'; it must be O or be written"):
        found("PER PER")


def test_plain_tags_have_none():
    with pytest.raises(SettingError, match="spell no entities"):
        found("NOUN VERB", PLAIN)
