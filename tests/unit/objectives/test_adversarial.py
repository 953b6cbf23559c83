"""Answers that hold still: the checks of scale-invariant fine-tuning."""

import dataclasses

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.core.context import ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.data.examples.loader import Loader
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import Gradients
from clozeworks.engine.stages import MicroBatcher
from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.adversarial import (
    Adversarial,
    Move,
    first_move,
    moved_by,
    symmetric_kl,
)
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.runtime.workers import WorkerPool
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator

SENTENCE = "the fox ran from London to New York and the lazy dog slept"
TOKENIZER = train_from_iterator([SENTENCE] * 5, kind="wordpiece", size=120)
WORDS = SENTENCE.split()
ONE = Classify(labels=("a", "b", "c"))
SEVERAL = Classify(labels=("a", "b", "c"), problem="several")
TAG = Tag(labels=("NOUN", "VERB", "X"))
TASKS = pytest.mark.parametrize("task", [ONE, SEVERAL, TAG], ids=["one", "several", "tag"])


def model_for(task, spread=0.3, dropout=0.0):
    model = cw.new(
        "bert-tiny",
        TOKENIZER,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=40,
        initializer_range=spread,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
    ).for_task(task, seed=3)
    generator = torch.Generator().manual_seed(5)
    network = model.model.double().train()
    with torch.no_grad():  # heads begin near 0, where every answer is alike
        for name, parameter in network.named_parameters():
            if name.startswith("heads."):
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return network


def items_for(task, count=8):
    texts = [" ".join(WORDS[number : number + 3 + number % 5]) for number in range(count)]
    if isinstance(task, Tag):
        return [
            WordsItem.of_words(text.split(), [task.labels[n % 3] for n in range(len(text.split()))])
            for text in texts
        ]
    if task.problem == "several":
        return [TextItem(text, tuple(task.labels[: n % 4])) for n, text in enumerate(texts)]
    return [TextItem(text, task.labels[n % 3]) for n, text in enumerate(texts)]


def pieces(objective, task, *, piece=10_000, seed=1, step=0):
    examples = TaskExamples(task, items_for(task), TOKENIZER, max_length=40)
    cutter = MicroBatcher(objective, seed, Vocabularies.of(TOKENIZER), piece, 1)
    return Loader(examples, cutter, seed=seed, batch_size=8, workers=0).batch(step)


def tensors_of(objective, task, **more):
    (batch,) = pieces(objective, task, **more)
    return batch.tensors()


def scores_of(objective, model, tensors):
    hidden = model(tensors.ids, tensors.layout, tensors.types)
    return objective._logits(model, hidden, tensors)


@TASKS
def test_the_move_is_bounded_and_goes_uphill(task):
    objective, model = Adversarial(objective=task), model_for(task)
    tensors = tensors_of(objective, task)
    clean = scores_of(objective, model, tensors).detach()
    seeds = tensors.targets["adversarial"]["seeds"].tolist()
    table = model.embeddings.tokens.weight
    first = first_move(seeds, tensors.layout, table, 1e-2)
    found = objective.worst_move(model, clean, tensors)
    assert first.abs().max() <= 2e-2
    assert found.abs().max() <= 2e-2 + 1e-4
    step = (found - first).abs().amax(dim=1)
    assert step.max().item() == pytest.approx(1e-4, rel=0.2)
    assert not found.requires_grad

    def change(delta):
        return symmetric_kl(objective._moved(model, delta, tensors), clean).sum().item()

    assert change(found) > change(first) > change(2 * first - found)


@TASKS
def test_without_a_move_nothing_changes_to_the_last_bit(task):
    objective, model = Adversarial(objective=task), model_for(task)
    tensors = tensors_of(objective, task)
    none = torch.zeros(len(tensors.ids), 16, dtype=torch.float64)
    clean = scores_of(objective, model, tensors)
    moved = objective._moved(model, none, tensors)
    assert torch.equal(moved, clean)
    assert symmetric_kl(moved, clean).abs().max() == 0


