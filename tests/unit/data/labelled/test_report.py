"""What a report says of data with known defects."""

import json

import pytest

from clozeworks.data.labelled.oddities import OddRow, findings
from clozeworks.data.labelled.report import Amount, Spread, report_on
from clozeworks.data.labelled.vocabulary_fit import VocabularyFit
from clozeworks.errors import SettingError
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator


def found(items, dev=()):
    return {each.name: each for each in findings(items, dev)}


def texts(*given, label="a"):
    return [TextItem(text, label, f"f.csv, row {row}") for row, text in enumerate(given, start=2)]


def test_nothing_odd():
    assert findings(texts("a plain text", "another one."), texts("a third")) == ()
    assert findings([]) == ()


def test_duplicates_and_contradictions():
    items = [
        TextItem("same", "a", "f.csv, row 2"),
        TextItem("same ", "a", "f.csv, row 3"),
        TextItem("same", "b", "f.csv, row 4"),
        TextItem("same", "a", "g.csv, row 2"),
    ]
    odd = found(items)
    assert odd["duplicates"].count == 2
    assert odd["duplicates"].examples == (
        OddRow("f.csv, row 3", "same ", "first in row 2"),
        OddRow("g.csv, row 2", "same", "first in f.csv, row 2"),
    )
    assert odd["contradictions"].examples == (OddRow("f.csv, row 4", "same", "b, in row 2 a"),)
    several = [TextItem("x", ("a", "b"), "f, row 1"), TextItem("x", (), "f, row 2")]
    assert found(several)["contradictions"].examples[0].note == ", in row 1 a+b"


def test_contradictions_of_pairs_tags_and_answers():
    pairs = [PairItem("x", "y", 1.5, "f, row 1"), PairItem("y", "x", 2.5, "f, row 2")]
    assert found(pairs) == {}
    assert found([*pairs, PairItem("x", "y", 2.5, "f, row 3")])["contradictions"].examples == (
        OddRow("f, row 3", "x | y", "2.5, in row 1 1.5"),
    )
    one = WordsItem.of_words(["New", "York"], ["B-LOC", "I-LOC"], "f, line 1")
    two = WordsItem.of_words(["New", "York"], ["B-LOC", "O"], "f, line 4")
    three = WordsItem.of_words(["New York"], ["B-LOC"], "f, line 7")
    notes = [each.note for each in found([one, two, three])["contradictions"].examples]
    assert notes == ["'York' is O, in line 1 I-LOC", "cut into other words in line 1"]
    asked = [
        QuestionItem("q", "c", impossible=True, source_location="f, question 1"),
        QuestionItem("q", "c", source_location="f, question 2"),
    ]
    assert found(asked)["contradictions"].examples[0].note == "other answers in question 1"


def test_in_both_parts():
    odd = found(texts("one", "two"), [TextItem("two", "b", "d.csv, row 9")])
    assert odd["in both"].examples == (OddRow("d.csv, row 9", "two", "also in f.csv, row 3"),)
    asked = [QuestionItem("q", "c", source_location="f, question 1")]
    odd = found(asked, [QuestionItem("p", "c", source_location="d, question 1")])
    assert set(odd) == {"context in both"}
    assert odd["context in both"].count == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("control characters", "a bell \x07 rings"),
        ("replacement", "caf\ufffd au lait"),
        ("html", "good<br />bad"),
        ("html", "this &amp; that"),
        ("no letters", "12.50 - 13.00 !!"),
        ("outer spaces", "ends with a space "),
        ("outer spaces", "\u3000begins with one"),
        ("very long", "word " * 300 + "end"),
    ],
)
def test_debris(name, text):
    plain = ["a plain text", "a < b and c > d", "line\nend\tand tab", "3.50 $", "R&D; <3", "好的"]
    odd = found(texts(*plain, text))
    assert set(odd) == {name}
    assert odd[name].count == 1
    assert odd[name].examples == (OddRow("f.csv, row 8", text),)


def test_rows_count_once_and_examples_are_three():
    pairs = [PairItem(f"a{n} ", f" b{n}", "x", f"f, row {n}") for n in range(5)]
    odd = found(pairs)
    assert odd["outer spaces"].count == 5
    assert [each.source_location for each in odd["outer spaces"].examples] == [
        f"f, row {n}" for n in range(3)
    ]
    asked = [QuestionItem(f"q{n}", "same context ", source_location=str(n)) for n in range(5)]
    assert found(asked)["outer spaces"].count == 1


def test_spread():
    spread = Spread.of("x", range(1, 101))
    assert spread == Spread("x", 1, 50.5, 50, 90, 99, 100)


