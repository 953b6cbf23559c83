"""Activations: overwriting and leaving alone compute the same; the small ones by their formulas."""

import math

import pytest
import torch

from clozeworks.core.layers.activation import ACTIVATIONS, activation_named

FORMULAS = {
    "gelu_10": lambda x: min(max(x * (1 + math.erf(x / 2**0.5)) / 2, -10), 10),
    "quick_gelu": lambda x: x / (1 + math.exp(-1.702 * x)),
    "relu2": lambda x: max(x, 0) ** 2,
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "laplace": lambda x: (1 + math.erf((x - 0.5**0.5) / (4 * math.pi) ** -0.5 / 2**0.5)) / 2,
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "linear": lambda x: x,
    "relu6": lambda x: min(max(x, 0), 6),
    "hardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sqrtsoftplus": lambda x: math.log1p(math.exp(x)) ** 0.5,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_small_functions(name):
    x = torch.linspace(-12, 12, 97, dtype=torch.float64)
    expected = [FORMULAS[name](value) for value in x.tolist()]
    assert activation_named(name)(x).tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_argument_is_overwritten_only_where_nobody_learns(name):
    x = torch.linspace(-12, 12, 97)
    kept = x.clone()
    expected = activation_named(name)(x)
    assert torch.equal(x, kept)
    with torch.inference_mode():
        torch.testing.assert_close(activation_named(name)(x.clone()), expected)
