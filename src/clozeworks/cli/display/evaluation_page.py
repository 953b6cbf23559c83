"""What `clozeworks evaluate` prints: values, then how well each label is known."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from clozeworks.cli.display.table import aligned, cut

if TYPE_CHECKING:
    from clozeworks.tasks.metrics.labels import LabelScores
    from clozeworks.tasks.metrics.measured import Measured

# A larger table of mistakes cannot be read in a terminal.
MOST_CONFUSED = 12
# Cells of a label.
_WIDEST = 24


@dataclass(frozen=True)
class Details:
    """How well each label is known.

    Attributes:
        what: What a label is called: label, tag or type.
        labels: Precision, recall and F1 of each.
        confusion: How often each label was taken for each other one, (right, given); empty if
            there are too many, or if it makes no sense.
    """

    what: str = "label"
    labels: "tuple[LabelScores, ...]" = ()
    confusion: tuple[tuple[int, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        found: dict[str, Any] = {}
        if self.labels:
            found[f"by_{self.what}"] = [asdict(each) for each in self.labels]
        if self.confusion:
            found["confusion"] = [list(row) for row in self.confusion]
        return found


def details_of(task: Any, items: Sequence[Any], answers: Sequence[Any]) -> Details:
    """How well each label of a task is known.

    Args:
        task: The task.
        items: Labelled items.
        answers: What the model said.
    """
    known = task.known_labels(items, answers)
    few = len(known.confusion) <= MOST_CONFUSED
    return Details(known.what, known.labels, known.confusion if few else ())


def page(title: str, measured: "Measured", details: Details) -> str:
    """The whole page.

    Args:
        title: Its first line.
        measured: The values; the primary one stands first.
        details: How well each label is known.
    """
    lines = [title, "", *values_table(measured)]
    if details.labels:
        head = (details.what, "precision", "recall", "f1", "count")
        rows = [
            (
                _short(each.label),
                *map(number, (each.precision, each.recall, each.f1)),
                f"{each.support:,}",
            )
            for each in details.labels
        ]
        lines += ["", *aligned([head, *rows])]
    if details.confusion:
        names = [_short(each.label) for each in details.labels]
        counts = [
            (name, *(f"{count:,}" for count in row))
            for name, row in zip(names, details.confusion, strict=True)
        ]
        lines += ["", "right (down) and given (across)", *aligned([("", *names), *counts])]
    if measured.remarks:
        lines += ["", *(f"note: {note}" for note in measured.remarks)]
    return "\n".join(lines)


def values_table(measured: "Measured") -> list[str]:
    """A line for each value with its interval, the primary one first."""
    names = [measured.primary]
    # What is known of each type of entity stands in a table of its own.
    names += [name for name in measured.values if name not in names and " " not in name]
    rows = [["", "value", "95 % interval"]]
    for name in names:
        low, high = measured.intervals.get(name, (math.nan, math.nan))
        interval = "" if math.isnan(low) else f"{number(low)} to {number(high)}"
        rows.append([name, number(measured.values[name]), interval])
    return aligned(rows)


def number(value: float) -> str:
    """A value with three digits behind the point, or with three that count if it is tiny."""
    return f"{value:.2e}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"


def _short(label: str) -> str:
    from clozeworks.cli.display.highlight import safe

    return cut(safe(label), _WIDEST)
