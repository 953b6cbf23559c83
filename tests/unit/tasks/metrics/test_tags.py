"""Accuracy over words counts words; sentences are what is resampled."""

import numpy as np
import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import intervals_of
from clozeworks.tasks.metrics.tags import token_accuracy


def test_words_and_whole_sentences_are_counted():
    found = token_accuracy(
        [["DET", "NOUN", "VERB"], ["NOUN", "VERB"], ["NOUN"], []],
        [["DET", "VERB", "VERB"], ["NOUN", "NOUN"], ["NOUN"], []],
    )
    assert found.values == pytest.approx({"token_accuracy": 4 / 6, "sentence_accuracy": 2 / 4})
    assert (found.primary, found.count) == ("token_accuracy", 4)


def test_sentences_are_resampled():
    rng = np.random.default_rng(0)
    gold = [["A"] * size for size in rng.integers(1, 9, 60)]
    said = [["A"] * len(tags) if rng.random() < 0.6 else ["B"] * len(tags) for tags in gold]
    found = token_accuracy(gold, said, intervals=True)

    def accuracy(places):
        right = sum(len(gold[place]) for place in places if said[place] == gold[place])
        return right / sum(len(gold[place]) for place in places)

    slow = intervals_of(accuracy, "a", 60)["a"]
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
