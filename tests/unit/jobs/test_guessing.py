"""Guesses are those of somebody who saw the labels and reads nothing."""

from types import SimpleNamespace

import pytest

from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem

MOST_FREQUENT = "the most frequent label of the training data"


def guess(task, train, dev):
    how, guesses = task.baseline(train, dev)
    return SimpleNamespace(how=how, measured=task.measure(dev, guesses))


def test_guesses():
    items = [TextItem("a", "x"), TextItem("b", "y"), TextItem("c", "y")]
    task = Classify(labels=("x", "y"))
    found = guess(task, items, [TextItem("d", "x"), TextItem("e", "y")])
    assert (
        found.how == f"always predicting 'y', {MOST_FREQUENT}"
        and found.measured.values["accuracy"] == 0.5
    )
    assert found.measured.values["log_loss"] == pytest.approx(0.752, abs=1e-3)  # shares 1/3, 2/3
    several = Classify(labels=("x", "y", "z"), problem="several")
    items = [TextItem("a", ("x", "y")), TextItem("b", ("y",)), TextItem("c", ("z",))]
    found = guess(several, items, [TextItem("d", ("y",))])
    assert found.how == "always predicting 'y'" and found.measured.value == 1.0
    number = Classify(labels=("n",), problem="number")
    items = [TextItem("a", 1.0), TextItem("b", 4.0)]
    found = guess(number, items, [TextItem("c", 2.0), TextItem("d", 3.0)])
    assert found.how == "always predicting the mean (2.5)"
    assert found.measured.values["mean_absolute_error"] == 0.5
    assert found.measured.value == 0.0


def test_words_are_guessed_by_their_most_frequent_tag():
    sentences = [("Anna O", "went O"), ("Anna B-PER", "stays O"), ("Anna B-PER", "went O")]
    items = [
        WordsItem.of_words(*zip(*(pair.split() for pair in each), strict=True))
        for each in sentences
    ]
    task = Tag(labels=("O", "B-PER", "I-PER"))
    dev = [WordsItem.of_words(["Anna", "met", "Carl"], ["B-PER", "O", "B-PER"])]
    found = guess(task, items, dev)
    assert found.measured.values["recall"] == 0.5 and found.measured.values["precision"] == 1.0


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_no_answer_is_right_where_there_is_none(threshold):
    context = "Anna is here"
    dev = [QuestionItem("who", context, (AnswerSpan("Anna", 0),))] * 3
    dev.append(QuestionItem("where", context, impossible=True))
    found = guess(Answer(threshold=threshold), [], dev)
    assert found.how == "never giving an answer" and found.measured.value == 0.25


@pytest.mark.parametrize(
    ("higher", "better"), [(True, [False, False, True]), (False, [True, False, False])]
)
def test_better_in_the_direction_of_the_value(higher, better):
    def measured(value):
        return Measured({"m": value}, "m", higher, 9)

    assert [measured(v).better_than(measured(0.5)) for v in (0.4, 0.5, 0.6)] == better
