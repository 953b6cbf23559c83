"""Tensors in one safetensors file."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Writes one safetensors file, with the permissions that the umask gives.

    Raises:
        OSError: If it cannot be written; with the reason of the system.
    """
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(dict(tensors), path, metadata=metadata)
    except SafetensorError as error:  # the library's name for a full disk, among others
        if match := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(match[1]), os.strerror(int(match[1]))) from error
        raise OSError(str(error)) from error
    # Trap: the library makes files that only their owner can read.
    path.chmod(mode)
