"""Adafactor beside its formula in float64, and the mistakes that would show."""

import numpy as np
import pytest
import torch
from torch import nn

from clozeworks.engine.optimizers.adafactor import Adafactor, _size
from clozeworks.errors import SettingError


def written(values, gradients, rates, *, beta=None, floor=1e-3, clip=1.0, scaled=True):
    """Step by step as the paper has it; `beta` is a mistake: a share of its own choice."""
    values = {name: value.astype(np.float64) for name, value in values.items()}
    kept = {}
    for t, (found, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        old = 1 - t**-0.8 if beta is None else beta
        for name, g in found.items():
            g = g.astype(np.float64)
            squares = g**2 + 1e-30
            if g.ndim > 1:
                row, column = kept.get(name, (0.0, 0.0))
                row = old * row + (1 - old) * squares.mean(-1)
                column = old * column + (1 - old) * squares.mean(-2)
                kept[name] = (row, column)
                v = np.outer(row, column) / row.mean()
            else:
                v = kept[name] = old * kept.get(name, 0.0) + (1 - old) * squares
            u = g / np.sqrt(v)
            u = u / max(1.0, np.sqrt((u**2).mean()) / clip)
            size = max(floor, np.sqrt((values[name] ** 2).mean())) if scaled else 1.0
            values[name] = values[name] - rate * size * u
    return values


@pytest.fixture
def steps():
    """A module, its first values, twenty gradients and twenty rates."""
    generator = torch.Generator().manual_seed(4)
    model = nn.Sequential(nn.Linear(7, 5), nn.LayerNorm(5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        model[0].bias.mul_(1e-6)  # below the floor
    values = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
    gradients = [
        {name: torch.randn(value.shape, generator=generator) for name, value in
         model.named_parameters()}
        for _ in range(20)
    ]  # fmt: skip
    gradients[5] = {name: 30 * value for name, value in gradients[5].items()}  # to be clipped
    rates = [0.01] * 10 + [0.01 / number for number in range(1, 11)]
    return model, values, gradients, rates


def run(spec, steps):
    model, values, gradients, rates = steps
    optimizer = spec.build(model, 0.01)
    for found, rate in zip(gradients, rates, strict=True):
        for name, parameter in model.named_parameters():
            parameter.grad = found[name].clone()
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    plain = [{name: value.numpy() for name, value in found.items()} for found in gradients]
    ours = {name: value.detach().numpy() for name, value in model.named_parameters()}
    return ours, values, plain, rates


def close(ours, wanted):
    return all(np.allclose(ours[name], wanted[name], rtol=1e-5, atol=1e-7) for name in ours)


def test_twenty_steps_are_the_formula(steps):
    ours, *given = run(Adafactor(), steps)
    assert close(ours, written(*given))
    assert not close(ours, written(*given, beta=0.999))
    assert not close(ours, written(*given, clip=1e9))
    assert not close(ours, written(*given, floor=1e-9))
    assert not close(ours, written(*given, scaled=False))


def test_its_settings_do_what_they_say(steps):
    ours, *given = run(Adafactor(scale_parameter=False, clip_threshold=0.5), steps)
    assert close(ours, written(*given, scaled=False, clip=0.5))


def test_it_keeps_rows_and_columns(steps):
    model = steps[0]
    optimizer = Adafactor().build(model, 0.01)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    state = optimizer.state[model[0].weight]
    assert {name: tuple(value.shape) for name, value in state.items()} == {
        "step": (), "row": (5,), "column": (7,)
    }  # fmt: skip
    assert set(optimizer.state[model[0].bias]) == {"step", "square"}


def test_the_size_of_a_large_tensor():
    tensor = torch.full((2000, 4000), 0.1)
    assert _size(tensor).item() == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("power", 0.0, "power is 0.0; it must be above 0 and at most 1."),
        ("power", 1.5, "power is 1.5; it must be above 0 and at most 1."),
        ("clip_threshold", -1.0, "clip_threshold is -1.0; it must be above 0."),
        ("floor", float("inf"), "floor is inf; it must be above 0 and finite."),
        ("eps", 0.0, "eps is 0.0; it must be above 0."),
    ],
)
def test_complaints(setting, value, sentence):
    with pytest.raises(SettingError) as caught:
        Adafactor(**{setting: value})
    assert str(caught.value) == sentence


def test_matrices_stacked_in_a_tensor_are_factored_one_by_one():
    generator = torch.Generator().manual_seed(7)
    scales = torch.tensor([1.0, 30.0, 0.01]).reshape(3, 1, 1)
    start = torch.randn(3, 5, 4, generator=generator)
    gradients = [scales * torch.randn(3, 5, 4, generator=generator) for _ in range(4)]
    stacked = nn.ParameterDict({"all": nn.Parameter(start.clone())})
    alone = nn.ParameterDict({str(n): nn.Parameter(start[n].clone()) for n in range(3)})
    # What is shared by the whole tensor is left out: its size, and how far it may move.
    spec = Adafactor(scale_parameter=False, clip_threshold=1e9)
    optimizers = [spec.build(model, 0.01) for model in (stacked, alone)]
    for gradient in gradients:
        stacked["all"].grad = gradient.clone()
        for n in range(3):
            alone[str(n)].grad = gradient[n].clone()
        for optimizer in optimizers:
            optimizer.step()
    expected = torch.stack([alone[str(n)].detach() for n in range(3)])
    torch.testing.assert_close(stacked["all"].detach(), expected, rtol=1e-5, atol=1e-7)
    state = optimizers[0].state[stacked["all"]]
    assert (state["row"].shape, state["column"].shape) == ((3, 5), (3, 4))
