"""What was measured: values by name, one of them first, with intervals and notes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.wording import counted

LOWER_IS_BETTER = frozenset(
    {"log_loss", "calibration_error", "mean_absolute_error", "mean_squared_error"}
)
"""The values that are the better the lower they are."""


@dataclass(frozen=True)
class Measured:
    """The outcome of an evaluation.

    Attributes:
        values: Every value by its name; shares are from 0 to 1.
        primary: The name of the value that decides.
        higher_is_better: Whether more of the primary value is better.
        count: How many items were measured.
        intervals: Where 95 % of resamples of the items lie, for values that were resampled.
        notes: What a reader must know about the values, in sentences.
    """

    values: dict[str, float]
    primary: str
    higher_is_better: bool
    count: int
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.primary not in self.values:
            raise UnknownName("metric", self.primary, self.values)

    @property
    def value(self) -> float:
        """The primary value."""
        return self.values[self.primary]

    def better_than(self, other: "Measured | None") -> bool:
        """Whether this is better than what was measured before, by the primary value.

        Args:
            other: What was measured before; None if nothing was.

        Raises:
            SettingError: Their primary values are not the same.
        """
        if other is None:
            return True
        if self.primary != other.primary:
            raise SettingError(
                f"metric is {self.primary!r} here and {other.primary!r} there; only the same value "
                "can be compared; measure both by one."
            )
        if math.isnan(self.value) or math.isnan(other.value):
            return not math.isnan(self.value)
        higher = self.value > other.value
        return higher if self.higher_is_better else self.value < other.value

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, and a word where nothing is wrong: resampling cannot say how sure that is."""
        if self.value != 1 or self.intervals.get(self.primary) != (1.0, 1.0):
            return self.notes
        return (
            *self.notes,
            f"nothing is wrong in {counted(self.count, 'item')}, so resampling says nothing; of "
            f"others up to {min(1.0, 3 / self.count):.2g} may be wrong all the same.",
        )

    def lines(self) -> list[str]:
        """One line for each value, the primary one first, and one for each note."""
        names = [self.primary, *(name for name in self.values if name != self.primary)]
        return [*map(self._line, names), *(f"note: {note}" for note in self.remarks)]

    def _line(self, name: str) -> str:
        line = f"{name} {_shown(self.values[name])}"
        if name not in self.intervals:
            return line
        low, high = self.intervals[name]
        return f"{line} ({_shown(low)} to {_shown(high)}, 95 %)"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "values": dict(self.values),
            "primary": self.primary,
            "higher_is_better": self.higher_is_better,
            "count": self.count,
            "intervals": {name: list(ends) for name, ends in self.intervals.items()},
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Measured":
        """What `to_dict` wrote.

        Raises:
            InputError: Something is missing.
        """
        try:
            return cls(
                values=dict(record["values"]),
                primary=record["primary"],
                higher_is_better=record["higher_is_better"],
                count=record["count"],
                intervals={name: (low, high) for name, (low, high) in record["intervals"].items()},
                notes=tuple(record["notes"]),
            )
        except KeyError as error:
            raise InputError(
                f"what was measured has no {error.args[0]!r}; it must have values, primary, "
                "higher_is_better, count, intervals and notes; measure again."
            ) from error


def best_of(measured: Sequence[Measured], cost: str | None = None) -> int:
    """The place of the best of several; of equal ones the one that costs less, then the first.

    Args:
        measured: What was measured, by the same values.
        cost: Which value is what an item costs; None if none is.
    """
    best = 0
    for index, each in enumerate(measured):
        before = measured[best]
        if not index:
            continue
        if cost is not None and each.value == before.value:
            better = each.values[cost] < before.values[cost]
        else:
            better = each.better_than(before)
        best = index if better else best
    return best


def _shown(value: float) -> str:
    """A value with three digits behind the point, or with three that count if it is tiny."""
    tiny = 0 < abs(value) < 0.0005
    return f"{value:.2e}" if tiny else f"{value:.3f}"
