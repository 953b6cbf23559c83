"""Accuracy counts words, F1 whole entities; sentences are what is resampled."""

import numpy as np
import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.labels import LabelScores
from clozeworks.tasks.metrics.tags import EntityCounts, entity_counts, entity_f1, token_accuracy
from clozeworks.tasks.tagging.entities import entities_of
from clozeworks.tasks.tagging.tags import EntitySpan


def test_words_and_whole_sentences_are_counted():
    found = token_accuracy(
        [["DET", "NOUN", "VERB"], ["NOUN", "VERB"], ["NOUN"], []],
        [["DET", "VERB", "VERB"], ["NOUN", "NOUN"], ["NOUN"], []],
    )
    assert found.values == pytest.approx({"token_accuracy": 4 / 6, "sentence_accuracy": 2 / 4})
    assert (found.primary, found.count) == ("token_accuracy", 4)


def test_sentences_are_resampled(slow_interval):
    rng = np.random.default_rng(0)
    gold = [["A"] * size for size in rng.integers(1, 9, 60)]
    said = [["A"] * len(tags) if rng.random() < 0.6 else ["B"] * len(tags) for tags in gold]
    found = token_accuracy(gold, said, intervals=True)

    def accuracy(places):
        right = sum(len(gold[place]) for place in places if said[place] == gold[place])
        return right / sum(len(gold[place]) for place in places)

    slow = slow_interval(accuracy, 60)
    assert found.intervals["token_accuracy"] == pytest.approx(slow)


def test_each_word_has_a_tag():
    with pytest.raises(InputError) as error:
        token_accuracy([["A"], ["A", "B"]], [["A"], ["A"]])
    assert str(error.value) == (
        "predicted, sentence 2, has 1 tags and gold 2; each word needs one of both; give O to "
        "words the model did not see."
    )


def test_there_are_words():
    with pytest.raises(InputError) as error:
        token_accuracy([[], []], [[], []])
    assert str(error.value) == (
        "the sentences have no words; there is nothing to measure; give some."
    )


GOLD = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
PREDICTED = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]


def counted(gold, predicted):
    both = ([entities_of(line.split()) for line in lines] for lines in (gold, predicted))
    return entity_counts(*both)


def scores(gold, predicted):
    values = entity_f1(counted(gold, predicted)).values
    return values["precision"], values["recall"], values["f1"]


def test_counts_stand_by_sentence_and_type():
    counts = counted(GOLD, PREDICTED)
    assert counts.types == ("MISC", "PER")
    assert counts.table.tolist() == [[[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [1, 1, 1]]]
    assert counts.tallies.by_label(counts.types) == (
        LabelScores("MISC", 0.0, 0.0, 0.0, 1),
        LabelScores("PER", 1.0, 1.0, 1.0, 1),
    )


def test_f1_of_entities():
    found = entity_f1(counted(GOLD, PREDICTED))
    assert found.values == {
        **{"precision": 0.5, "recall": 0.5, "f1": 0.5, "macro_f1": 0.5},
        **{"f1 MISC": 0.0, "f1 PER": 1.0},
    }
    assert (found.primary, found.count, found.notes, found.intervals) == ("f1", 2, (), {})


def test_micro_and_macro_differ():
    gold = ["B-MISC I-MISC B-MISC O O", "B-PER I-PER O"]
    predicted = ["B-MISC I-MISC B-MISC I-MISC O", "B-PER I-PER O"]
    values = entity_f1(counted(gold, predicted)).values
    assert values["f1"] == pytest.approx(2 / 3)
    assert values["macro_f1"] == pytest.approx(0.75)


def test_precision_and_recall_are_not_mixed_up():
    assert scores(["B-A B-A B-A O"], ["B-A O O B-A"]) == pytest.approx((1 / 2, 1 / 3, 2 / 5))


def test_the_same_words_in_another_sentence_are_not_right():
    assert scores(["B-A", "O"], ["O", "B-A"]) == (0, 0, 0)


def test_f1_is_resampled_by_sentence(slow_interval):
    table = np.random.default_rng(0).integers(0, 4, (80, 1, 1)) + np.arange(3)
    found = entity_f1(EntityCounts(("A",), table), intervals=True)

    def f1(drawn):
        right, given, due = table[drawn, 0].sum(axis=0)
        return 2 * right / (given + due)

    assert found.intervals["f1"] == pytest.approx(slow_interval(f1, 80))
    low, high = found.intervals["f1"]
    assert low < found.value < high


@pytest.mark.parametrize(
    ("gold", "predicted", "notes"),
    [
        ("B-A", "O", ("nothing was found; precision and F1 are 0.",)),
        ("O", "B-A", ("there was nothing to find; recall and F1 are 0.",)),
        (
            "O",
            "O",
            (
                "nothing was found; precision and F1 are 0.",
                "there was nothing to find; recall and F1 are 0.",
            ),
        ),
    ],
)
def test_nothing_found_is_zero_with_a_note(gold, predicted, notes):
    found = entity_f1(counted([gold], [predicted]), intervals=True)
    assert set(found.values.values()) == {0.0}
    assert set(found.intervals.values()) == {(0.0, 0.0)}
    assert found.notes == notes


def test_no_sentences_are_refused():
    with pytest.raises(InputError) as error:
        entity_f1(counted([], []))
    assert str(error.value) == "there are no items to measure; give at least one."


def test_other_sentences():
    with pytest.raises(InputError) as caught:
        entity_counts([[EntitySpan("A", 0, 1)]], [])
    assert str(caught.value) == (
        "there are gold entities of 1 sentences and predicted ones of 0; they must be the same "
        "sentences; give an empty list where nothing was found."
    )
