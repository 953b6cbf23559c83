"""Published formats: what is written for labelled items, and what is read back."""

import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.text_to_text.formats import FORMATS, apart, format_of
from clozeworks.tasks.text_to_text.items import SourceItem


@pytest.mark.parametrize(
    ("name", "item", "source", "target"),
    [
        ("cola", TextItem("A b.", "1"), "cola sentence: A b.", "acceptable"),
        ("sst2", TextItem("good", "positive"), "sst2 sentence: good", "positive"),
        ("mrpc", PairItem("a", "b", "0"), "mrpc sentence1: a sentence2: b", "not_equivalent"),
        ("qqp", PairItem("a", "b", "1"), "qqp question1: a question2: b", "duplicate"),
        ("stsb", PairItem("a", "b", 3.75), "stsb sentence1: a sentence2: b", "3.8"),
        ("mnli", PairItem("p", "h", "2"), "mnli hypothesis: h premise: p", "contradiction"),
        ("qnli", PairItem("q?", "s", "0"), "qnli question: q? sentence: s", "entailment"),
        ("rte", PairItem("a", "b", "1"), "rte sentence1: a sentence2: b", "not_entailment"),
        (
            "squad",
            QuestionItem("Who's it?", "It's me.", (AnswerSpan("me.", 5),)),
            "question: Who ' s it ? context: It ' s me .",
            "me .",
        ),
    ],
)
def test_the_published_examples(name, item, source, target):
    written = format_of(name).item(item)
    assert (written.source, written.target, written.prefix) == (source, target, "")
    assert written.task == name


@pytest.mark.parametrize(
    ("score", "word"),
    [(0, "0.0"), (5, "5.0"), (3.8, "3.8"), (2.9, "2.8"), (1.11, "1.2"), (0.3, "0.4")],
)
def test_similarities_are_rounded_to_the_nearest_fifth(score, word):
    # Halves go to the even fifth, as in the published code: 0.3 is 1.5 fifths, 2.9 is 14.5.
    assert format_of("stsb").word(float(score), "") == word


def test_there_are_twenty_one_words_for_similarities_from_one_to_five():
    assert len({format_of("stsb").word(n / 100, "") for n in range(100, 501)}) == 21


def test_a_label_that_is_kept_secret_is_unknown():
    assert format_of("cola").word("-1", "") == "<unk>"


def test_several_answers_are_all_kept():
    question = QuestionItem(
        "Who?", "me or you", (AnswerSpan("me", 0), AnswerSpan("you", 6), AnswerSpan("me", 0))
    )
    written = format_of("squad").item(question)
    assert (written.target, written.others) == ("me", ("you",))


def test_labels_are_read_strictly():
    cola = format_of("cola")
    assert cola.read(" acceptable ") == "acceptable"
    for text in ("Acceptable", "accept", "acceptable.", "", "acceptable acceptable"):
        assert cola.read(text) is None
    assert format_of("stsb").read("3.8") == 3.8
    assert format_of("stsb").read("about 3") is None
    assert format_of("stsb").read("nan") is None and format_of("stsb").read("1e999") is None
    assert format_of("summarize").read("any text") == "any text"


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.words])
def test_every_word_is_written_and_read_back(name):
    found = format_of(name)
    for number, word in enumerate(found.words):
        assert found.read(found.word(str(number), "")) == word
        assert found.word(word, "") == word


def test_what_does_not_fit_is_said():
    with pytest.raises(InputError) as caught:
        format_of("cola").item(TextItem("a", "fine", "rows.csv, row 2"))
    assert str(caught.value) == (
        "rows.csv, row 2: the label is 'fine'; the format 'cola' has words for: unacceptable, "
        "acceptable, or their numbers from 0; correct it."
    )
    with pytest.raises(
        InputError, match=r"^the item does not fit the format 'rte', which is for c"
    ):
        format_of("rte").item(TextItem("a", "1"))
    with pytest.raises(InputError, match="does not fit the format 'cola'"):
        format_of("cola").item(WordsItem.of_words(["a"]))


def test_items_without_a_label_are_written_without_a_target():
    assert format_of("cola").item(TextItem("a")).target is None
    assert format_of("squad").item(QuestionItem("a", "b")).target is None
    same = SourceItem("a", "b")
    assert format_of("summarize").item(same) is same


def test_marks_stand_apart_and_words_of_all_scripts_stay_whole():
    assert apart("Beyoncé_1, don't!\n 我爱。") == "Beyoncé_1 , don ' t ! 我爱 。"
