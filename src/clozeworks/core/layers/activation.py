"""Activation functions by name.

The exact GELU (with the error function) and its tanh approximation are different names, because
they differ by up to 4.7e-4 in one activation: enough to break parity with a checkpoint.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.errors import UnknownName

Activation = Callable[[Tensor], Tensor]

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
}


def activation_named(name: str) -> Activation:
    """Looks an activation up.

    In torch's inference mode it overwrites its argument, which must therefore be a value nobody
    else holds, such as the result of a projection. The widest tensor of a layer then exists once
    instead of twice, and stays in the cache.
    """
    if name not in ACTIVATIONS:
        raise UnknownName("activation", name, ACTIVATIONS)
    fresh, overwriting = ACTIVATIONS[name]

    def activation(x: Tensor) -> Tensor:
        return overwriting(x) if torch.is_inference_mode_enabled() else fresh(x)

    return activation