@TASKS
def test_finding_the_move_leaves_no_gradient_behind(task):
    objective, model = Adversarial(objective=task), model_for(task)
    tensors = tensors_of(objective, task)
    hidden = model(tensors.ids, tensors.layout, tensors.types)
    costs = objective.losses(model, hidden, tensors)
    assert all(parameter.grad is None for parameter in model.parameters())
    again = model(tensors.ids, tensors.layout, tensors.types)
    alone = task.losses(model, again, tensors)[task.name]
    assert torch.equal(costs[task.name].total, alone.total)
    # The part of the task has the very gradients it has alone.
    free = [p for p in model.parameters() if p.requires_grad]
    ours = torch.autograd.grad(costs[task.name].total, free, retain_graph=True, allow_unused=True)
    theirs = torch.autograd.grad(alone.total, free, allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_scale_does_not_matter():
    """Vectors ten times as long are moved ten times as far, and answers change as much."""
    objective, model, long = Adversarial(objective=ONE), model_for(ONE), model_for(ONE)
    with torch.no_grad():
        for table in (long.embeddings.tokens, long.embeddings.types, long.embeddings.positions):
            for parameter in table.parameters():
                parameter.mul_(10)
    tensors = tensors_of(objective, ONE)
    found = [objective.loss(each, tensors).terms["adversarial"].total.item() for each in
             (model, long)]  # fmt: skip
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0] > 0


def test_it_equals_the_published_form_up_to_entropies():
    """Normalise, move, norm again; two cross-entropies with fixed targets."""
    objective, model = Adversarial(objective=ONE), model_for(ONE)
    tensors = tensors_of(objective, ONE)
    delta = first_move([1] * 8, tensors.layout, model.embeddings.tokens.weight, 1e-2)
    part = model.embeddings
    summed = part.tokens(tensors.ids) + part.types(tensors.types) + part.positions(tensors.layout)
    even = torch.nn.functional.layer_norm(summed, (16,), eps=1e-7).detach()
    hidden = model.encoder(part.norm(even + delta), ForwardContext(tensors.layout))
    theirs = ONE.logits(model, hidden, tensors.layout)
    ours = objective._moved(model, delta, tensors)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    clean = scores_of(objective, model, tensors)
    p, q = clean.softmax(1), theirs.softmax(1)
    crossed = -(p.detach() * q.log()).sum(1) - (q.detach() * p.log()).sum(1)
    entropies = -(p * p.log()).sum(1) - (q * q.log()).sum(1)
    torch.testing.assert_close(symmetric_kl(theirs, clean), crossed - entropies, rtol=0, atol=1e-12)
    wanted = [model.heads["classes"].project.weight, model.encoder.layers[0].attention.norm.weight]
    left = torch.autograd.grad(symmetric_kl(theirs, clean).sum(), wanted, retain_graph=True)
    right = torch.autograd.grad(crossed.sum(), wanted)
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_tables_learn_nothing_from_the_moved_pass():
    objective, model = Adversarial(objective=ONE), model_for(ONE)
    tensors = tensors_of(objective, ONE)
    delta = torch.zeros(len(tensors.ids), 16, dtype=torch.float64)
    moved = objective._moved(model, delta, tensors)
    table, norm = model.embeddings.tokens.weight, model.embeddings.norm.weight
    found = torch.autograd.grad(moved.square().sum(), [table, norm], allow_unused=True)
    assert found[0] is None
    assert found[1].any()


def test_several_labels_cost_the_mean_over_them():
    objective, model = Adversarial(objective=SEVERAL), model_for(SEVERAL)
    tensors = tensors_of(objective, SEVERAL)
    clean = scores_of(objective, model, tensors)
    assert clean.shape == (8 * 3, 2)
    delta = objective.worst_move(model, clean.detach(), tensors)
    moved = objective._moved(model, delta, tensors)
    p, q = clean.softmax(1)[:, 0], moved.softmax(1)[:, 0]
    # KL(p, q) + KL(q, p) of yes and no, written out.
    each = (p - q) * (p.log() - q.log()) + (q - p) * ((1 - p).log() - (1 - q).log())
    cost = objective.loss(model, tensors).terms["adversarial"]
    assert cost.count == 8
    assert cost.total.item() == pytest.approx(each.sum().item() / 3, rel=1e-9)