def test_classes(labelled):
    train = labelled("a.csv", "text,label\none two,10\nthree,9\n四五,9\n,9\n", skip=True)
    report = report_on(train, labelled("d.csv", "text,label\nsix,10\nseven,9\n"))
    part = report.train
    assert part.labels == (Amount("9", 2, 2 / 3), Amount("10", 1, 1 / 3))
    assert (part.rows, part.bad) == (3, 1)
    assert part.bad_rows == ("a.csv, row 5: the text is empty; give it one",)
    assert [(s.what, s.minimum, s.maximum) for s in part.lengths] == [
        *(("characters", 2, 7), ("words", 1, 2)),
    ]
    assert report.warnings == (
        "The label '10' stands in one row of a.csv; that is too little to learn from.",
    )
    assert (report.obstacle, report.dev.rows, report.findings) == ("", 2, ())


def test_numbers_and_obstacles(labelled):
    train = labelled("a.csv", "text,label\nx,0.5\ny,1.5\n")
    assert report_on(train).train.numbers == Spread("label", 0.5, 1.0, 0.5, 1.5, 1.5, 1.5)
    report = report_on(labelled("a.csv", "text,label\nx,1\ny,1\n"))
    assert report.obstacle.startswith("a.csv: the only label is '1'; ")


def test_tags(labelled):
    content = "a B-X\nb I-X\nc O\nd I-Y\ne I-Y\nf B-Y\n\ng O\n"
    part = report_on(labelled("a.bio", content, "tag")).train
    assert part.types == (Amount("X", 1, 1 / 3), Amount("Y", 2, 2 / 3))
    assert {each.name: each.count for each in part.labels} == {
        "B-X": 1,
        "B-Y": 1,
        "I-X": 1,
        "I-Y": 2,
        "O": 2,
    }
    assert [(s.what, s.maximum) for s in part.lengths] == [("characters", 11), ("words", 6)]
    assert report_on(labelled("a.bio", "a NOUN\nb VERB\n", "tag")).train.types == ()


def test_answers(labelled):
    rows = [
        {"question": "q", "context": "one two", "answers": [{"text": "two", "answer_start": 0}]},
        {"question": "r", "context": "one two", "answers": []},
    ]
    part = report_on(labelled("a.jsonl", "\n".join(map(json.dumps, rows)), "answer")).train
    assert part.answers == (Amount("answered", 1, 0.5), Amount("without an answer", 1, 0.5))
    assert part.repaired == 1
    assert [s.what for s in part.lengths][-2:] == ["answer characters", "answer words"]


def test_unknown_tokens_are_counted_and_warned_of(labelled):
    tokenizer = train_from_iterator(["one two three"] * 3, kind="wordpiece", size=60)
    train = labelled("a.csv", "text,label\n我们 one,a\n他 two,b\nthree,a\n")
    report = report_on(train, tokenizer=tokenizer)
    assert (report.train.vocabulary.tokens, report.train.vocabulary.unknown) == (6, 3)
    warning = (
        "50.0% of the tokens of these texts are unknown (3): the vocabulary does not fit them, and "
        "a model learns nothing from what it does not know; choose a model for their language, or "
        "extend its vocabulary with clozeworks tokenizer extend."
    )
    assert report.warnings[-1] == warning
    known = labelled("b.csv", "text,label\none,a\ntwo,b\nthree,a\n")
    report = report_on(known, tokenizer=tokenizer)
    assert report.train.vocabulary.sentence() == "" and warning not in report.warnings
    assert report_on(known, train, tokenizer=tokenizer).warnings[-1] == warning
    assert report_on(known).train.vocabulary is None
    of_bytes = train_from_iterator(["one two three"] * 3, kind="bpe", size=300)
    assert report_on(train, tokenizer=of_bytes).train.vocabulary.unknown == 0


@pytest.mark.parametrize(
    ("unknown", "sentence"),
    [
        (0, ""),
        (3, "Less than 0.1% of the tokens of these texts are unknown (3)."),
        (60, "0.6% of the tokens of these texts are unknown (60)."),
        (
            400,
            "4.0% of the tokens of these texts are unknown (400): the vocabulary fits them badly; "
            "choose another model, or extend its vocabulary with clozeworks tokenizer extend.",
        ),
    ],
)
def test_what_is_said_of_unknown_tokens(unknown, sentence):
    assert VocabularyFit(10_000, unknown).sentence() == sentence


def test_tokens(labelled):
    tokenizer = train_from_iterator(["one two three"] * 3, kind="wordpiece", size=60)
    train = labelled("a.csv", "text,label\none,a\none two three one two,b\n")
    part = report_on(train, tokenizer=tokenizer, window=5).train
    assert (part.lengths[-1].what, part.lengths[-1].minimum, part.lengths[-1].maximum) == (
        *("tokens", 3, 7),
    )
    assert part.over_window == Amount("over 5 tokens", 1, 0.5)
    with pytest.raises(SettingError, match=r"^--window is 0; it must be at least 1\.$"):
        report_on(train, tokenizer=tokenizer, window=0)
    with pytest.raises(SettingError) as caught:
        report_on(train, window=5)
    assert str(caught.value) == (
        "--window is 5; nothing counts tokens; name a tokenizer or a model with --tokenizer."
    )
