"""Real questions: what is asked of every window decodes back to the answers of the file."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from clozeworks.tasks.answer import Answer
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.spans.windows import Windows, by_item, judged_in
from clozeworks.text.tokenizer.tokenizer import Tokenizer

BESIDE = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"
DATA = Path(os.environ.get("CLOZEWORKS_DATA", BESIDE))
SQUAD = DATA / "answer" / "squad_v1_train.json.gz"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SQUAD.exists(), reason="needs the real data folder"),
]
# Byte-level pieces join punctuation, such as a quotation mark and a full stop, more often.
EXACT = {"bert-uncased": 0.99, "roberta": 0.98}
# The first is the published one; with the second most contexts take several windows.
SETTINGS = [Windows(length=384, step=128), Windows(length=128, step=32)]


@pytest.fixture(scope="module")
def items():
    with gzip.open(SQUAD, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return [
        QuestionItem(
            question["question"],
            paragraph["context"],
            tuple(
                AnswerSpan(answer["text"], answer["answer_start"]) for answer in question["answers"]
            ),
        )
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


@pytest.fixture(scope="module", params=EXACT)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(name):
    return Tokenizer.load(DATA / "tokenizers" / name)


@pytest.mark.parametrize("windows", SETTINGS, ids=["384", "128"])
def test_every_answer_decodes_back_to_its_text(items, name, tokenizer, windows):
    """An answer of half a token, such as 15 of 2015, cannot be equal; nothing else may differ."""
    task = Answer(windows=windows)
    inside = exact = nowhere = 0
    for item, own in zip(items, by_item(task.windows_of(items, tokenizer, 512)), strict=True):
        right = item.answers[0]
        targets = task.targets(item, own)
        nowhere += all(not target.label.any() for target in targets)
        for window, target in zip(own, targets, strict=True):
            if not target.label.any():
                continue
            first, last = target.label.tolist()
            begin, end = window.encoded.offsets[first][0], window.encoded.offsets[last][1]
            found = item.context[begin:end]
            assert right.text in found
            assert begin <= right.begin and right.end <= end
            inside += 1
            exact += found.strip() == right.text
    assert inside > len(items)
    assert exact / inside > EXACT[name]
    # Only an answer longer than the overlap may stand whole in no window.
    assert nowhere / len(items) < 0.005


@pytest.mark.parametrize("windows", SETTINGS, ids=["384", "128"])
def test_every_token_of_a_context_is_read_and_judged_once(items, tokenizer, windows):
    task = Answer(windows=windows)
    several = 0
    contexts = {item.context: item for item in items}
    chosen = list(contexts.values())
    whole = tokenizer.encode([item.context for item in chosen], special=False)
    for encoded, own in zip(whole, by_item(task.windows_of(chosen, tokenizer, 512)), strict=True):
        covered = np.zeros(len(encoded), np.int64)
        for before, window in zip([None, *own], own, strict=False):
            here = window.encoded.ids[window.moving]
            assert here == encoded.ids[window.first : window.first + window.count]
            covered[window.first : window.first + window.count] += 1
            assert before is None or window.first - before.first == windows.step
        assert covered.min() >= 1
        owner = judged_in(own)
        assert len(owner) == len(encoded)
        for number, window in enumerate(own):
            mine = np.flatnonzero(owner == number)
            assert not len(mine) or window.first <= mine[0]
            assert not len(mine) or mine[-1] < window.first + window.count
        several += len(own) > 1
    assert several
