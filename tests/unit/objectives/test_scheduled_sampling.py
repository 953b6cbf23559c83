"""Scheduled sampling: what is told, what is said instead, and when."""

import math

import numpy as np
import pytest
import torch

from clozeworks import config
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import Gradients
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.causal_lm import CausalLM
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.prefix_lm import PrefixLM
from clozeworks.objectives.scheduled_sampling import (
    ExponentialTeacherForcing,
    InverseSigmoidTeacherForcing,
    LinearTeacherForcing,
    ScheduledSampling,
    _drawn,
    mixed,
)
from clozeworks.objectives.span_corruption import SpanCorruption
from clozeworks.runtime.workers import WorkerPool

NAMED = {f"<extra_id_{number}>": 199 - number for number in range(20)}
SOURCE = Vocabularies(200, named=NAMED, start_id=0, end_id=1)
INSIDE = {"gpt2": CausalLM(), "llama": PrefixLM(), "t5": SpanCorruption()}
every = pytest.mark.parametrize("name", INSIDE)


def sampling(name, share, **settings):
    told = LinearTeacherForcing(fall=0.0, begin=share, least=0.0)
    return ScheduledSampling(objective=INSIDE[name], teacher_forcing=told, **settings)


@pytest.mark.parametrize(
    ("told", "at", "wanted"),
    [
        (LinearTeacherForcing(fall=0.001, begin=0.9, least=0.25), [0, 100, 9999], [0.9, 0.8, 0.25]),
        (ExponentialTeacherForcing(base=0.999), [0, 1, 1000], [1, 0.999, 0.999**1000]),
        (InverseSigmoidTeacherForcing(k=100.0), [0, 100, 10**7],
         [100 / 101, 100 / (100 + math.e), 0]),
        (InverseSigmoidTeacherForcing(k=1.0), [0, 3], [0.5, 1 / (1 + math.exp(3))]),
    ],
    ids=str,
)  # fmt: skip
def test_shares_by_step(told, at, wanted):
    assert [told.probability(step) for step in at] == pytest.approx(wanted, rel=1e-12, abs=1e-250)
    half = InverseSigmoidTeacherForcing(k=1000.0).probability(round(1000 * math.log(1000)))
    assert half == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (LinearTeacherForcing(fall=0.1, begin=0.8, hold=3), [1, 1, 1, 0.8, 0.7, 0.6]),
        (ExponentialTeacherForcing(base=0.5, hold=3), [1, 1, 1, 1, 0.5, 0.25]),
        (InverseSigmoidTeacherForcing(k=1.0, hold=3),
         [1, 1, 1, 1 / 2, 1 / (1 + math.e), 1 / (1 + math.e**2)]),
    ],
    ids=str,
)  # fmt: skip
def test_first_everything_is_told(told, wanted):
    assert [told.probability(step) for step in range(6)] == pytest.approx(wanted, rel=1e-12)


@every
def test_with_all_told_it_is_the_objective_inside(name, tiny, examples):
    objective = sampling(name, 1.0)
    model = tiny(name, objective)
    batch = objective.batch(examples([9, 30, 14], bare=True), 2, SOURCE)
    inside = INSIDE[name].batch(examples([9, 30, 14], bare=True), 2, SOURCE)
    assert np.array_equal(batch.ids, inside.ids)
    expected = INSIDE[name].loss(model, inside.tensors()).value()
    assert torch.equal(objective.loss(model, batch.tensors(step=7)).value(), expected)
    # Where a model is measured all is told, whatever the step.
    measured = sampling(name, 0.0).loss(model, batch.tensors()).value()
    assert torch.equal(measured, expected)
    assert sampling(name, 0.0).loss(model, batch.tensors(step=7)).value() != expected


