"""`LanguageModel.predict` takes items, and rows that items can be made of."""

import pandas
import polars
import pyarrow
import pytest

import clozeworks as cw
from clozeworks.errors import InputError, SettingError, UnknownName, UnsupportedError
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
    ("items", "kind"),
    [("the fox", "a text"), (3, "the number 3"), (None, "None"), (b"fox", "bytes")],
)
def test_items_that_are_no_list(encoder, items, kind):
    with pytest.raises(InputError) as caught:
        encoder.for_task(Classify(labels=LABELS)).predict(items)
    assert str(caught.value) == (
        f"items is {kind}; it must be a list of items, texts or rows, a frame, a dataset, a dict "
        "of columns, or the Path of a file."
    )


def test_a_row_alone_is_no_list(encoder):
    with pytest.raises(InputError) as caught:
        encoder.for_task(Classify(labels=LABELS)).predict({"text": "the fox"})
    assert str(caught.value) == (
        "items is a dict, and 'text' in it is a text; a dict holds columns, a list for each; give "
        "lists, or a list of such dicts."
    )


def test_an_iterator_is_read(encoder):
    model = encoder.for_task(Classify(labels=LABELS))
    assert model.predict(text for text in ["the fox"]) == model.predict(["the fox"])


def test_frames_columns_and_files_are_rows(encoder, tmp_path):
    texts = ["the fox", "a dog ran"]
    model = encoder.for_task(Classify(labels=LABELS))
    wanted = model.predict(texts)
    frame = pandas.DataFrame({"number": [1, 2], "text": texts})
    (tmp_path / "rows.csv").write_text(frame.to_csv(index=False))
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    forms = [frame, polars.from_pandas(frame), {"text": texts}, frame["text"], polars.Series(texts)]
    forms += [tmp_path / "rows.csv", tmp_path / "lines.txt", pyarrow.table({"text": texts})]
    for form in forms:
        assert model.predict(form) == wanted, form
        assert model.classify(form) == wanted, form
    other = frame.rename(columns={"text": "inner", "number": "text"})
    assert model.classify(other, columns={"text": "inner"}) == wanted
    with pytest.raises(UnknownName, match=r"columns for classify is 'words'; known: label, text"):
        model.classify(other, columns={"words": "inner"})


def test_methods_of_other_tasks_take_frames_too(encoder):
    pairs = pandas.DataFrame({"premise": ["the fox", "a dog"], "hypothesis": ["ran", "sat"]})
    model = encoder.for_task(Compare(labels=LABELS))
    assert model.compare(pairs) == model.compare([("the fox", "ran"), ("a dog", "sat")])
    tagger = encoder.for_task(Tag(labels=("O", "B-A", "I-A")))
    words = pandas.DataFrame({"tokens": [["the", "fox"], ["ran"]]})
    assert tagger.tag(words) == tagger.tag([["the", "fox"], ["ran"]])
    finder = encoder.for_task(Answer())
    asked = pandas.DataFrame({"question": ["the fox"], "context": ["a dog ran"]})
    assert finder.answer(asked) == finder.answer(["the fox"], ["a dog ran"])
    assert finder.answer(asked.to_dict("records")) == finder.answer(asked)
    with pytest.raises(InputError, match="questions and contexts do not match"):
        finder.answer(["the fox"])


def test_two_texts_are_compared(encoder):
    model = encoder.for_task(Compare(labels=LABELS))
    assert model.compare("the fox", "ran") == model.compare(("the fox", "ran"))
    firsts, seconds = ["the fox", "a dog"], ["ran", "sat"]
    assert model.compare(firsts, seconds) == model.compare([*zip(firsts, seconds, strict=True)])
    for arguments in (("the fox",), (firsts, "ran"), (firsts, seconds[:1])):
        with pytest.raises(InputError) as caught:
            model.compare(*arguments)
        assert str(caught.value) == (
            "first texts and second texts do not match; each first text needs its second text; "
            "give two texts, or two lists of equal length."
        )


def test_a_task_can_be_named(encoder):
    model = encoder.for_task(Classify(labels=LABELS))
    wanted = model.predict(["the fox"])
    assert model.predict(["the fox"], "classify") == wanted
    assert model.predict(["the fox"], Classify) == wanted
    with pytest.raises(UnknownName, match="Did you mean 'classify'"):
        model.predict(["the fox"], "clasify")
    with pytest.raises(UnsupportedError, match="cannot tag words"):
        model.predict(["the fox"], "tag")
    with pytest.raises(SettingError) as caught:
        model.predict(["the fox"], 3)
    assert str(caught.value) == (
        "task is 3; it must be a task, or the name of one: answer, classify, compare, "
        "embed, rerank, tag, text-to-text."
    )
