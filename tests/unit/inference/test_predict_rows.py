"""`LanguageModel.predict` takes items, and rows that items can be made of."""

import pytest

import clozeworks as cw
from clozeworks.errors import InputError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator

TOKENIZER = train_from_iterator(["the fox ran from London"] * 3, kind="wordpiece", size=60)
LABELS = ("bad", "good")


@pytest.fixture(scope="module")
def encoder():
    return cw.new("bert-tiny", TOKENIZER, hidden_size=32, num_attention_heads=2)


CASES = [
    (Classify(labels=LABELS), TextItem("the fox"), ["the fox", ("the fox",), {"text": "the fox"}]),
    (
        Compare(labels=LABELS),
        PairItem("fox", "London"),
        [("fox", "London"), ["fox", "London"], {"first": "fox", "second": "London"}],
    ),
    (
        Answer(),
        QuestionItem("who ran", "the fox ran"),
        [("who ran", "the fox ran"), {"question": "who ran", "context": "the fox ran"}],
    ),
    (
        Tag(labels=("O", "B-A", "I-A")),
        WordsItem.of_text("the fox"),
        ["the fox", ["the", "fox"], {"words": ["the", "fox"]}],
    ),
]


@pytest.mark.parametrize(("task", "item", "rows"), CASES, ids=lambda value: type(value).__name__)
def test_rows_are_predicted_as_their_items(encoder, task, item, rows):
    model = encoder.for_task(task)
    assert model.predict(rows) == model.predict([item] * len(rows))


@pytest.mark.parametrize(
    ("task", "row", "sentence"),
    [
        (
            Compare(labels=LABELS),
            "fox",
            "item 2: there is 1 text; give a tuple of first and second, or a row.",
        ),
        (
            Classify(labels=LABELS),
            ("fox", 3),
            "item 2: there are 2 texts; give a text, or a row.",
        ),
        (
            Classify(labels=LABELS),
            5,
            "item 2: the text is a number; it must be a string; correct it.",
        ),
        (Classify(labels=LABELS), {"text": ""}, "item 2: the text is empty; give it one."),
    ],
)
def test_a_row_that_is_no_item(encoder, task, row, sentence):
    good = ("fox", "ran") if isinstance(task, Compare) else "fox"
    with pytest.raises(InputError) as caught:
        encoder.for_task(task).predict([good, row])
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("items", "kind"), [("the fox", "str"), ({"text": "a"}, "dict"), (3, "int"), (None, "NoneType")]
)
def test_items_that_are_no_list(encoder, items, kind):
    with pytest.raises(InputError) as caught:
        encoder.for_task(Classify(labels=LABELS)).predict(items)
    assert str(caught.value) == f"items is a {kind}; it must be a list of items, texts or rows."


def test_an_iterator_is_read(encoder):
    model = encoder.for_task(Classify(labels=LABELS))
    assert model.predict(text for text in ["the fox"]) == model.predict(["the fox"])