@TASKS
def test_pieces_add_up_to_one_batch(task):
    objective, model = Adversarial(objective=task, move=Move(weight=3.0)), model_for(task)
    (big,), small = pieces(objective, task), pieces(objective, task, piece=15)
    assert len(small) > 2

    def gradient(batches):
        model.zero_grad()
        total = 0.0
        for batch in batches:
            value = objective.loss(model, batch.tensors()).value(big.counts())
            value.backward()
            total += value.item()
        return total, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    whole, parts = gradient([big]), gradient(small)
    assert whole[0] == pytest.approx(parts[0], abs=1e-10)
    for one, other in zip(whole[1], parts[1], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
    loss = objective.loss(model, big.tensors())
    assert {name: cost.count for name, cost in loss.terms.items()} == big.counts()
    assert loss.terms["adversarial"].weight == 3.0
    assert 0 < loss.terms["adversarial"].correct.item() <= big.counts()["adversarial"]


def test_pieces_side_by_side_move_only_their_own_vectors():
    objective, model = Adversarial(objective=ONE), model_for(ONE, dropout=0.1)
    batches = pieces(objective, ONE, piece=15) * 6

    def gradients(count):
        workers = WorkerPool(torch.device("cpu"), count)
        try:
            with ProcessGroup("cpu") as ranks:
                taken = Gradients(model, lambda t: objective.loss(model, t), ranks, workers, seed=0)
                taken.take(3, batches)
        finally:
            workers.close()
        return [parameter.grad for parameter in model.parameters()]

    for one, other in zip(gradients(1), gradients(3), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_moves_belong_to_the_example_the_epoch_and_the_seed():
    objective = Adversarial(objective=ONE)

    def seeds(**more):
        return sorted(tensors_of(objective, ONE, **more).targets["adversarial"]["seeds"].tolist())

    assert seeds() == seeds()
    assert len(set(seeds())) == 8
    assert not set(seeds()) & set(seeds(step=1))
    assert not set(seeds()) & set(seeds(seed=2))


def test_first_moves_are_normal_and_cut():
    layout, like = Layout([900, 700]), torch.zeros(1, 64)
    found = first_move([1, 2], layout, like, 0.5)
    values = (found / 0.5).numpy().ravel()
    # A normal distribution cut at 2 by clamping: 4.55 % stand at the ends.
    assert np.abs(values).max() <= 2
    assert (np.abs(values) > 1.9999).mean() == pytest.approx(0.0455, abs=0.003)
    assert np.abs(values.mean()) < 0.02
    assert torch.equal(found[900:], first_move([2], Layout([700]), like, 0.5))


def test_where_no_gradient_can_be_taken_nothing_is_moved():
    objective, model = Adversarial(objective=ONE), model_for(ONE)
    tensors = tensors_of(objective, ONE)
    with torch.inference_mode():
        cost = objective.loss(model, tensors).terms["adversarial"]
    assert (cost.total.item(), cost.count) == (0.0, 0)


def test_a_gradient_that_is_no_number_moves_nothing():
    objective, model = Adversarial(objective=ONE), model_for(ONE)
    tensors = tensors_of(objective, ONE)
    broken = torch.full((8, 3), float("nan"), dtype=torch.float64)
    found = objective.worst_move(model, broken, tensors)
    seeds = tensors.targets["adversarial"]["seeds"].tolist()
    expected = first_move(seeds, tensors.layout, model.embeddings.tokens.weight, 1e-2)
    assert torch.equal(found, expected)


def test_the_given_model_stays_as_it_is():
    model = model_for(ONE)
    norm = model.embeddings.norm
    other = moved_by(model, torch.zeros(3, 16, dtype=torch.float64))
    assert model.embeddings.norm is norm
    assert other.embeddings.norm is not norm
    assert other.encoder is model.encoder
    assert other.training


@pytest.mark.parametrize(
    "inner",
    [
        Classify(labels=("stars",), problem="number"),
        Tag(labels=("O", "B-A"), crf=True),
        Answer(),
        MaskedLM.bert(),
    ],
    ids=lambda inner: inner.name,
)
def test_what_does_not_choose_is_refused(inner):
    with pytest.raises(SettingError) as caught:
        Adversarial(objective=inner)
    assert str(caught.value) == (
        f"adversarial is set; the objective is {inner.name!r} as it stands, and must choose one of "
        "several answers: classify or compare with labels, or tag without crf; leave "
        "`adversarial` out."
    )


def test_embeddings_without_a_norm_are_refused():
    blueprint = model_for(ONE).blueprint
    bare = dataclasses.replace(blueprint.embeddings, norm=None)
    with pytest.raises(SettingError) as caught:
        Adversarial(objective=ONE).check(dataclasses.replace(blueprint, embeddings=bare))
    assert str(caught.value) == (
        "adversarial is set; the model's embeddings have no norm after them, so that a move "
        "would mean something else for every vector; leave it out."
    )


@pytest.mark.parametrize("name", ["weight", "spread", "step"])
def test_numbers_must_be_above_nothing(name):
    with pytest.raises(SettingError) as caught:
        Move(**{name: 0.0})
    assert str(caught.value) == f"{name} is 0.0; it must be above 0."
