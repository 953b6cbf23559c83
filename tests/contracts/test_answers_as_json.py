"""What every task answers can be written as JSON and read again, and so can what it is asked."""

import dataclasses
import json

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.errors import UnsupportedError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.embed.task import Embed
from clozeworks.tasks.rerank.task import Rerank
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.task import task_classes
from clozeworks.tasks.text_to_text.task import TextToText, Writing

LONG = "a long day in the old city by the river " * 40
TEXTS = ["the cat sat on the mat", "the dog.", LONG]
WRITING = Writing(max_new_tokens=3)
CASES = {
    "one label": (Classify(labels=("bad", "good", "so")), TEXTS, {}),
    "several labels": (Classify(labels=("a", "b", "c"), problem="several"), TEXTS, {}),
    "no label": (Classify(labels=("a", "b"), problem="several", threshold=0.999), TEXTS, {}),
    "a number": (Classify(labels=("stars",), problem="number"), TEXTS, {}),
    "a cut text": (Classify(labels=("a", "b"), windows={"keep": "first"}), TEXTS, {}),
    "pairs": (Compare(labels=("other", "same")), [("the cat", text) for text in TEXTS], {}),
    "tags": (Tag(labels=("O", "B-X", "I-X")), [*TEXTS, ["the", "cat"]], {}),
    "other tags": (Tag(labels=("O", "B-X", "I-X")), TEXTS, {"scheme": "BIOES"}),
    "parts of speech": (Tag(labels=("NOUN", "VERB")), TEXTS, {}),
    "answers": (Answer(), [("the cat", text) for text in TEXTS], {}),
    "no answers": (Answer(), [("the cat", text) for text in TEXTS], {"threshold": -1e9}),
    "rerank": (
        Rerank(activation="sigmoid"),
        [("the cat", TEXTS[0]), {"query": "a", "document": TEXTS}],
        {},
    ),
    "vectors": (Embed(), TEXTS[:2], {}),
    "texts": (TextToText(writing=WRITING, between="\n"), TEXTS[:2], {}),
    "words of a format": (TextToText(writing=WRITING, between="\n", format="cola"), TEXTS[:2], {}),
}


@pytest.fixture(scope="module")
def model_for(tiny_models, writers):
    def made(task):
        folder = writers["gpt2"] if task.writes else tiny_models["bert"]
        return cw.load(folder).for_task(task)

    return made


def same(left, right):
    if dataclasses.is_dataclass(left):
        names = [each.name for each in dataclasses.fields(left)]
        return type(left) is type(right) and all(
            same(getattr(left, name), getattr(right, name)) for name in names
        )
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and left == right


def case(name):
    task, rows, options = CASES[name]
    if isinstance(getattr(task, "windows", None), dict):
        task = Classify(labels=task.labels, windows=cut())
    return task, rows, options


def cut():
    from clozeworks.tasks.spans.windows import Windows

    return Windows(keep="first")


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_the_same_after_json(name, model_for):
    task, rows, options = case(name)
    task, change = task.configured(**options)
    items = [
        item if item is row else task.from_input(item)
        for item, row in zip(type(task).items_from(rows), rows, strict=True)
    ]
    answers = model_for(task).predict(items, task)
    answers = answers if change is None else list(map(change, answers))
    for answer, item in zip(answers, items, strict=True):
        assert type(answer) is task.answer_type
        written = json.loads(json.dumps(answer.to_dict()))
        assert same(type(task).answer_from_dict(written, item), answer)
        # A client that knows more than it must is not disturbed, one that lacks something is told.
        if written:
            with pytest.raises((KeyError, UnsupportedError)):
                type(task).answer_from_dict({}, item)


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_is_the_same_after_json(name):
    task, rows, _ = case(name)
    for item in type(task).items_from(rows):
        cells = json.loads(json.dumps(item.asked()))
        has_lists = any(isinstance(cell, list) for cell in cells.values())
        kind = type(item).asked_as(cells.keys(), has_lists)
        again = kind.from_row(cells, item.source_location, BadRows())
        assert (again.texts, again.names_of_texts) == (item.texts, item.names_of_texts)
        assert again.asked() == item.asked()


def test_no_task_is_left_out():
    tasks = {type(task) for task, _, _ in CASES.values()}
    assert {
        kind for kind in task_classes().values() if kind.__module__.startswith("clozeworks.")
    } == tasks
