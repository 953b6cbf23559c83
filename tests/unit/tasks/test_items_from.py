"""Items from texts, tuples and rows, as a program has them."""

import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.text_to_text import TextToText
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn


@pytest.mark.parametrize(
    ("task", "row", "item"),
    [
        (Classify, "a text", TextItem("a text", source_location="item 1")),
        (Classify, {"review": "good", "label": "yes"}, TextItem("good", "yes", "item 1")),
        (Compare, ("one", "two"), PairItem("one", "two", source_location="item 1")),
        (Compare, {"premise": "a", "hypothesis": "b"}, PairItem("a", "b", None, "item 1")),
        (Answer, ("who?", "me"), QuestionItem("who?", "me", source_location="item 1")),
        (Tag, "a b", WordsItem.of_text("a b", "item 1")),
        (Tag, ["New York", "is"], WordsItem.of_words(["New York", "is"], None, "item 1")),
        (Tag, {"text": "a b"}, WordsItem.of_text("a b", "item 1")),
        (
            Tag,
            {"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]},
            WordsItem.of_words(["a", "b"], ["O", "B-X"], "item 1"),
        ),
        (TextToText, "a text", SourceItem("a text", source_location="item 1")),
        (
            TextToText,
            {"messages": [{"role": "user", "content": "hi"}]},
            ChatItem((Turn("user", "hi"),), "", "item 1"),
        ),
    ],
)
def test_what_a_program_has_becomes_an_item(task, row, item):
    assert task.items_from([row]) == [item]


def test_items_stay_and_several_kinds_may_be_mixed():
    item = TextItem("as it is", "x", "file, row 3")
    assert Classify.items_from([item, "b", {"text": "c"}]) == [
        item,
        TextItem("b", source_location="item 2"),
        TextItem("c", source_location="item 3"),
    ]
    assert Classify.items_from([]) == []


@pytest.mark.parametrize(
    ("task", "rows", "message"),
    [
        (Classify, ["a", " "], "item 2: the text is empty; give it one."),
        (Classify, [3], "item 1: the text is a number; it must be a string; correct it."),
        (Compare, ["a"], "item 1: there is 1 text; give a tuple of first and second, or a row."),
        (Classify, [("a", "b")], "item 1: there are 2 texts; give a text, or a row."),
        (Classify, [{"text": "a"}, {"text": None}], "item 2: the text is empty; give it one."),
    ],
)
def test_what_cannot_be_used_is_refused(task, rows, message):
    with pytest.raises(InputError) as error:
        task.items_from(rows)
    assert str(error.value) == message


def test_a_row_without_a_needed_column_is_refused():
    with pytest.raises(InputError, match="the items"):
        Compare.items_from([{"text": "a"}])
