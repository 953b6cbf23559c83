"""The curves of a run: which lines of its metrics become which panels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clozeworks.inference.exposure import Exposure
from clozeworks.reports.charts import Level, Line, Panel, Points, Ring, draw_png
from clozeworks.reports.summary import SeedSummary
from clozeworks.tasks.metrics.measured import Measured

MetricRecords = Sequence[Mapping[str, Any]]

GUESSING = "guessing by frequency"
# More points than this cannot be told apart on a screen.
_MOST_POINTS = 500


@dataclass(frozen=True)
class GuessingLoss:
    """What guessing tokens by their frequency costs on the held-out text."""

    loss_name: str
    """The loss of the objective it compares with."""
    loss: float
    """Its mean."""
    accuracy: float
    """The fraction of right guesses."""


def pretraining_panels(records: MetricRecords, guessing: GuessingLoss | None) -> list[Panel]:
    """The curves of a pre-training run, from the lines of its metrics file."""
    training = [record for record in records if "evaluation" not in record]
    held_out = [
        {"step": record["step"], **record["evaluation"]}
        for record in records
        if isinstance(record.get("evaluation"), dict)
    ]
    names = list(dict.fromkeys(name for r in [*training, *held_out] for name in _losses(r)))
    panels = []
    accuracy: list[Line] = []
    level = None
    for colour, name in enumerate(names):
        losses = _pair("loss", name, training, held_out, colour)
        compared = None
        if guessing is not None and guessing.loss_name == name:
            compared = Level(GUESSING, guessing.loss, colour)
            level = Level(GUESSING, guessing.accuracy, colour)
        panels.append(Panel(f"loss: {name}", losses, level=compared))
        accuracy += _pair("accuracy", name, training, held_out, colour, f"{name}, ")
    panels.append(Panel("accuracy", accuracy, lambda y: f"{y:.0%}", level, at_least=0.0))
    for key, title, form in (
        ("learning_rate", "learning rate", lambda y: f"{y:.1e}" if y else "0"),
        ("tokens_per_second", "tokens per second", lambda y: f"{y:,.0f}"),
    ):
        line = Line(title, _thinned((r["step"], r.get(key)) for r in training), 0)
        panels.append(Panel(title, [line], form, at_least=0.0))
    return [panel for panel in panels if any(line.points for line in panel.lines)]


def finetuning_panels(
    runs: Sequence[SeedSummary], loss_name: str, guess: Measured | None, baseline: str = "guessing"
) -> list[Panel]:
    """Loss, and the primary metric beside that of guessing, over the steps of every seed."""
    primary = runs[0].measured.primary
    losses: list[Line] = []
    values: list[Line] = []
    rings: list[tuple[Ring, ...]] = [(), ()]
    loss = (loss_name, "loss")
    paths = (loss, ("evaluation", *loss), ("judged", "values", primary))
    for colour, run in enumerate(runs):
        seed = f"seed {run.seed}, " if len(runs) > 1 else ""
        trained, dev, scored = (
            _thinned((record["step"], _value(record, path)) for record in run.records)
            for path in paths
        )
        losses += [
            Line(f"{seed}training", trained, colour),
            Line(f"{seed}dev set", dev, colour, thick=True),
        ]
        values.append(Line(f"{seed}dev set", scored, colour, thick=True))
        for number, points in enumerate((dev, scored)):
            rings[number] += tuple(
                Ring(point, colour, f"{seed}best step {run.step:,}: {point[1]:.4f}")
                for point in points
                if point[0] == run.step
            )
    level = None
    if guess is not None and math.isfinite(guess.value):
        level = Level(baseline, guess.value)
    panels = [
        Panel("loss", losses, rings=rings[0], at_least=0.0),
        Panel(primary, values, level=level, rings=rings[1]),
    ]
    return [panel for panel in panels if any(line.points for line in panel.lines)]


def exposure_chart(exposure: Exposure) -> bytes:
    """A PNG with two curves: loss after the right tokens, and after the model's own."""
    forced: Points = [(each.position, each.teacher_forced) for each in exposure.positions]
    free: Points = [(each.position, each.free_running) for each in exposure.positions]
    lines = [
        Line("after the right tokens", forced, 0, thick=True),
        Line("after its own tokens", free, 1, thick=True),
    ]
    return draw_png([Panel("loss by position", lines, across="tokens generated")])


def _pair(
    key: str,
    name: str,
    training: MetricRecords,
    held_out: MetricRecords,
    colour: int,
    prefix: str = "",
) -> list[Line]:
    """A curve on training text and one on held-out text."""
    trained, measured = (
        _thinned((record["step"], _value(record, (name, key))) for record in records)
        for records in (training, held_out)
    )
    return [
        Line(f"{prefix}training", trained, colour),
        Line(f"{prefix}held-out", measured, colour, thick=True),
    ]


def _value(record: Any, path: Iterable[str]) -> Any:
    """What a record holds under nested keys; an empty table if it holds nothing."""
    for key in path:
        record = record.get(key, {})
    return record


def _losses(record: Mapping[str, Any]) -> list[str]:
    return [name for name, part in record.items() if isinstance(part, dict) and "loss" in part]


def _thinned(pairs: Iterable[tuple[int, Any]]) -> Points:
    """The points that are numbers; of very many, means of neighbours."""
    points = [
        (float(step), float(value))
        for step, value in pairs
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    width = math.ceil(len(points) / _MOST_POINTS)
    if width <= 1:
        return points
    groups = [points[start : start + width] for start in range(0, len(points), width)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]
