"""Tables and charts of answers say what the answers say."""

import re

from clozeworks.reports.render import Section, detail_blocks, mistake_blocks, render_page
from clozeworks.tasks.answer import Answer, Answered, Candidate
from clozeworks.tasks.classify import Classified, Classify, TextItem
from clozeworks.tasks.results.details import worst_mistakes
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tag import Tag, Tagged
from clozeworks.tasks.tagging.items import WordsItem


def mistakes(task, items, answers, **options):
    return worst_mistakes(task.mistakes(items, answers), **options)


def details(task, items, answers, measured):
    return task.details(items, answers, measured)


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def shown(task, items, answers):
    found = details(task, items, answers, task.measure(items, answers))
    return rendered(detail_blocks(found))


def rendered(blocks):
    page = render_page("t", "h", "s", [], [Section("here", blocks)])
    return page.split("<h2>here</h2>\n")[1].split("</body>")[0]


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
    assert "5 predictions, 80.0% confident, 60.0% right" in text
    assert "0.73 to 0.80 5 80.0% 60.0%" in words(text)
    assert "<a>" not in text


def test_many_labels_have_no_square():
    labels = tuple(f"l{number}" for number in range(31))
    answer = Classified("l1", 1.0, {label: float(label == "l1") for label in labels})
    text = shown(Classify(labels=labels), [TextItem("t", "l1")], [answer])
    assert "Confusion matrix" not in text and "Calibration" in text


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
    assert "leads by more than 0 points; this was so for 2 of 2 questions." in text
    assert "a threshold of 2 would be best: F1 1.000;" in text
    answered = Answered("Rome", 11, 15, 1.0, best[:1])
    assert shown(Answer(), items[:1], [answered]) == ""


def test_labels_in_mistakes_are_escaped():
    text = rendered(mistake_blocks(mistakes(*classified(["<a>", "b"], ["b", "<a>"]))))
    assert "<a>" not in text
    assert '<b class="gold">&lt;a&gt;</b>, predicted: <b class="predicted">b</b>' in text
    assert "80.0% confident" in text and "All 2 mistakes, the worst first." in words(text)
