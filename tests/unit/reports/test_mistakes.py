"""Mistakes are found, sorted by kind, and shown where they stand."""

import pytest

from clozeworks.reports.excerpts import excerpt
from clozeworks.tasks.answer import Answer, Answered
from clozeworks.tasks.classify import Classified, Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.results.details import worst_mistakes
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tag import Tag, Tagged, entity_errors
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.tagging.tags import EntitySpan


def mistakes(task, items, answers, **options):
    return worst_mistakes(task.mistakes(items, answers), **options)


YES_NO = Classify(labels=("no", "yes"))


def shown(text):
    """A marked text without what is left out."""
    parts = []
    for piece in excerpt(text):
        parts.append(f"[{piece.text}|{' '.join(piece.kinds)}]" if piece.kinds else piece.text)
        parts += [f"<{mark.kind} {mark.name}>" for mark in piece.names]
    return "".join(parts)


def said(label, score):
    other = "no" if label == "yes" else "yes"
    return Classified(label, score, {label: score, other: 1 - score})


def test_the_surest_come_first_and_right_ones_not_at_all():
    items = [TextItem(f"text {n}", "yes", f"row {n}") for n in range(4)]
    found = mistakes(
        YES_NO, items, [said("no", 0.6), said("yes", 0.99), said("no", 0.9), said("no", 0.7)]
    )
    assert [each.source_location for each in found.worst] == ["row 2", "row 3", "row 0"]
    assert (found.total, found.kinds) == (3, {"no instead of yes": 3})
    worst = found.worst[0]
    assert (worst.gold, worst.predicted, worst.weight) == ("yes", "no", 0.9)


def test_kinds_take_turns_where_not_all_are_shown():
    labels = ["yes"] * 9 + ["no"]
    items = [TextItem("text", label, f"row {n}") for n, label in enumerate(labels)]
    answers = [said("no", 0.9 - n / 100) for n in range(9)] + [said("yes", 0.55)]
    found = mistakes(YES_NO, items, answers, limit=2)
    assert [each.source_location for each in found.worst] == ["row 0", "row 9"]
    assert found.total == 10


def test_several_labels():
    task = Classify(labels=("a", "b", "c"), problem="several")
    cases = [
        (("a",), ("a", "b"), "labels too many"),
        (("a", "b"), ("a",), "labels missing"),
        (("a",), ("b",), "other labels"),
        ((), ("b",), "labels too many"),
    ]
    shares = {"a": 0.9, "b": 0.8, "c": 0.1}
    items = [TextItem("t", gold) for gold, _, _ in cases] + [TextItem("t", ("b", "a"))]
    answers = [Classified(label, 0.8, shares) for _, label, _ in cases]
    answers.append(Classified(("a", "b"), 0.8, shares))  # the same in another order
    found = mistakes(task, items, answers)
    assert found.total == 4
    by_gold = {(each.gold, each.predicted): each.kind for each in found.worst}
    for gold, label, kind in cases:
        assert by_gold[", ".join(gold) or "none", ", ".join(label)] == kind


def test_numbers_by_how_far_off_they_are():
    task = Compare(labels=("n",), problem="number")
    items = [PairItem("one", "two", 2.0, f"row {n}") for n in range(3)]
    answers = [Classified(value, None, {}) for value in (2.5, -1.0, 2.0)]
    found = mistakes(task, items, answers)
    assert [(each.kind, each.weight) for each in found.worst] == [
        ("too low", 3.0),
        ("too high", 0.5),
    ]
    assert found.worst[0].shown_weight == "off by 3"
    assert [text.text for text in found.worst[0].texts] == ["one", "two"]


@pytest.mark.parametrize(
    ("right", "given", "expected"),
    [
        ([("PER", 0, 2)], [("PER", 0, 2)], []),
        ([("PER", 0, 2)], [], ["missed"]),
        ([], [("PER", 0, 2)], ["invented"]),
        ([("PER", 0, 2)], [("LOC", 0, 2)], ["wrong type"]),
        ([("PER", 0, 2)], [("PER", 1, 2)], ["wrong border"]),
        ([("PER", 0, 2)], [("LOC", 1, 3)], ["wrong type and border"]),
        ([("PER", 0, 2)], [("PER", 2, 4)], ["missed", "invented"]),  # side by side is not together
        # One long find over two: it stands for one of them, the other is missed.
        ([("PER", 0, 2), ("PER", 2, 4)], [("PER", 0, 4)], ["wrong border", "missed"]),
        # The same words count before the same type somewhere near.
        ([("PER", 0, 2), ("LOC", 1, 3)], [("LOC", 0, 2)], ["wrong type", "missed"]),
    ],
)
def test_errors_of_entities(right, given, expected):
    found = entity_errors(
        [EntitySpan(*each) for each in right], [EntitySpan(*each) for each in given]
    )
    assert [kind for kind, _, _ in found] == expected


def test_entities_are_marked_in_their_text():
    task = Tag(labels=("O", "B-PER", "I-PER"))
    item = WordsItem.of_words(["so", "Anna", "B."], ["O", "B-PER", "I-PER"], "line 1")
    answer = Tagged(item.text, item.spans, ("O", "B-PER", "O"), (0.5, 0.8, 0.6), ())
    (found,) = mistakes(task, [item], [answer]).worst
    assert (found.kind, found.gold, found.predicted) == (
        "wrong border",
        "PER: Anna B.",
        "PER: Anna",
    )
    assert found.weight == pytest.approx(0.7)
    assert shown(found.texts[0]) == ("so [Anna|gold predicted]<predicted PER>[ B.|gold]<gold PER>")


def test_words_with_plain_tags():
    task = Tag(labels=("NOUN", "VERB"), scheme="plain")
    item = WordsItem.of_words(["dogs", "bark"], ["NOUN", "VERB"], "line 1")
    answer = Tagged(item.text, item.spans, ("NOUN", "NOUN"), (0.9, 0.8), ())
    (found,) = mistakes(task, [item], [answer]).worst
    assert (found.kind, found.weight) == ("NOUN instead of VERB", 0.8)
    assert "[bark|predicted]" in shown(found.texts[0])


def test_answers():
    context = "Anna went to New York in May."
    right = QuestionItem("Where?", context, (AnswerSpan("New York", 13),), source_location="line 1")
    none = QuestionItem("Who?", context, impossible=True, source_location="line 2")

    def answered(text):
        begin = context.index(text) if text else None
        return Answered(text, begin, begin + len(text) if text else None, 0.5, ())

    texts = ["New York", "York", "May", ""]
    items, answers = [right] * 4 + [none] * 2, [*map(answered, texts), *map(answered, ("", "May"))]
    found = mistakes(Answer(threshold=0.0), items, answers)
    assert found.kinds == {
        "too much or too little": 1,
        "something else": 1,
        "no answer where there is one": 1,
        "answered where nothing is right": 1,
    }
    part = next(each for each in found.worst if each.predicted == "York")
    assert shown(part.texts[1]) == ("Anna went to [New |gold][York|gold predicted] in May.")
    wrong = next(each for each in found.worst if each.gold == "no answer")
    assert (wrong.predicted, wrong.source_location) == ("May", "line 2")