@every
def test_with_nothing_told_only_what_was_said_is_read(name, tiny, examples):
    objective = sampling(name, 0.0)
    model = tiny(name, objective)
    tensors = objective.batch(examples([9, 30, 14], bare=True), 2, SOURCE).tensors(step=0)
    part = tensors.targets[INSIDE[name].name]
    with torch.no_grad():
        x = INSIDE[name].vectors(model, tensors, part["read"])
    said = model.heads["vocabulary"](x).argmax(1).tolist()
    wanted, place = [], 0
    for length in part["lengths"].tolist():
        wanted += [part["read"][place].item(), *said[place : place + length - 1]]
        place += length
    read = mixed(part["read"], torch.tensor(said), part["lengths"], part["luck"][:, 0] < 0)
    assert read.tolist() == wanted != part["read"].tolist()
    x = INSIDE[name].vectors(model, tensors, torch.tensor(wanted))
    expected = model.vocabulary.loss(x, part["answers"]).total.item()
    loss = objective.loss(model, tensors)
    assert loss.terms[INSIDE[name].name].total.item() == pytest.approx(expected, rel=1e-12)


def test_the_first_pass_has_no_gradient(tiny, examples):
    objective = sampling("gpt2", 0.0)
    model = tiny("gpt2", objective)
    tensors = objective.batch(examples([9, 30], bare=True), 2, SOURCE).tensors(step=0)
    part = tensors.targets["causal_lm"]
    grads = []
    for _ in range(2):
        model.zero_grad()
        if not grads:
            objective.loss(model, tensors).value().backward()
        else:  # the second pass alone, over tokens that are given
            with torch.no_grad():
                x = CausalLM().vectors(model, tensors, part["read"])
                said = model.heads["vocabulary"](x).argmax(1)
            none = torch.zeros(len(said), dtype=torch.bool)
            x = CausalLM().vectors(model, tensors, mixed(part["read"], said, part["lengths"], none))
            cost = model.vocabulary.loss(x, part["answers"])
            (cost.total / cost.count).backward()
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(*grads, rtol=1e-10, atol=1e-14)


def test_how_many_are_replaced(examples, fits):
    objective = sampling("gpt2", 0.3)
    batch = objective.batch(examples([41] * 500, bare=True), 2, SOURCE)
    part = batch.targets["causal_lm"]
    right = torch.from_numpy(part["read"])
    told = torch.from_numpy(part["luck"][:, 0] < 0.3)
    read = mixed(right, torch.full_like(right, -5), torch.from_numpy(part["lengths"]), told)
    replaced = (read == -5).reshape(500, 40).sum(0).numpy()
    assert replaced[0] == 0, "what begins a text is never replaced"
    total = replaced.sum()
    assert fits([total, 500 * 39 - total], [0.7, 0.3]) > 1e-4
    assert fits(replaced[1:], np.ones(39), shrink=0.3) > 1e-4
    # The usual mistake: the chance of being told taken for that of being replaced.
    assert fits([total, 500 * 39 - total], [0.3, 0.7]) < 1e-10


def test_luck_does_not_depend_on_the_batch(examples):
    objective = sampling("gpt2", 0.3)
    clean = examples([9, 30, 14], bare=True)
    whole = objective.batch(clean, 2, SOURCE).targets["causal_lm"]["luck"]
    alone = objective.batch(clean.some(np.array([2])), 2, SOURCE).targets["causal_lm"]["luck"]
    assert np.array_equal(whole[-13:], alone)


def test_tokens_are_drawn_by_their_shares(tiny, examples, fits):
    scores = torch.log(torch.tensor([[0.1, 0.6, 0.3]])).repeat(20_000, 1)
    luck = torch.from_numpy(np.random.default_rng(0).random(20_000))
    counts = torch.bincount(_drawn(scores, luck), minlength=3).numpy()
    assert fits(counts, [0.1, 0.6, 0.3]) > 1e-4
    assert _drawn(scores[:2], torch.tensor([0.0, 1.0])).tolist() == [0, 2]
    drawn = sampling("gpt2", 0.0, choose="drawn")
    model = tiny("gpt2", drawn)
    tensors = drawn.batch(examples([9, 30], bare=True), 2, SOURCE).tensors(step=0)
    values = [each.loss(model, tensors).value() for each in (drawn, drawn, sampling("gpt2", 0.0))]
    assert values[0] == values[1] != values[2]


