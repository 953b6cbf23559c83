"""Watches the numbers of a run and says in plain words what is wrong.

A loss or gradient that is not finite skips the update; many in a row end the run with a diagnosis.
A loss far above what is usual is marked. What is remembered for that is part of a snapshot, so that
a run that was stopped marks the same steps.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from clozeworks.errors import ClozeworksError

# Steps without an update, one after the other, after which a run is over.
MOST_IN_A_ROW = 10
# How many usual deviations above the usual loss a spike is.
_SPIKE = 6.0
# Steps of which the usual loss is about the mean, and before which nothing is marked.
_USUAL = 100


class Diverged(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """The numbers of a run are no longer finite."""


@dataclass
class Guards:
    """What was seen so far."""

    skipped: int = 0
    """Updates that were left out."""
    in_a_row: int = 0
    """How many of them came one after the other, up to now."""
    spikes: int = 0
    """Steps whose loss was far above the usual."""
    seen: int = 0
    """Steps with a finite loss."""
    mean: float = 0.0
    """The usual loss."""
    spread: float = 0.0
    """The usual squared distance from it."""

    def finite(self, loss: float, norm: float) -> bool:
        """Notes whether a step's numbers are finite; if not, the update must be left out."""
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            return True
        self.skipped += 1
        self.in_a_row += 1
        return False

    def is_spike(self, loss: float) -> bool:
        """Notes a finite loss, and says whether it is far above the usual."""
        distance = loss - self.mean
        spike = self.seen >= _USUAL and distance > _SPIKE * math.sqrt(self.spread)
        self.spikes += spike
        self.seen += 1
        weight = max(1 / self.seen, 1 / _USUAL)
        self.mean += weight * distance
        self.spread += weight * (distance * distance - self.spread)
        return spike

    def check(self, step: int, rate: float, model: nn.Module) -> None:
        """Ends a run whose numbers stay not finite.

        Raises:
            Diverged: With what is known of the cause.
        """
        if self.in_a_row < MOST_IN_A_ROW:
            return
        raise Diverged(
            f"step {step:,}: loss or gradient was not finite {self.in_a_row} times in a row, at a "
            f"learning rate of {rate:.2e}; {_diagnosis(model)} Lower training.learning_rate, "
            "lengthen the warm-up of training.schedule, or set training.max_grad_norm; the "
            "snapshots before this are still there."
        )

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Guards":
        """What a snapshot kept."""
        return cls(**state)


def _diagnosis(model: nn.Module) -> str:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not torch.isfinite(parameter).all():
                return f"the weights themselves are not finite, first {name}."
        largest, size = max(
            ((name, float(parameter.abs().max())) for name, parameter in model.named_parameters()),
            key=lambda pair: pair[1],
        )
    return f"all weights are finite, the largest is {size:.3g} in {largest}."
