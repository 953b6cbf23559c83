"""What was measured: values by name, one of them first, with intervals and notes.

Paper: Wang et al. 2019 (GLUE) for the value that decides in each of its tasks; where there are two,
their mean counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.wording import counted

LOWER_IS_BETTER = frozenset(
    {"log_loss", "calibration_error", "mean_absolute_error", "mean_squared_error"}
)
"""The values that are the better the lower they are."""
GLUE_METRICS = {
    "cola": "matthews",
    "sst2": "accuracy",
    "mrpc": "accuracy_and_f1",
    "qqp": "accuracy_and_f1",
    "stsb": "pearson_and_spearman",
    "mnli": "accuracy",
    "mnli_matched": "accuracy",
    "mnli_mismatched": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
    "wnli": "accuracy",
    "ax": "matthews",
}
"""The value that decides in each task of GLUE."""


@dataclass(frozen=True)
class Measured:
    """The outcome of an evaluation."""

    values: dict[str, float]
    """Every value by its name; fractions are from 0 to 1."""
    primary: str
    """The name of the value that decides."""
    higher_is_better: bool
    """Whether more of the primary value is better."""
    count: int
    """How many items were measured."""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Where 95 % of resamples of the items lie, for values that were resampled."""
    notes: tuple[str, ...] = ()
    """What a reader must know about the values, in sentences."""
    resamples: dict[str, Float64Array] = field(default_factory=dict, repr=False, compare=False)
    """The values in every draw of the items, (D,) each, for comparing two systems; not written."""

    def __post_init__(self) -> None:
        if self.primary not in self.values:
            raise UnknownName("metric", self.primary, self.values)

    @property
    def value(self) -> float:
        """The primary value."""
        return self.values[self.primary]

    def better_than(self, other: "Measured | None") -> bool:
        """Whether this is better than what was measured before, by the primary value.

        Raises:
            SettingError: If their primary values are not the same.
        """
        if other is None:
            return True
        if self.primary != other.primary:
            raise SettingError(
                "metric",
                self.primary,
                f"what it is compared with was measured by {other.primary!r}",
                "measure both by one",
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
        interval = self.interval_text(name)
        return f"{name} {number_text(self.values[name])}{interval and f' ({interval}, 95 %)'}"

    def interval_text(self, name: str) -> str:
        """The interval of a value for people; empty if it has none."""
        return " to ".join(map(number_text, self.intervals.get(name, ())))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        intervals = {name: list(ends) for name, ends in self.intervals.items()}
        values, notes = dict(self.values), list(self.notes)
        record = {**vars(self), "values": values, "intervals": intervals, "notes": notes}
        del record["resamples"]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Measured":
        """What `to_dict` wrote.

        Raises:
            InputError: If something is missing.
        """
        try:
            values = {each.name: record[each.name] for each in fields(cls) if each.compare}
        except KeyError as error:
            raise InputError(
                f"what was measured has no {error.args[0]!r}; it must have values, primary, "
                "higher_is_better, count, intervals and notes; measure again."
            ) from error
        values["intervals"] = {
            name: (low, high) for name, (low, high) in values["intervals"].items()
        }
        return cls(**values | {"notes": tuple(values["notes"])})


def with_primary(measured: Measured, name: str, setting: str = "metric") -> Measured:
    """The same with another value that decides: the name of a value, or of a GLUE task (`mrpc`).

    Args:
        measured: What was measured.
        name: The value that decides.
        setting: What named it, for the message.

    Raises:
        UnknownName: If there is no such value.
    """
    chosen = GLUE_METRICS.get(name, name)
    if chosen not in measured.values:
        raise UnknownName(setting, chosen, measured.values)
    return replace(measured, primary=chosen, higher_is_better=chosen not in LOWER_IS_BETTER)


def best_of(measured: Sequence[Measured], cost: str | None = None) -> int:
    """The index of the best of several; of equal ones the one that costs less, then the first.

    Args:
        measured: What was measured, by the same values.
        cost: Which value is what an item costs; None if none is.
    """
    best = 0
    for index, each in enumerate(measured):
        before = measured[best]
        if cost is not None and each.value == before.value:
            better = each.values[cost] < before.values[cost]
        else:
            better = each.better_than(before)
        best = index if better else best
    return best


def number_text(value: float | None) -> str:
    """A value with three decimals, or with three significant digits if it is tiny."""
    if value is None:
        return ""
    return f"{value:.2e}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"
