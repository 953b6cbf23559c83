"""Tables and charts of answers say what the answers say."""

import re
from pathlib import Path

import pytest

from clozeworks.data.labelled.items import AnswerSpan, QuestionItem, TextItem, WordsItem
from clozeworks.jobs.finetune.baseline import GuessingBaseline
from clozeworks.jobs.finetune.run import RunResult
from clozeworks.reports.finetune_charts import curves
from clozeworks.reports.task_details import details, mistakes_section
from clozeworks.tasks.answer import Answer, Answered, Candidate
from clozeworks.tasks.classify import Classified, Classify
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.tag import Tag, Tagged


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def shown(task, items, answers):
    return details(task, items, answers, task.measure(items, answers))


def classified(gold, said):
    labels = ("<a>", "b", "c")
    items = [TextItem("t", label) for label in gold]
    answers = []
    for label in said:
        shares = {each: 0.8 if each == label else 0.1 for each in labels}
        answers.append(Classified(label, 0.8, shares))
    return Classify(labels=labels), items, answers


def test_one_label():
    text = shown(*classified(["<a>", "<a>", "<a>", "b", "c"], ["<a>", "b", "b", "b", "c"]))
    assert "&lt;a&gt; → b: 2 (66.7%)" in text and "b → &lt;a&gt;: 0 (0.0%)" in text
    assert "&lt;a&gt; 1.000 0.333 0.500 3" in words(text)
    assert "b 0.333 1.000 0.500 1" in words(text)
    assert "5 answers, 80.0% sure, 60.0% right" in text
    assert "0.73 to 0.80 5 80.0% 60.0%" in words(text)
    assert "<a>" not in text


def test_many_labels_have_no_square():
    labels = tuple(f"l{number}" for number in range(31))
    answer = Classified("l1", 1.0, {label: float(label == "l1") for label in labels})
    text = shown(Classify(labels=labels), [TextItem("t", "l1")], [answer])
    assert "What was taken for what" not in text and "as often right" in text


def test_several_labels():
    task = Classify(labels=("a", "b"), problem="several")
    items = [TextItem("t", ("a", "b")), TextItem("t", ("a",))]
    answers = [Classified(("a",), 0.9, {"a": 0.9, "b": 0.2})] * 2
    text = words(shown(task, items, answers))
    assert "a 1.000 1.000 1.000 2" in text and "b 0.000 0.000 0.000 1" in text


def test_types_of_entities_and_plain_tags():
    item = WordsItem.of_words(["Anna", "saw", "Rome"], ["B-PER", "O", "B-LOC"])
    task = Tag(labels=("O", "B-LOC", "B-PER"))
    answer = Tagged(item.text, item.spans, ("B-PER", "O", "B-PER"), (1.0,) * 3, ())
    text = words(shown(task, [item], [answer]))
    assert "LOC 0.000 0.000 0.000 1" in text and "PER 0.500 1.000 0.667 1" in text
    item = WordsItem.of_words(["dogs", "bark"], ["N", "V"])
    answer = Tagged(item.text, item.spans, ("N", "N"), (1.0, 1.0), ())
    text = shown(Tag(labels=("N", "V"), scheme="plain"), [item], [answer])
    assert "V → N: 1 (100.0%)" in text and "N 0.500 1.000 0.667 1" in words(text)


def test_questions_with_and_without_answers():
    context = "Anna is in Rome"
    items = [
        QuestionItem("where", context, (AnswerSpan("Rome", 11),)),
        QuestionItem("when", context, impossible=True),
    ]
    best = (Candidate("Rome", 11, 15, 0.4, 1.0), Candidate("", 0, 0, 0.6, 3.0))
    other = (Candidate("Anna", 0, 4, 0.1, 1.0), Candidate("", 0, 0, 0.9, 9.0))
    answers = [
        Answered("", None, None, 0.6, best, 2.0),
        Answered("", None, None, 0.9, other, 8.0),
    ]
    text = words(shown(Answer(threshold=0.0), items, answers))
    assert "answerable 1 0.000 0.000 impossible 1 1.000 1.000" in text
    assert "ahead by more than 0 points; it was given to 2 of 2 questions." in text
    assert "a threshold of 2 would be best: F1 1.000." in text
    answered = Answered("Rome", 11, 15, 1.0, best[:1])
    assert shown(Answer(), items[:1], [answered]) == ""


def test_labels_in_mistakes_are_escaped():
    text = mistakes_section(*classified(["<a>", "b"], ["b", "<a>"]))
    assert "<a>" not in text
    assert '<b class="gold">&lt;a&gt;</b>, said: <b class="said">b</b>' in text
    assert "80.0% sure" in text and "All 2, surest first." in words(text)
    assert words(mistakes_section(*classified(["b"], ["b"]))).strip() == (
        "Every item of the dev set is right."
    )


def result(seed, step):
    return RunResult(seed, step, 20, 1, 1.0, Measured({"m": 0.9}, "m", True, 9), Path())


def records(*values):
    found = [{"step": step, "task": {"loss": 2.0}} for step in range(1, 21)]
    for step, value in zip((10, 20), values, strict=True):
        judged = {"primary": "m", "values": {"m": value}, "best": True}
        evaluation = {"loss": 1.0, "task": {"loss": 1.0}}
        found.append({"step": step, "evaluation": evaluation, "judged": judged})
    return found


def test_curves_have_a_line_for_each_seed_and_a_ring_around_its_best():
    own = {3: records(0.5, 0.9), 4: records(0.7, 0.6)}
    guess = GuessingBaseline("x", Measured({"m": 0.1}, "m", True, 9))
    loss, value = curves([result(3, 20), result(4, 10)], own, "task", guess)
    assert loss.count('<polyline class="thin"') == 2 and loss.count("<polyline") == 4
    assert "seed 3: best, 0.9000 at step 20" in value and "seed 4: best, 0.7000 at step 10" in value
    assert value.count('class="ring"') == 2 and value.count('<polyline class="dashed"') == 1
    assert loss.count('class="ring"') == 2


@pytest.mark.parametrize("lines", [[], [{"step": 1, "task": {"loss": float("nan")}}]])
def test_curves_of_nothing(lines):
    assert curves([result(3, 20)], {3: lines}, "task", None) == []
