"""The processes that share a run: started by `torchrun`, or one alone.

Each rank works on its share of a step; counts are added up before the gradient is taken and
gradients afterwards, so that two ranks make the step that one would make.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from clozeworks.errors import ClozeworksError, SettingError, is_out_of_memory
from clozeworks.runtime.devices import find_device
from clozeworks.wording import shortened


class LostRank(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """Another process of the run has ended, or was never there."""


class ProcessGroup:
    """This process among those of a run.

    Attributes:
        rank: Its number.
        count: How many there are.
        device: Where it computes.
    """

    def __init__(self, device: torch.device | str | None = None) -> None:
        self.rank = _number("RANK", 0)
        self.count = _number("WORLD_SIZE", 1)
        self.device = _device(device)
        self._opened = False

    @property
    def leads(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.rank == 0

    def __enter__(self) -> "ProcessGroup":
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self.count > 1 and not dist.is_initialized():
            try:
                dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
            except (RuntimeError, ValueError) as error:
                raise LostRank(
                    f"The {self.count} processes of this run cannot reach each other "
                    f"({_reason(error)}); start all of them together, with torchrun."
                ) from error
            self._opened = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened:
            dist.destroy_process_group()
            self._opened = False

    def summed(self, numbers: Sequence[float]) -> list[float]:
        """Numbers added up over all ranks."""
        if self.count == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self._numbers_device())
        with self._together():
            dist.all_reduce(tensor)
        numbers_of_all: list[float] = tensor.tolist()
        return numbers_of_all

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Adds tensors up over all ranks, in place."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with self._together():
            dist.all_reduce(flat)
        pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, piece in zip(tensors, pieces, strict=True):
            tensor.copy_(piece.view_as(tensor))

    def gathered(self, rows: Tensor) -> tuple[int, Tensor]:
        """The rows of all ranks, one rank after the other, and where this rank's begin."""
        if self.count == 1:
            return 0, rows
        sizes = [0.0] * self.count
        sizes[self.rank] = float(len(rows))
        counts = [int(size) for size in self.summed(sizes)]
        # Every rank must send equally much; what is added is left out again.
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        every = [torch.empty_like(padded) for _ in counts]
        with self._together():
            dist.all_gather(every, padded)
        pieces = [piece[:count] for piece, count in zip(every, counts, strict=True)]
        return sum(counts[: self.rank]), torch.cat(pieces)

    def agreed(self, number: float) -> float:
        """The number of the first rank."""
        return self.summed([number if self.leads else 0.0])[0]

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Turns what the library says when another rank is gone into a sentence."""
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise LostRank(
                f"Process {self.rank + 1} of {self.count} has lost the others "
                f"({_reason(error)}): one of them has ended; see what it said, then run the same "
                "command again, which continues from the last snapshot."
            ) from error

    def _numbers_device(self) -> torch.device:
        return self.device if self.device.type == "cuda" else torch.device("cpu")


def _reason(error: Exception) -> str:
    """The first line of what the library says, without the place in its source it begins with."""
    line = str(error).partition("\n")[0]
    return shortened(re.sub(r"^(\[[^\]]*\]:? ?)+", "", line).rstrip(". ") or type(error).__name__)


def _device(requested: torch.device | str | None) -> torch.device:
    found = find_device(requested)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", _number("LOCAL_RANK", 0))
    return found


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdigit():
        raise SettingError(name, value, "torchrun sets it to a number", "unset it")
    return int(value)
