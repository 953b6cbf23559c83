"""Whether one system is better than another: the paired bootstrap of their difference.

Paper: Efron, Tibshirani 1993; Koehn 2004 (two systems on one test set); Berg-Kirkpatrick,
Burkett, Klein 2012.
The idea: hard items are hard for both, so the difference of two values is surer than either of
them. Both are measured again on the same draws of the same items, and the middle 95 % of the
differences is the interval. Draws follow from the number of items alone, so two results that were
measured apart are paired all the same.

Shapes: D draws.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.bootstrap import intervals_of
from clozeworks.tasks.metrics.measured import LOWER_IS_BETTER, Measured, number_text
from clozeworks.wording import counted


@dataclass(frozen=True)
class Difference:
    """By how much a second system differs from a first."""

    name: str
    """The value."""
    first: float
    second: float
    low: float
    """Where 95 % of the differences begin, second less first."""
    high: float
    """Where they end."""
    second_better: float
    """The fraction of draws in which the second is better; ties count half."""
    higher_is_better: bool
    """Whether more of the value is better."""
    count: int
    """How many items both were measured on."""

    @property
    def value(self) -> float:
        """The difference, second less first."""
        return self.second - self.first

    @property
    def is_real(self) -> bool:
        """Whether chance in the choice of items does not explain it: the interval is without 0."""
        return self.low > 0 or self.high < 0

    def sentence(self, first: str, second: str) -> str:
        """What it says about two systems with these names."""
        better, worse = (first, second) if self._first_leads() else (second, first)
        interval = f"{number_text(self.low)} to {number_text(self.high)}, 95 %"
        items = counted(self.count, "item")
        if self.is_real:
            return (
                f"{better} is better than {worse}: {self.name} differs by "
                f"{number_text(abs(self.value))} ({second} less {first}: {interval}), more than "
                f"the choice of {items} explains."
            )
        if self.value == self.low == self.high == 0:
            return f"{first} and {second} have the same {self.name} on {items}."
        return (
            f"{first} and {second} cannot be told apart: {self.name} differs by "
            f"{number_text(abs(self.value))} ({second} less {first}: {interval}), which the choice "
            f"of {items} may explain; measure on more."
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "difference": self.value, "is_real": self.is_real}

    def _first_leads(self) -> bool:
        return (self.value < 0) == self.higher_is_better


def difference(first: Measured, second: Measured, name: str | None = None) -> Difference:
    """Compares two systems that were measured on the same items, in the same order.

    Args:
        first: What was measured for the first, with intervals.
        second: The same for the second.
        name: Which value; the one that decides if not given.

    Raises:
        InputError: If they were not measured on as many items, or not by that value, or the value
            was not resampled.
    """
    name = name or first.primary
    if first.count != second.count:
        raise InputError(
            f"the first was measured on {counted(first.count, 'item')} and the second on "
            f"{second.count:,}; they are compared on the same ones; measure both on one file."
        )
    for each in (first, second):
        if name not in each.resamples:
            known = ", ".join(each.resamples) or "none"
            raise InputError(
                f"{name} has no interval, so a difference in it cannot be judged; with intervals: "
                f"{known}; choose one of them with --metric."
            )
    a, b = first.resamples[name], second.resamples[name]
    higher = name not in LOWER_IS_BETTER
    gains = (b - a) if higher else (a - b)
    low, high = intervals_of({name: b - a})[name]
    better = float(np.mean((gains > 0) + 0.5 * (gains == 0)))
    values = first.values[name], second.values[name]
    if not all(map(math.isfinite, (*values, low, high))):
        raise InputError(f"{name} is not a number for one of them, so they cannot be compared.")
    return Difference(name, *values, low, high, better, higher, first.count)


def differences(first: Measured, second: Measured) -> list[Difference]:
    """All values that both have with intervals, the one that decides first.

    Raises:
        InputError: If the one that decides cannot be compared.
    """
    names = dict.fromkeys([first.primary, *first.resamples])
    return [
        difference(first, second, name)
        for name in names
        if name == first.primary or name in second.resamples
    ]
