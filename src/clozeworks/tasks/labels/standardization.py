"""Numbers in standard deviations from their mean: what a head that predicts them learns.

The idea: a fresh head begins around 0 and moves by about the learning rate a step, so numbers such
as 1 to 5 stay out of its reach for long, and what it learns first is their mean. Standardized, they
begin where the head does. The mean and the deviation are folded into the head's last projection
before a model is saved: whatever reads the folder gets the numbers themselves.
"""

import math
from collections.abc import Iterable
from typing import Annotated

import numpy as np
import torch
from torch import nn

from clozeworks.spec import FINITE, PositiveFloat, spec


@spec
class Standardization:
    """Where 0 and 1 of a head's output lie among the numbers it stands for."""

    mean: Annotated[float, FINITE] = 0.0
    deviation: PositiveFloat = 1.0

    @classmethod
    def of(cls, numbers: Iterable[float], *, centred: bool = True) -> "Standardization":
        """The mean and the standard deviation of some numbers.

        Args:
            numbers: At least one number.
            centred: Whether the head has a bias, which can hold a mean; one that has none is
                measured from 0.
        """
        values = np.fromiter(numbers, np.float64)
        mean = float(values.mean()) if centred else 0.0
        deviation = math.sqrt(float(np.square(values - mean).mean()))
        return cls(mean=mean, deviation=deviation or 1.0)

    def to_head(self, number: float) -> float:
        """A number as the head's output."""
        return (number - self.mean) / self.deviation

    def from_head(self, output: float) -> float:
        """The head's output as a number."""
        return output * self.deviation + self.mean

    def restate(self, project: nn.Linear, before: "Standardization") -> None:
        """Makes a projection that stood for `before` predict the same numbers in these units."""
        if before == self:
            return
        with torch.no_grad():
            wide = project.weight.double() * (before.deviation / self.deviation)
            project.weight.copy_(wide)
            if project.bias is not None:
                numbers = project.bias.double() * before.deviation + before.mean
                project.bias.copy_((numbers - self.mean) / self.deviation)
