"""Smoothing and weights: equal to the formula and to torch, up to the stated normalisation."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks import config
from clozeworks.errors import SettingError, UnknownName
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.labels.loss import LabelLoss
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import Task

LABELS = ("a", "b", "c")


def drawn(count=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    return scores, torch.randint(0, 3, (count,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("weights", ["none", {"a": 3.0, "c": 0.5}])
def test_it_is_the_formula(smoothing, weights):
    scores, answers = drawn()
    cost = LabelLoss(smoothing=smoothing, weights=weights).cost(scores, answers, LABELS)
    numbers = np.array([1.0, 1.0, 1.0] if weights == "none" else [3.0, 1.0, 0.5])
    raised = np.exp(scores.detach().numpy())
    logs = np.log(raised / raised.sum(axis=1, keepdims=True))
    right = answers.numpy()
    each = -(1 - smoothing) * numbers[right] * logs[np.arange(len(right)), right]
    each -= smoothing * (numbers * logs).mean(axis=1)
    assert cost.total.item() == pytest.approx(each.sum(), rel=1e-12)
    assert cost.count == len(answers)
    assert cost.correct.item() == (logs.argmax(1) == right).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_it_is_the_mean_of_torch_once_the_weights_of_the_answers_are_divided_out(smoothing):
    scores, answers = drawn()
    given = [LABELS[number] for number in answers.tolist()]
    settled = LabelLoss(smoothing=smoothing, weights="balanced").settled(LABELS, given)
    numbers = torch.tensor(settled.numbers(LABELS), dtype=torch.float64)
    cost = settled.cost(scores, answers, LABELS)
    theirs = F.cross_entropy(scores, answers, weight=numbers, label_smoothing=smoothing)
    # Over all training items the mean weight is 1, so that nothing is left to divide out.
    assert numbers[answers].mean().item() == pytest.approx(1.0, abs=1e-12)
    assert cost.total.item() / cost.count == pytest.approx(theirs.item(), abs=1e-12)
    (ours,) = torch.autograd.grad(cost.total / cost.count, scores, retain_graph=True)
    torch.testing.assert_close(ours, torch.autograd.grad(theirs, scores)[0], rtol=0, atol=1e-14)
    some = settled.cost(scores[:7], answers[:7], LABELS)
    part = F.cross_entropy(scores[:7], answers[:7], weight=numbers, label_smoothing=smoothing)
    assert some.total.item() / numbers[answers[:7]].sum().item() == pytest.approx(part.item())
    assert some.total.item() / 7 != pytest.approx(part.item(), rel=1e-6)


def test_balanced_is_how_rare_a_label_is():
    found = LabelLoss(weights="balanced").settled(LABELS, ["a"] * 6 + ["b"] * 2)
    # Two labels occur; the third is never asked and keeps 1.
    assert found.weights == {"a": 8 / (2 * 6), "b": 8 / (2 * 2), "c": 1.0}
    assert LabelLoss(weights={"b": 2}).settled(LABELS, []).weights == {"a": 1.0, "b": 2.0, "c": 1.0}
    assert LabelLoss().settled(LABELS, ["a"]) == LabelLoss()


def test_tasks_settle_with_their_items():
    items = [TextItem("x", "a")] * 3 + [TextItem("x", "b")]
    task = Classify(labels=("a", "b"), label_loss=LabelLoss(weights="balanced"))
    assert task.settled(items).label_loss.weights == {"a": 4 / 6, "b": 2.0}
    words = [WordsItem.of_words(["x", "y", "z"], ["O", "O", "B-A"])] * 2
    tagger = Tag(labels=("O", "B-A", "I-A"), label_loss=LabelLoss(weights="balanced"))
    assert tagger.settled(words).label_loss.weights == {"O": 0.75, "B-A": 1.5, "I-A": 1.0}
    written = json.loads(json.dumps(config.plain(tagger.settled(words))))
    assert config.read(Task, written) == tagger.settled(words)
    number = Classify(labels=("stars",), problem="number")
    assert number.settled([TextItem("x", 2.5)]).label_loss == LabelLoss()


def test_half_precision_is_summed_in_full():
    scores, answers = drawn(3000)
    half = scores.detach().to(torch.bfloat16)
    cost = LabelLoss(smoothing=0.1).cost(half, answers, LABELS)
    exact = LabelLoss(smoothing=0.1).cost(half.double(), answers, LABELS)
    assert cost.total.dtype == torch.float32
    assert cost.total.item() == pytest.approx(exact.total.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        (
            {"smoothing": 1.0},
            SettingError,
            "smoothing is 1.0; it must be at least 0 and below 1.",
        ),
        (
            {"weights": "balancd"},
            SettingError,
            "weights is 'balancd'; it must be 'none', 'balanced' or a table with a "
            "number for each label.",
        ),
        (
            {"weights": {"a": 0}},
            SettingError,
            "weights.a is 0; it must be a number above 0.",
        ),
        (
            {"weights": {"a": "2"}},
            SettingError,
            "weights.a is '2'; it must be a number above 0.",
        ),
        (
            {"weights": {"bb": 2.0}},
            UnknownName,
            "A label of task.label_loss.weights is 'bb'; known: a, b, c. Did you mean 'b'?",
        ),
        (
            {"weights": "balanced"},
            SettingError,
            "task.label_loss.weights is 'balanced'; a loss needs numbers; settle it with the "
            "training items first: task.settled(items).",
        ),
    ],
)
def test_what_cannot_be_is_said(settings, error, sentence):
    scores, answers = drawn()
    with pytest.raises(error) as caught:
        LabelLoss(**settings).cost(scores, answers, LABELS)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda loss: Classify(labels=("a",), problem="number", label_loss=loss), "'number'"),
        (lambda loss: Classify(labels=("a", "b"), problem="several", label_loss=loss), "'several'"),
    ],
)
def test_without_effect_it_is_refused(make, reason):
    with pytest.raises(SettingError) as caught:
        make(LabelLoss(smoothing=0.1))
    assert str(caught.value) == (
        f"label_loss is set; problem is {reason}; it has no effect then; leave it out."
    )


def test_with_a_crf_it_is_refused():
    with pytest.raises(SettingError) as caught:
        Tag(labels=("O", "B-A"), crf=True, label_loss=LabelLoss(weights="balanced"))
    assert str(caught.value) == (
        "label_loss is set; crf is true; it has no effect then; leave it out."
    )
