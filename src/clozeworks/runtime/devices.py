"""Devices and number types by name: what may be asked for, and what this machine has."""

import torch

from clozeworks.errors import SettingError, UnknownName

# The best there is: an accelerator before the CPU; weights as they are stored.
AUTO = "auto"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def available_devices() -> list[str]:
    """The devices of this machine, the best first."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return [*(f"cuda:{number}" for number in range(gpus)), *apple, "cpu"]


def find_device(requested: torch.device | str | None) -> torch.device:
    """A device by its name: cpu, cuda, cuda:1, mps, or auto for the best one.

    `cuda` without a number stays without one; PyTorch takes the current GPU.

    Raises:
        SettingError: If this machine has no such device.
    """
    have = available_devices()
    if requested is None or str(requested) == AUTO:
        return torch.device(have[0].partition(":")[0])
    named = {*have, "cpu:0", *(name.partition(":")[0] for name in have)}
    if str(requested) not in named:
        rule = f"this machine has {', '.join(have)}"
        raise SettingError("device", str(requested), rule, f"use one of these, or {AUTO}")
    return torch.device(requested)


def find_dtype(requested: torch.dtype | str | None) -> torch.dtype | None:
    """A number type by its name; None for auto, which leaves weights as they are stored.

    Raises:
        UnknownName: If it is not one that models compute in.
    """
    if requested is None or isinstance(requested, torch.dtype):
        return requested
    if requested != AUTO and requested not in DTYPES:
        raise UnknownName("dtype", requested, [AUTO, *DTYPES])
    return DTYPES.get(requested)
