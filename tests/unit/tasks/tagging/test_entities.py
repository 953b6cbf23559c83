"""Entities as conlleval reads them, and their counts."""

import numpy as np
import pytest

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.tasks.tagging.entities import (
    EntityScores,
    entities_of,
    entity_counts,
    macro_scores,
    micro_scores,
    precision_recall_f1,
    scores_by_type,
)
from clozeworks.tasks.tagging.schemes import BIO, BIOES, PLAIN
from clozeworks.tasks.tagging.tags import EntitySpan, Spelling


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


GOLD = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
PREDICTED = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]


def counted(gold, predicted):
    return entity_counts([found(line) for line in gold], [found(line) for line in predicted])


def test_counts_stand_by_sentence_and_type():
    counts = counted(GOLD, PREDICTED)
    assert counts.types == ("MISC", "PER")
    assert counts.table.tolist() == [[[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [1, 1, 1]]]


def test_scores():
    counts = counted(GOLD, PREDICTED)
    assert micro_scores(counts) == EntityScores(0.5, 0.5, 0.5, 2)
    assert macro_scores(counts) == EntityScores(0.5, 0.5, 0.5, 2)
    assert scores_by_type(counts) == {
        "MISC": EntityScores(0.0, 0.0, 0.0, 1),
        "PER": EntityScores(1.0, 1.0, 1.0, 1),
    }


def test_micro_and_macro_differ():
    gold = ["B-MISC I-MISC B-MISC O O", "B-PER I-PER O"]
    predicted = ["B-MISC I-MISC B-MISC I-MISC O", "B-PER I-PER O"]
    counts = counted(gold, predicted)
    assert micro_scores(counts).f1 == pytest.approx(2 / 3)
    assert macro_scores(counts).f1 == pytest.approx(0.75)


def test_precision_and_recall_are_not_mixed_up():
    counts = counted(["B-A B-A B-A O"], ["B-A O O B-A"])
    assert micro_scores(counts) == EntityScores(1 / 2, 1 / 3, 2 / 5, 3)


def test_the_same_words_in_another_sentence_are_not_right():
    assert micro_scores(counted(["B-A", "O"], ["O", "B-A"])).f1 == 0


def test_nothing_to_divide_by():
    nothing = EntityScores(0.0, 0.0, 0.0, 0)
    assert micro_scores(counted([], [])) == macro_scores(counted(["O"], ["O"])) == nothing
    assert scores_by_type(counted(["O"], ["O"])) == {}
    assert micro_scores(counted(["O"], ["B-A"])) == nothing
    assert micro_scores(counted(["B-A"], ["O"])) == EntityScores(0.0, 0.0, 0.0, 1)


def test_many_draws_at_once():
    table = counted(GOLD, PREDICTED).table
    draws = np.array([[0, 0], [0, 1], [1, 1]])
    rates = precision_recall_f1(table[draws].sum(axis=(1, 2)))
    assert rates[:, 2].tolist() == [0.0, 0.5, 1.0]


def test_other_sentences():
    with pytest.raises(InputError) as caught:
        entity_counts([[EntitySpan("A", 0, 1)]], [])
    assert str(caught.value) == (
        "there are gold entities of 1 sentences and predicted ones of 0; they must be the same "
        "sentences; give an empty list where nothing was found."
    )
