"""What every optimiser must keep, whoever wrote it: run over the files of the folder."""

import copy
import dataclasses
import inspect
import json
import math

import pytest
import torch
from torch import nn

from clozeworks import config, registry
from clozeworks.engine.optimizers import OptimizerSpec
from clozeworks.errors import SettingError, UnknownName

ALL = registry.specs(OptimizerSpec)
every = pytest.mark.parametrize("kind", sorted(ALL))


def problem():
    """A small regression: convex, with a matrix and a bias."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(6, 4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    x, y = torch.randn(64, 6, generator=generator), torch.randn(64, 4, generator=generator)
    return model, lambda: (model(x) - y).square().mean()


def train(optimizer, loss, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def settings(kind):
    return {field.name for field in dataclasses.fields(ALL[kind])}


def test_the_folder():
    assert set(ALL) >= {"adafactor", "adam_w", "bert_adam", "lamb"}


@every
def test_ten_steps_make_a_convex_loss_smaller(kind):
    model, loss = problem()
    before = loss().item()
    train(ALL[kind]().build(model, 0.02), loss, 10)
    assert loss().item() < 0.9 * before


@every
def test_rate_0_changes_no_weight_but_fills_the_means(kind):
    model, loss = problem()
    optimizer = ALL[kind]().build(model, 0.1)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = weights(model)
    train(optimizer, loss, 3)
    assert same(weights(model), before)
    for parameter in model.parameters():
        kept = optimizer.state[parameter]
        assert kept and all(tensor.abs().sum() > 0 for tensor in kept.values())


@every
def test_the_rate_comes_from_the_group(kind):
    moved = []
    for rate in (0.1, 0.001):
        model, loss = problem()
        optimizer = ALL[kind]().build(model, 0.1)
        assert all(group["lr"] == 0.1 and group["role"] for group in optimizer.param_groups)
        for group in optimizer.param_groups:
            group["lr"] = rate
        before = weights(model)
        train(optimizer, loss, 1)
        pairs = zip(weights(model), before, strict=True)
        moved.append(sum((a - b).norm().item() for a, b in pairs))
    assert moved[0] == pytest.approx(100 * moved[1], rel=1e-3)


@every
def test_state_is_tensors_and_goes_on_to_the_bit(kind):
    spec = ALL[kind]()
    model, loss = problem()
    optimizer = spec.build(model, 0.05)
    train(optimizer, loss, 4)
    at_four = weights(model)
    saved = [dict(optimizer.state[p]) for p in model.parameters()]
    assert all(isinstance(value, torch.Tensor) for state in saved for value in state.values())
    saved = [{name: value.clone() for name, value in state.items()} for state in saved]
    train(optimizer, loss, 6)
    at_ten = weights(model)

    def again(restore):
        model, loss = problem()
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), at_four, strict=True):
                parameter.copy_(value)
        optimizer = spec.build(model, 0.05)
        restore(model, optimizer)
        train(optimizer, loss, 6)
        return weights(model)

    def by_parameter(model, optimizer):
        for parameter, state in zip(model.parameters(), saved, strict=True):
            optimizer.state[parameter] = {name: value.clone() for name, value in state.items()}

    assert same(again(by_parameter), at_ten)
    assert not same(again(lambda model, optimizer: None), at_ten)  # what is lost would show


@every
def test_torchs_own_way_to_save_works_too(kind):
    spec = ALL[kind]()
    model, loss = problem()
    optimizer = spec.build(model, 0.05)
    train(optimizer, loss, 4)
    other, other_loss = problem()
    other.load_state_dict(model.state_dict())
    fresh = spec.build(other, 0.05)
    fresh.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # torch keeps references
    for pair in ((optimizer, loss), (fresh, other_loss)):
        train(*pair, 6)
    assert same(weights(model), weights(other))


@every
def test_a_parameter_without_gradient_is_left_alone(kind):
    model, _ = problem()
    optimizer = ALL[kind]().build(model, 0.1)
    before = model.weight.detach().clone()
    optimizer.step()  # no gradients at all
    model.bias.grad = torch.ones_like(model.bias)
    optimizer.step()
    assert torch.equal(model.weight, before)
    assert model.weight not in optimizer.state or not optimizer.state[model.weight]


@every
def test_a_closure_is_called_with_gradients_on(kind):
    model, loss = problem()
    optimizer = ALL[kind]().build(model, 0.1)

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    before = loss().item()
    assert optimizer.step(closure).item() == before
    assert loss().item() != before


@every
def test_json_both_ways(kind):
    other = {"betas": (0.8, 0.9), "eps": 1e-5, "weight_decay": 0.1, "clip_threshold": 2.0}
    chosen = {name: value for name, value in other.items() if name in settings(kind)}
    spec = ALL[kind](**chosen)
    data = json.loads(json.dumps(config.plain(spec)))
    assert data["kind"] == kind and len(chosen) >= 2
    assert all(data[name] == json.loads(json.dumps(value)) for name, value in chosen.items())
    assert config.read(OptimizerSpec, data, "optimizer") == spec
    assert config.read(OptimizerSpec, {"kind": kind, "eps": 1}, "optimizer") == ALL[kind](eps=1.0)


@every
def test_files_say_where_they_come_from(kind):
    text = inspect.getdoc(inspect.getmodule(ALL[kind]))
    assert all(heading in text for heading in ("Paper:", "The idea:", "Used by:"))


@every
@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("betas", (0.9,), "betas is [0.9]; it must be two numbers, each at least 0 and below 1."),
        ("betas", (0.9, 1.0),
         "betas is [0.9, 1.0]; it must be two numbers, each at least 0 and below 1."),
        ("betas", (-0.1, 0.9),
         "betas is [-0.1, 0.9]; it must be two numbers, each at least 0 and below 1."),
        ("eps", 0.0, "eps is 0.0; it must be above 0."),
        ("eps", math.nan, "eps is nan; it must be above 0."),
        ("weight_decay", -0.01, "weight_decay is -0.01; it must be at least 0."),
        ("weight_decay", math.inf, "weight_decay is inf; it must be at least 0 and finite."),
    ],
)  # fmt: skip
def test_complaints(kind, setting, value, sentence):
    if setting not in settings(kind):
        pytest.skip(f"it has no {setting}")
    with pytest.raises(SettingError) as error:
        ALL[kind](**{setting: value})
    assert str(error.value) == sentence


def test_complaints_of_recipes():
    with pytest.raises(UnknownName, match="Did you mean 'adam_w'"):
        config.read(OptimizerSpec, {"kind": "adamw"}, "optimizer")
    with pytest.raises(SettingError) as error:
        config.read(OptimizerSpec, {"kind": "lamb", "betas": ["x"]}, "optimizer")
    assert str(error.value) == "optimizer.betas[0] is 'x'; it must be float."
