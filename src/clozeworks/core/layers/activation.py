"""Activation functions by name.

The exact GELU (with the error function) and its tanh approximation are different names, because
they differ by up to 4.7e-4 in one activation: enough to break parity with a checkpoint.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.errors import UnknownName

Activation = Callable[[Tensor], Tensor]


# Of the Laplace activation.
_MEAN, _STD = 0.707107, 0.282095
# Functions that torch does not have, each as it overwrites its argument.


def _clipped_gelu(x: Tensor) -> Tensor:
    """GELU within what eight bits can hold (Wu et al. 2020)."""
    clipped: Tensor = torch.ops.aten.gelu_(x).clamp_(-10, 10)
    return clipped


def _quick_gelu(x: Tensor) -> Tensor:
    """GELU by a logistic curve (Hendrycks & Gimpel 2016)."""
    return x.mul_(torch.sigmoid(1.702 * x))


def _squared_relu(x: Tensor) -> Tensor:
    """ReLU, squared (So et al. 2021)."""
    return torch.relu_(x).square_()


def _laplace(x: Tensor) -> Tensor:
    """Close to the squared ReLU, and bounded (Ma et al. 2022)."""
    return x.sub_(_MEAN).div_(_STD * math.sqrt(2)).erf_().add_(1).mul_(0.5)


def _sqrt_softplus(x: Tensor) -> Tensor:
    return x.copy_(F.softplus(x)).sqrt_()


def _linear(x: Tensor) -> Tensor:
    return x


# Each activation twice: one that leaves its argument alone, and one that overwrites it.
ACTIVATIONS: dict[str, tuple[Activation, Activation]] = {
    "gelu": (F.gelu, torch.ops.aten.gelu_),
    "gelu_tanh": (
        partial(F.gelu, approximate="tanh"),
        partial(torch.ops.aten.gelu_, approximate="tanh"),
    ),
    "relu": (F.relu, torch.relu_),
    "silu": (F.silu, partial(F.silu, inplace=True)),
    "tanh": (torch.tanh, torch.tanh_),
    "gelu_10": (lambda x: F.gelu(x).clamp(-10, 10), _clipped_gelu),
    "hardswish": (F.hardswish, partial(F.hardswish, inplace=True)),
    "laplace": (lambda x: 0.5 * (1 + torch.erf((x - _MEAN) / (_STD * math.sqrt(2)))), _laplace),
    "leaky_relu": (F.leaky_relu, partial(F.leaky_relu, inplace=True)),
    "linear": (torch.clone, _linear),
    "mish": (F.mish, partial(F.mish, inplace=True)),
    "quick_gelu": (lambda x: x * torch.sigmoid(1.702 * x), _quick_gelu),
    "relu2": (lambda x: F.relu(x).square(), _squared_relu),
    "relu6": (F.relu6, partial(F.relu6, inplace=True)),
    "sigmoid": (torch.sigmoid, torch.sigmoid_),
    "sqrtsoftplus": (lambda x: F.softplus(x).sqrt(), _sqrt_softplus),
}


@dataclass(frozen=True)
class NamedActivation:
    """An activation by its name, so that a model that holds it can be copied and pickled."""

    name: str

    def __call__(self, x: Tensor) -> Tensor:
        """The activation of every number; in inference mode it may overwrite its argument."""
        fresh, overwriting = ACTIVATIONS[self.name]
        return overwriting(x) if torch.is_inference_mode_enabled() else fresh(x)


def activation_named(name: str) -> Activation:
    """Looks an activation up.

    In torch's inference mode it overwrites its argument, which must therefore be a value nobody
    else holds, such as the result of a projection. The widest tensor of a layer then exists once
    instead of twice, and stays in the cache.
    """
    if name not in ACTIVATIONS:
        raise UnknownName("activation", name, ACTIVATIONS)
    return NamedActivation(name)
