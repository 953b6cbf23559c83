"""GradCache: the gradient of a big batch, however it is cut, dropout on, and over ranks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.engine.cached_gradients import CachedGradients
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.stages import MicroBatcher
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.tasks.embed.items import EmbedItem
from clozeworks.tasks.embed.losses.cosent import Cosent
from clozeworks.tasks.embed.losses.multiple_negatives_ranking import MultipleNegativesRanking
from clozeworks.tasks.embed.task import Embed
from clozeworks.text.training.train import train_from_iterator

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "dog",
    "lay",
    "in",
    "old",
    "garden",
    "river",
    "flows",
    "past",
    "town",
]
SIZES = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "seed": 3}


def text(number, words):
    return " ".join(WORDS[(number * 7 + place * 3) % len(WORDS)] for place in range(words))


ROWS = [
    EmbedItem(text(n, 3 + n % 5), (text(n + 40, 4 + n % 3), text(n + 80, 2 + n % 6)))
    for n in range(12)
]
SCORED = [EmbedItem(row.anchor, row.others[:1], float(n % 5)) for n, row in enumerate(ROWS)]
CASES = {"ranking": (MultipleNegativesRanking(), ROWS), "cosent": (Cosent(), SCORED)}


@pytest.fixture(scope="module")
def model():
    tokenizer = train_from_iterator([text(n, 9) for n in range(60)], kind="wordpiece", size=120)
    dropout = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
    return cw.new("bert-tiny", tokenizer, **SIZES, **dropout)


@pytest.fixture
def step(model, workers):
    """The micro-batches of a step and what takes their gradient, cut by a token budget."""

    def make(loss, rows, *, budget, count=1, by_length=False):
        task = Embed(loss=loss, pooling=("mean",))
        examples = TaskExamples(task, rows, model.tokenizer, max_length=64)
        clean = examples.take(0, np.arange(len(rows)))
        source = Vocabularies.of(model.tokenizer)
        batcher = MicroBatcher(task, 5, source, budget, count, by_length=by_length)
        network = model.model.train()
        taken = CachedGradients(network, network, task, ProcessGroup("cpu"), workers(count), seed=5)
        return task, network, taken, batcher(clean)

    return make


def gradients_of(network):
    return {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}


def furthest(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("budget", "count"), [(8, 1), (30, 1), (10_000, 1), (12, 2), (10_000, 2)])
def test_the_gradient_is_that_of_one_graph_with_the_same_dropout(step, name, budget, count):
    loss, rows = CASES[name]
    task, network, taken, micro_batches = step(loss, rows, budget=budget, count=count)
    result = taken.take(7, micro_batches)
    cached = gradients_of(network)
    vectors = []
    for number, micro_batch in enumerate(micro_batches):  # all graphs at once, nothing cached
        with taken.drawing(7, number):
            vectors.append(task.outputs(network, micro_batch.tensors("cpu", 7)))
    known = {
        key: torch.cat([task.known(each.tensors("cpu"))[key] for each in micro_batches])
        for key in task.known(micro_batches[0].tensors("cpu"))
    }
    whole = task.loss_of_vectors(network, torch.cat(vectors), known)
    network.zero_grad()
    whole.value().backward()
    assert furthest(cached, gradients_of(network)) < 1e-5
    assert result.loss == pytest.approx(whole.value().item(), abs=1e-5)
    assert len(micro_batches) > 1 or budget == 10_000


@pytest.mark.parametrize("name", CASES)
def test_without_dropout_the_cut_changes_nothing(step, model, name):
    loss, rows = CASES[name]
    found = []
    for budget, count in ((10_000, 1), (9, 1), (25, 2)):
        _, network, taken, micro_batches = step(loss, rows, budget=budget, count=count)
        network.eval()
        taken.take(0, micro_batches)
        found.append(gradients_of(network))
    assert furthest(found[0], found[1]) < 1e-5
    assert furthest(found[0], found[2]) < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_texts_of_one_length_stand_side_by_side_and_rows_stay_together(step, name):
    """A text is compared with its own row's, wherever it was computed."""
    loss, rows = CASES[name]
    _, network, taken, as_given = step(loss, rows, budget=25)
    network.eval()
    result = taken.take(0, as_given)
    whole = gradients_of(network)
    for budget, count in ((10_000, 1), (25, 1), (12, 2)):
        _, network, taken, micro_batches = step(
            loss, rows, budget=budget, count=count, by_length=True
        )
        network.eval()
        lengths = [length for each in micro_batches for length in each.lengths.tolist()]
        assert lengths == sorted(lengths) != [n for each in as_given for n in each.lengths.tolist()]
        assert taken.take(0, micro_batches).loss == pytest.approx(result.loss, abs=1e-6)
        assert furthest(whole, gradients_of(network)) < 1e-5
    # A control: who forgets where texts stand compares other rows.
    forgotten = [replace(each, positions=None) for each in micro_batches]
    try:
        different = taken.take(0, forgotten).loss != pytest.approx(result.loss, abs=1e-3)
    except AssertionError:  # a row without its positive
        different = True
    assert different


def test_accumulation_would_not_be_the_same(step):
    """A negative control: two halves of a step have fewer negatives each."""
    loss, rows = CASES["ranking"]
    _, network, taken, whole = step(loss, rows, budget=10_000)
    network.eval()
    taken.take(0, whole)
    right = gradients_of(network)
    halves = []
    for half in (rows[:6], rows[6:]):
        _, network, taken, part = step(loss, half, budget=10_000)
        network.eval()
        taken.take(0, part)
        halves.append(gradients_of(network))
    mean = {name: (halves[0][name] + halves[1][name]) / 2 for name in right}
    assert furthest(right, mean) > 1e-3


def test_a_step_that_fits_is_computed_once(step, monkeypatch):
    loss, rows = CASES["ranking"]
    calls = []
    for budget in (10_000, 12):
        task, _, taken, micro_batches = step(loss, rows, budget=budget)
        plain, times = task.outputs, []

        def counted(*arguments, plain=plain, times=times):
            times.append(1)
            return plain(*arguments)

        object.__setattr__(task, "outputs", counted)
        taken.take(0, micro_batches)
        calls.append((len(times), len(micro_batches)))
    (once, one), (twice, several) = calls
    assert (once, one) == (1, 1)
    assert twice == 2 * several - 1  # the last one keeps its graph