def test_the_engine_says_which_step_it_is(tiny, examples):
    told = LinearTeacherForcing(fall=0.5)
    objective = ScheduledSampling(objective=CausalLM(), teacher_forcing=told)
    model = tiny("gpt2", objective)
    batch = objective.batch(examples([9, 30], bare=True), 2, SOURCE)
    ranks, workers = ProcessGroup("cpu"), WorkerPool(torch.device("cpu"), 1)
    gradients = Gradients(
        model, lambda tensors: objective.loss(model, tensors), ranks, workers, seed=0
    )
    losses = [gradients.take(step, [batch]).loss for step in (0, 1, 2, 9)]
    plain = CausalLM().loss(model, batch.tensors()).value().item()
    held = ScheduledSampling(
        objective=CausalLM(), teacher_forcing=LinearTeacherForcing(fall=0.5, hold=7)
    )
    for step, expected in ((6, losses[0]), (7, losses[0]), (8, losses[1])):
        assert held.loss(model, batch.tensors(step=step)).value().item() == pytest.approx(expected)
    assert losses[0] == pytest.approx(plain, rel=1e-12)
    assert losses[1] != pytest.approx(plain) and losses[2] != pytest.approx(losses[1])
    assert losses[2] == losses[3]


def test_what_cannot_be_used():
    told = LinearTeacherForcing(fall=0.1)

    def complaint(make):
        with pytest.raises(SettingError) as caught:
            make()
        return str(caught.value)

    assert complaint(lambda: ScheduledSampling(objective=MaskedLM(), teacher_forcing=told)) == (
        "objective is 'masked_lm'; scheduled_sampling replaces tokens of targets that are texts; "
        "use causal_lm, prefix_lm, span_corruption or denoisers."
    )
    assert complaint(
        lambda: ScheduledSampling(objective=CausalLM(), teacher_forcing=told, choose="best")
    ) == ("choose is 'best'; it must be 'likeliest' or 'drawn'.")
    assert complaint(lambda: LinearTeacherForcing(fall=-1.0)) == (
        "fall is -1.0; it must be at least 0."
    )
    assert complaint(lambda: LinearTeacherForcing(fall=0.1, begin=2.0)) == (
        "begin is 2.0; it must be at least 0 and at most 1."
    )
    assert complaint(lambda: ExponentialTeacherForcing(base=1.0)) == (
        "base is 1.0; it must be above 0 and below 1."
    )
    assert complaint(lambda: InverseSigmoidTeacherForcing(k=0.5)) == (
        "k is 0.5; it must be at least 1."
    )
    assert complaint(lambda: LinearTeacherForcing(fall=0.1, hold=-1)) == (
        "hold is -1; it must be at least 0."
    )
    inside = ScheduledSampling(objective=CausalLM(), teacher_forcing=told)
    assert "runs the model in a way that no other" in complaint(lambda: Sum(parts=(inside,)))


def test_a_recipe_can_write_it():
    table = {
        "kind": "scheduled_sampling",
        "objective": {"kind": "span_corruption"},
        "teacher_forcing": {"kind": "exponential_teacher_forcing", "base": 0.9999},
    }
    found = config.read(Objective, table)
    with pytest.raises(SettingError) as caught:
        found.chosen_examples()
    assert str(caught.value) == (
        "objective.objective.examples of span_corruption is None; it must say what forms an "
        'example; set it, such as examples = {kind = "full_sentences", length = 128}.'
    )
    assert found.teacher_forcing == ExponentialTeacherForcing(base=0.9999) and found.loss_names == (
        "span_corruption",
    )
