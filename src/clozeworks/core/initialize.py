"""First weights, by role.

Paper: Devlin et al. 2019: a normal distribution cut at two standard deviations for every matrix
and table, zero for biases, one for the scale of norms.
Where paper and code differ: Hugging Face draws from an uncut normal distribution. Cutting without
rescaling leaves a standard deviation of 0.88 times the nominal one, in the original as here.

Each parameter's values are a function of the seed and the parameter's name alone: adding a head or
reordering modules does not change what the others start from.
"""

import hashlib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

# The standard deviation of a standard normal distribution cut at two: sqrt(1 - 4 pdf(2) / 0.9545).
CUT_SPREAD = 0.8796


class Undrawn(TorchFunctionMode):
    """While active, modules are made without drawing first values nobody will use.

    Beside the time, drawing on the meta device makes torch import its compiler: two seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Passes everything on except calls into `torch.nn.init`."""
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def initialize(
    model: nn.Module,
    *,
    seed: int = 0,
    std: float = 0.02,
    stds: Mapping[str, float] | None = None,
    known: Collection[str] = (),
) -> None:
    """Fills all parameters in place.

    Args:
        model: A built model; its parameters may be on any device.
        seed: Two calls with the same seed give the same values.
        std: The nominal standard deviation, before cutting.
        stds: The same for parameters whose names fit a pattern; the first that fits counts.
        known: The names of parameters that have their values already.
    """
    done: set[int] = set()
    special = tuple((stds or {}).items())
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix=path, recurse=False):
            if id(parameter) in done:
                continue  # tied: the first name decides
            done.add(id(parameter))
            if name in known:
                continue
            with torch.no_grad():
                if getattr(module, "begins_at_zero", False):
                    parameter.zero_()
                elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
                    parameter.fill_(0.0 if name.endswith("bias") else 1.0)
                elif name.endswith("bias"):
                    parameter.zero_()
                else:
                    fitting = (value for pattern, value in special if fnmatchcase(name, pattern))
                    _cut_normal(parameter, next(fitting, std), _stream(seed, name))


def _stream(seed: int, name: str) -> torch.Generator:
    digest = hashlib.blake2b(f"initialize/{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator()
    generator.manual_seed(int.from_bytes(digest, "little") >> 1)
    return generator


def _cut_normal(parameter: torch.Tensor, std: float, generator: torch.Generator) -> None:
    # Drawn on the CPU in float32 whatever the device, so that a seed means the same everywhere.
    values = torch.empty(parameter.shape, dtype=torch.float32)
    nn.init.trunc_normal_(values, std=std, a=-2 * std, b=2 * std, generator=generator)
    parameter.copy_(values)
