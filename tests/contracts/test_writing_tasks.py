"""What every task that writes must keep, in place of what is said of scores of windows."""

import dataclasses

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.tasks.text_to_text.items import SourceItem
from clozeworks.tasks.text_to_text.task import Composed, TextToText, Writing
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

SENTENCE = (
    "summarize: the fox ran from London to New York and the lazy dog slept 我 爱 学 习 。 é 🙂"
)
WORDS = SENTENCE.split()
TWO_TOWERS = train_from_iterator([SENTENCE] * 5, kind="unigram", size=200, style=T5_STYLE)
ONE_TOWER = train_from_iterator([SENTENCE] * 5, kind="bpe", size=320, style=GPT2_STYLE)
CASES = [
    pytest.param(TextToText(prefix="summarize: "), id="two towers"),
    pytest.param(TextToText(writing=Writing(num_beams=3)), id="two towers, beams"),
    pytest.param(TextToText(between="\n"), id="one tower"),
    pytest.param(TextToText(between=" : ", writing=Writing(num_beams=2)), id="one tower, beams"),
]


def tokenizer_for(task):
    return TWO_TOWERS if task.between is None else ONE_TOWER


def items_for(count, longest=60):
    rng = np.random.default_rng(0)

    def text(size):
        return " ".join(WORDS[number] for number in rng.integers(1, len(WORDS), size=size))

    return [
        SourceItem(text(int(rng.integers(1, longest))), text(1 + number % 3))
        for number in range(count)
    ]


def model_for(task):
    if task.between is None:
        shape = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2, "num_layers": 2}
        heads = ["decoder", "vocabulary"]
        model = cw.new("t5-v1_1-small", TWO_TOWERS, heads=heads, dropout_rate=0.0, **shape)
    else:
        shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 300}
        shape |= {f"{place}_pdrop": 0.0 for place in ("resid", "embd", "attn")}
        model = cw.new("gpt2", ONE_TOWER, heads=["vocabulary"], **shape)
    return model.for_task(task)


@pytest.mark.parametrize("task", CASES)
def test_the_right_tokens_decode_to_the_right_text_and_nothing_else_is_asked(task):
    items, tokenizer = items_for(12), tokenizer_for(task)
    windows = task.windows_of(items, tokenizer, None)
    assert [window.item for window in windows] == list(range(12))  # sources are read whole
    for item, window in zip(items, windows, strict=True):
        (target,) = task.targets(item, [window])
        asked = target.tokens[target.tokens >= 0]
        assert asked[-1] == tokenizer.last_id
        assert task.decoded(tokenizer, asked.tolist()) == item.target
        read = [t for t, a in zip(window.encoded.ids, target.tokens, strict=True) if a < 0]
        due = task.text_of(item) + (task.between or "")
        assert tokenizer.decode(read).strip() == due.strip()
    answers = [Composed(item.target, 1.0) for item in items]
    assert task.measure(items, answers).value == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("task", CASES)
def test_a_trained_model_writes_what_it_was_told(task):
    items, model = items_for(3, longest=6), model_for(task)
    network = model.model.train()
    examples = TaskExamples(task, items, model.tokenizer, max_length=model.max_length)
    batch = task.batch(examples.take(0, np.arange(3)), 0, Vocabularies.of(model.tokenizer))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        task.loss(network, batch.tensors()).value().backward()
        optimizer.step()
    short = dataclasses.replace(task, writing=dataclasses.replace(task.writing, max_new_tokens=20))
    answers = model.predict(items, short)
    assert [answer.text for answer in answers] == [item.target for item in items]
    assert all(answer.ended for answer in answers)
    assert network.training  # as it was
