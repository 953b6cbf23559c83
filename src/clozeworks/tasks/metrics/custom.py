"""A metric of the user's own: a function of what is right and what was predicted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from clozeworks.errors import SettingError, Stated
from clozeworks.tasks.metrics.measured import Measured, with_primary

# From what is right and what was predicted, item by item, to a number. Higher is better, unless the
# function has an attribute `higher_is_better` that says otherwise.
Metric = Callable[[Sequence[Any], Sequence[Any]], float]


def metric_name(metric: Metric | str) -> str:
    """What a metric is called: by its name, or that of its function or class."""
    if isinstance(metric, str):
        return metric
    name = getattr(metric, "__name__", type(metric).__name__)
    return "metric" if name == "<lambda>" else str(name)


def with_metric(
    measured: Measured, metric: Metric | str | None, pairs: Sequence[tuple[Any, Any]]
) -> Measured:
    """What was measured, with another value that decides: one of its values, or a user's own.

    Args:
        measured: The usual values.
        metric: The name of a value or of a GLUE task, a function of what is right and what was
            predicted, or None to leave it as it is.
        pairs: What is right and what was predicted for each item.

    Raises:
        UnknownName: If there is no value of that name.
        SettingError: If the function returns something other than a number.
    """
    if metric is None or isinstance(metric, str):
        return measured if metric is None else with_primary(measured, metric)
    name = metric_name(metric)
    value: Any = metric([gold for gold, _ in pairs], [predicted for _, predicted in pairs])
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        rule = f"it returned {value!r}, and must return a number"
        raise SettingError("metric", Stated(f"the function {name}"), rule) from error
    return replace(
        measured,
        values={**measured.values, name: number},
        primary=name,
        higher_is_better=bool(getattr(metric, "higher_is_better", True)),
        notes=(
            *measured.notes,
            *([f"{name} is not a number here."] if math.isnan(number) else []),
        ),
    )
