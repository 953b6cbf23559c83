"""Answers whose end is looked for after their beginning: decoding, and a model that learns it."""

import json

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.families.xlnet import FAMILY
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.spans.windows import Windows
from clozeworks.text.training.train import train_from_iterator

CONTEXT = "the fox ran from London to New York and the lazy dog slept"
ITEM = QuestionItem("the fox ran", CONTEXT)
SIZE = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}


@pytest.fixture(scope="module")
def tokenizer():
    return train_from_iterator([CONTEXT] * 5, kind="unigram", size=60, style=FAMILY.style)


def logits(windows, first, ends, none):
    """Two beginnings with an end each in the first window; others know of nothing."""
    found = [np.zeros((window.count, 4), np.float32) for window in windows]
    for column, (start, end) in enumerate(zip(first, ends, strict=True)):
        found[0][start, 0] = 9.0 - column
        found[0][end, 1 + column] = 20.0
    for rows, doubt in zip(found, none, strict=True):
        rows[:, -1] = doubt
    return found


def words(window, first, last):
    begin, end = window.encoded.offsets[window.before + first][0], None
    end = window.encoded.offsets[window.before + last][1]
    return CONTEXT[begin:end].strip()


def test_each_beginning_has_ends_of_its_own(tokenizer):
    task = Answer(beam=True)
    (window,) = task.windows_of([ITEM], tokenizer, None)
    answered = task.decode(ITEM, [window], logits([window], (3, 6), (4, 8), [-1.0]))
    assert answered.text == words(window, 3, 4)
    assert answered.candidates[1].text == words(window, 6, 8)
    # One less in the logit of the beginning, all else alike.
    first, second = (each.points for each in answered.candidates[:2])
    assert first - second == pytest.approx(1.0)
    # An end before the beginning is none: the other beginning counts.
    answered = task.decode(ITEM, [window], logits([window], (5, 6), (4, 8), [-1.0]))
    assert answered.text == words(window, 6, 8)


def test_the_question_is_no_part_of_an_answer(tokenizer):
    (window,) = Answer(beam=True).windows_of([ITEM], tokenizer, None)
    assert window.wanted.tolist() == list(range(window.before, window.before + window.count))
    assert window.before > 0


@pytest.mark.parametrize(("doubts", "silent"), [((2.0, 3.0), True), ((2.0, -3.0), False)])
def test_no_answer_is_given_if_every_window_doubts(tokenizer, doubts, silent):
    task = Answer(beam=True, threshold=0.0, windows=Windows(length=16, overlap=4))
    windows = task.windows_of([ITEM], tokenizer, None)[:2]
    answered = task.decode(ITEM, windows, logits(windows, (1, 2), (2, 3), doubts))
    assert answered.lead == pytest.approx(min(doubts))
    assert (answered.text == "") == silent


def test_a_context_without_a_token_has_no_answer(tokenizer):
    task = Answer(beam=True, threshold=0.0)
    item = QuestionItem("the fox", "\u200b\u200b", impossible=True)
    model = cw.new("xlnet-base", tokenizer, **SIZE).for_task(task)
    answers = model.predict([item, ITEM], task)
    assert answers[0].text == "" and answers[1].candidates


def test_it_is_learned_kept_and_loaded_again(tokenizer, tmp_path):
    begin = CONTEXT.index("London")
    rows = [
        {
            "question": f"the fox ran {number}",
            "context": CONTEXT,
            "answers": [{"text": "London", "answer_start": begin}] if number % 2 else [],
        }
        for number in range(12)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = cw.new("xlnet-base", tokenizer, **SIZE).save(tmp_path / "start")
    trained = cw.finetune(
        {
            "run": str(tmp_path / "run"),
            "model": str(start),
            "task": {"kind": "answer", "beam": True},
            "data": {
                "train": [str(tmp_path / "rows.jsonl")],
                "dev": [str(tmp_path / "rows.jsonl")],
            },
            "training": {"steps": 12, "learning_rate": 0.01},
        }
    )
    model = cw.load(trained.model)
    assert isinstance(model.task, Answer) and model.task.beam
    config = json.loads((trained.model / "config.json").read_text())
    assert config["architectures"] == ["XLNetForQuestionAnswering"]
    lines = (tmp_path / "run" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    losses = [each["loss"] for each in map(json.loads, lines) if "loss" in each]
    assert losses[-1] < losses[0] - 0.5
