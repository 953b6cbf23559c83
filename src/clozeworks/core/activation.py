"""Activation functions by name.

The exact GELU (with the error function) and its tanh approximation are different names, because
they differ by up to 4.7e-4 in one activation: enough to break parity with a checkpoint.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from clozeworks.errors import UnknownName

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": F.tanh,
}


def activation(name: str) -> Activation:
    """Looks an activation up."""
    if name not in ACTIVATIONS:
        raise UnknownName("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]
