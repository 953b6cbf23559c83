"""Text to text with scheduled sampling: what is read in place of a target, and what never is."""

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks import registry
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.scheduled_sampling import LinearTeacherForcing, ScheduledSampling, mixed
from clozeworks.tasks.task import Task
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

TEXT = "the fox ran from London to New York : user assistant system and the lazy dog slept ."
TOKENIZERS = {
    "t5": train_from_iterator([TEXT] * 5, kind="unigram", size=150, style=T5_STYLE),
    "gpt2": train_from_iterator([TEXT] * 5, kind="bpe", size=320, style=GPT2_STYLE),
}
TASKS = {"t5": TextToText(), "gpt2": TextToText(between="\n")}
ITEMS = [
    SourceItem("the fox ran", "to London and New York"),
    SourceItem("the lazy dog", "slept ."),
    SourceItem("from London", "the fox ran to New York and slept"),
]
CHAT = ChatItem(
    (
        Turn("user", "the fox"),
        Turn("assistant", "ran from London"),
        Turn("user", "and the dog"),
        Turn("assistant", "slept ."),
    )
)
every = pytest.mark.parametrize("name", TASKS)


@pytest.fixture(scope="module")
def networks():
    shapes = {
        "t5": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2},
        "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 80},
    }
    shapes["t5"] |= {"dropout_rate": 0.0}
    shapes["gpt2"] |= {f"{place}_pdrop": 0.0 for place in ("resid", "embd", "attn")}
    shapes["gpt2"] |= {"initializer_range": 0.3}
    found = {}
    for name, size in (("t5", "t5-small"), ("gpt2", "gpt2")):
        heads = ["decoder", "vocabulary"] if name == "t5" else ["vocabulary"]
        made = cw.new(size, TOKENIZERS[name], heads=heads, **shapes[name])
        found[name] = made.model.double().train()
    return found


def sampling(name, share, **settings):
    told = LinearTeacherForcing(fall=0.0, begin=share)
    return ScheduledSampling(objective=TASKS[name], teacher_forcing=told, **settings)


def batch(objective, name, items=ITEMS, first=0):
    examples = TaskExamples(TASKS[name], items, TOKENIZERS[name], max_length=None)
    arranged = examples.take(0, np.arange(first, len(items)))
    return objective.batch(arranged, 5, Vocabularies.of(TOKENIZERS[name]))


@every
def test_with_all_told_it_is_the_task(name, networks):
    network, made = networks[name], batch(sampling(name, 1.0), name)
    expected = TASKS[name].loss(network, batch(TASKS[name], name).tensors()).value()
    found = sampling(name, 1.0).loss(network, made.tensors(step=7)).value()
    assert torch.equal(found, expected)
    # Where a model is measured all is told, whatever the step.
    measured = sampling(name, 0.0).loss(network, made.tensors()).value()
    assert torch.equal(measured, expected)
    assert sampling(name, 0.0).loss(network, made.tensors(step=7)).value() != expected


@every
def test_with_nothing_told_targets_are_read_as_they_were_said(name, networks):
    objective, network = sampling(name, 0.0), networks[name]
    tensors = batch(objective, name).tensors(step=0)
    part = tensors.targets["text_to_text"]
    with torch.no_grad():
        x = TASKS[name].vectors(network, tensors, part["read"])
        said = network.heads["vocabulary"](x).argmax(1).tolist()
    wanted, place = [], 0
    for length in part["lengths"].tolist():
        wanted += [part["read"][place].item(), *said[place : place + length - 1]]
        place += length
    assert place == len(said) and wanted != part["read"].tolist()
    x = TASKS[name].vectors(network, tensors, torch.tensor(wanted))
    expected = network.vocabulary.loss(x, part["answers"]).total.item()
    cost = objective.loss(network, tensors).terms["text_to_text"]
    assert cost.total.item() == pytest.approx(expected, rel=1e-12)
    assert cost.count == len(part["answers"])


def test_what_a_prompt_says_stays(networks, monkeypatch):
    objective, network = sampling("gpt2", 0.0), networks["gpt2"]
    items = [*ITEMS, CHAT]
    made = batch(objective, "gpt2", items)
    rows = TaskExamples(TASKS["gpt2"], items, TOKENIZERS["gpt2"], max_length=None).take(
        0, np.arange(4)
    )
    asked = rows.token_labels >= 0
    seen = []
    forward = type(network).forward

    def watched(self, ids, *rest):
        seen.append(ids)
        return forward(self, ids, *rest)

    monkeypatch.setattr(type(network), "forward", watched)
    objective.loss(network, made.tensors(step=0))
    right, read = (ids.numpy() for ids in seen)
    assert np.array_equal(right, rows.ids)
    changed = read != right
    assert changed.any() and not changed[~asked].any()
    # All that was asked and is read before another answer is what was said, in both of the turns.
    part = made.tensors().targets["text_to_text"]
    x = TASKS["gpt2"].vectors(network, made.tensors(), part["read"])
    said = np.full(len(rows.ids), -1)
    said[asked] = network.heads["vocabulary"](x).argmax(1).numpy()
    within = asked & np.append(asked[1:], False)
    assert np.array_equal(read[within], said[within])
    assert part["runs"].tolist()[:3] == part["lengths"].tolist()[:3]
    assert len(part["runs"]) == 5 and part["runs"][3:].sum() == part["lengths"][3]


def test_first_tokens_of_answers_follow_what_was_given():
    part = batch(sampling("gpt2", 0.0), "gpt2", [ITEMS[1], CHAT]).tensors().targets["text_to_text"]
    none = torch.zeros(len(part["read"]), dtype=torch.bool)
    read = mixed(part["read"], torch.full_like(part["read"], -5), part["runs"], none)
    firsts = part["runs"].cumsum(0) - part["runs"]
    assert len(firsts) == 3 and torch.equal(read[firsts], part["read"][firsts])
    assert (read == -5).sum() == len(read) - 3


@every
def test_luck_does_not_depend_on_the_batch(name):
    whole = batch(sampling(name, 0.3), name).targets["text_to_text"]
    alone = batch(sampling(name, 0.3), name, first=2).targets["text_to_text"]
    assert np.array_equal(whole["luck"][-len(alone["luck"]) :], alone["luck"])


def test_it_stays_among_the_tasks():
    assert "text_to_text" in registry.specs(Task)
    assert "text_to_text" not in registry.specs(Objective)
