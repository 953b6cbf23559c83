"""Held-out text costs what one big batch costs, without dropout, the same every time."""

from dataclasses import replace

import pytest
import torch

from clozeworks.core.loss import Loss
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.evaluation import evaluate
from clozeworks.objectives.published import published


@pytest.mark.parametrize("name", ["bert", "spanbert"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_cost_of_pieces_is_the_cost_of_one_batch(network, loader, workers, name, count):
    objective = published(name, 24)
    model = network(objective, dropout=0.5)

    def cost(tensors):
        assert not model.training and torch.is_inference_mode_enabled()
        return objective.loss(model, tensors)

    pieces = loader(objective, piece=32, part="validation").batch(0)
    (whole,) = loader(objective, piece=4096, part="validation").batch(0)
    assert len(pieces) > 3
    model.train()
    found = evaluate(model, cost, objective.loss_names, pieces, ProcessGroup("cpu"), workers(count))
    again = evaluate(model, cost, objective.loss_names, pieces, ProcessGroup("cpu"), workers(count))
    assert model.training and found == again
    model.eval()
    evaluate(model, cost, objective.loss_names, pieces, ProcessGroup("cpu"), workers(count))
    assert not model.training
    with torch.inference_mode():
        expected = objective.loss(model, whole.tensors()).terms
    assert found.tokens == len(whole.ids)
    for part, costs in expected.items():
        assert found.parts[part].count == costs.count
        assert found.parts[part].loss == pytest.approx(float(costs.total) / costs.count, abs=1e-5)
        assert found.parts[part].correct == float(costs.correct)
    assert found.loss == pytest.approx(sum(p.loss for p in found.parts.values()))


def test_the_mode_comes_back_after_an_error(network, loader, workers):
    objective = published("bert", 24)
    model = network(objective).train()

    def cost(tensors):
        raise ValueError("no")

    pieces = loader(objective).batch(0)
    with pytest.raises(ValueError, match="no"):
        evaluate(model, cost, objective.loss_names, pieces, ProcessGroup("cpu"), workers(1))
    assert model.training


def test_where_nothing_can_be_right_no_accuracy_is_measured(network, loader, workers):
    objective = published("bert", 24)
    model = network(objective)

    def cost(tensors):
        terms = objective.loss(model, tensors).terms
        return Loss({**terms, "masked_lm": replace(terms["masked_lm"], correct=None)})

    pieces = loader(objective).batch(0)
    names = objective.loss_names
    found = evaluate(model, cost, names, pieces, ProcessGroup("cpu"), workers(1)).parts
    assert found["masked_lm"].record() == {"loss": found["masked_lm"].loss}
    assert found["next_sentence"].record().keys() == {"loss", "accuracy"}


def test_no_text_costs_nothing(network, workers):
    objective = published("bert", 24)
    found = evaluate(
        network(objective), None, objective.loss_names, [], ProcessGroup("cpu"), workers(1)
    )
    assert (found.tokens, found.loss) == (0, 0.0)
