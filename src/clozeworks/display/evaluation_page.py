"""What `clozeworks evaluate` prints: values, then how well each label is known."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from clozeworks.display.table import aligned, cut
from clozeworks.wording import visible

if TYPE_CHECKING:
    from clozeworks.tasks.metrics.difference import Difference
    from clozeworks.tasks.metrics.labels import KnownLabels
    from clozeworks.tasks.metrics.measured import Measured

# Labels of a table of mistakes that can be read in a terminal.
MAX_CONFUSED = 12
# Cells of a label.
_WIDEST = 24


def with_small_confusion(known: "KnownLabels") -> "KnownLabels":
    """The same without a table of mistakes that cannot be read in a terminal."""
    return known if len(known.confusion) <= MAX_CONFUSED else replace(known, confusion=())


def labels_json(known: "KnownLabels") -> dict[str, Any]:
    """How well each label is known, as JSON can hold it."""
    record: dict[str, Any] = {}
    if known.labels:
        record[f"by_{known.what}"] = [asdict(each) for each in known.labels]
    if known.confusion:
        record["confusion"] = [list(row) for row in known.confusion]
    return record


def page(title: str, measured: "Measured", details: "KnownLabels") -> str:
    """The whole page: the values, the primary one first, then how well each label is known."""
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


def comparison(differences: "Sequence[Difference]") -> str:
    """A line for each value of two models, A and B, and what the one that decides says of them."""
    rows = [["", "A", "B", "B less A", "95 % interval", ""]]
    for each in differences:
        interval = f"{number(each.low)} to {number(each.high)}"
        values = map(number, (each.first, each.second, each.value))
        rows.append([each.name, *values, interval, "differs" if each.is_real else ""])
    return "\n".join([*aligned(rows), "", differences[0].sentence("A", "B")])


def values_table(measured: "Measured") -> list[str]:
    """A line for each value with its interval, the primary one first."""
    names = [measured.primary]
    # The types of entities have a table of their own.
    names += [name for name in measured.values if name not in names and " " not in name]
    rows = [["", "value", "95 % interval"]]
    for name in names:
        low, high = measured.intervals.get(name, (math.nan, math.nan))
        interval = "" if math.isnan(low) else f"{number(low)} to {number(high)}"
        rows.append([name, number(measured.values[name]), interval])
    return aligned(rows)


def number(value: float) -> str:
    """A value with three decimals, or with three significant digits if it is tiny."""
    return f"{value:.2e}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"


def _short(label: str) -> str:
    return cut(visible(label), _WIDEST)
