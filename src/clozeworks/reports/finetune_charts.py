"""The charts of a fine-tuning run: its curves, what was taken for what, how sure it may be."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clozeworks.jobs.finetune.baseline import GuessingBaseline
from clozeworks.jobs.finetune.run import RunResult
from clozeworks.reports.svg import Chart, Point, cells, colour, figure, legend
from clozeworks.tasks.metrics.calibration import Bin

MetricRows = Sequence[Mapping[str, Any]]
SeedLines = dict[int, list[Point]]

# More labels than this cannot be read in a square, more points not told apart.
MOST_CELLS = 30
MOST_POINTS = 2_000
_MOST_ON_A_LINE = 400
_INK = "var(--ink)"


def curves(
    results: Sequence[RunResult],
    records: Mapping[int, MetricRows],
    part: str,
    guess: GuessingBaseline | None,
) -> list[str]:
    """Loss, and the value that decides, over the steps of every seed.

    Args:
        results: What each seed came to.
        records: What each seed measured, by seed.
        part: The name of the task's loss.
        guess: What guessing comes to; a line to be above of.
    """
    primary = results[0].measured.primary
    losses: SeedLines = {}
    dev: SeedLines = {}
    values: SeedLines = {}
    for result in results:
        own = records.get(result.seed, ())
        losses[result.seed] = _points(own, lambda record: record.get(part, {}).get("loss"))
        dev[result.seed] = _points(
            own, lambda record: record.get("evaluation", {}).get(part, {}).get("loss")
        )
        values[result.seed] = _points(
            own, lambda record: record.get("judged", {}).get("values", {}).get(primary)
        )
    found = []
    if any(losses.values()) or any(dev.values()):
        found.append(_loss(results, losses, dev))
    if any(values.values()):
        found.append(_value(results, values, primary, guess))
    return found


def _loss(
    results: Sequence[RunResult],
    losses: SeedLines,
    dev: SeedLines,
) -> str:
    every = [point for lines in (losses, dev) for line in lines.values() for point in line]
    chart = Chart(
        "loss over steps", _range(every, 0, 0.0), _range(every, 1, 0.0), ("step", "loss"), True
    )
    for place, result in enumerate(results):
        chart.line(_thinned(losses[result.seed]), colour(place), "thin")
        chart.line(dev[result.seed], colour(place))
        chart.dots(dev[result.seed], colour(place))
        for point in dev[result.seed]:
            if point[0] == result.step:
                chart.ring(point, colour(place), f"seed {result.seed}: kept, step {result.step:,}")
    signs = [("thin", _INK, "training"), ("thick", _INK, "dev set"), ("ringed", _INK, "kept")]
    return figure("Loss", chart.svg(), legend([*signs, *_seeds(results)]))


def _value(
    results: Sequence[RunResult],
    values: SeedLines,
    primary: str,
    guess: GuessingBaseline | None,
) -> str:
    every = [point for line in values.values() for point in line]
    across, up = _range(every, 0, 0.0), _range(every, 1)
    level = guess.measured.value if guess is not None else None
    if level is not None and math.isfinite(level):
        up = (min(up[0], level), max(up[1], level))
    chart = Chart(f"{primary} over steps", across, _with_room(up), ("step", primary), True)
    if level is not None and math.isfinite(level):
        chart.line([(chart.across[0], level), (chart.across[1], level)], _INK, "dashed")
    for place, result in enumerate(results):
        chart.line(values[result.seed], colour(place))
        chart.dots(values[result.seed], colour(place))
        for point in values[result.seed]:
            if point[0] == result.step:
                title = f"seed {result.seed}: best, {point[1]:.4f} at step {result.step:,}"
                chart.ring(point, colour(place), title)
    signs = [("ringed", _INK, "best")]
    if level is not None:
        signs.append(("dashed", _INK, "guessing"))
    return figure(f"{primary} on the dev set", chart.svg(), legend([*signs, *_seeds(results)]))


def _seeds(results: Sequence[RunResult]) -> list[tuple[str, str, str]]:
    return [("thick", colour(place), f"seed {each.seed}") for place, each in enumerate(results)]


def confusion_chart(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """How often each label was taken for each other one."""
    drawn = cells("right and given labels", labels, counts, ("right", "given by the model"))
    return figure("What was taken for what", drawn)


def calibration_chart(bins: Sequence[Bin]) -> str:
    """How often answers are right, by how sure the model was of them."""
    chart = Chart(
        "confidence and accuracy", (0.0, 1.0), (0.0, 1.0), ("how sure", "how often right")
    )
    for each in bins:
        if each.count:
            title = f"{each.count:,} answers, {each.confidence:.1%} sure, {each.accuracy:.1%} right"
            chart.bar(each.low, each.high, each.accuracy, title)
    chart.line([(0.0, 0.0), (1.0, 1.0)], _INK, "dashed")
    chart.dots([(each.confidence, each.accuracy) for each in bins if each.count], colour(0), 3.2)
    names = [("dashed", _INK, "as often right as sure"), ("dot", colour(0), "answers of a bin")]
    return figure("Is it as often right as it is sure?", chart.svg(), legend(names))


def scatter_chart(gold: Sequence[float], said: Sequence[float]) -> str:
    """Right numbers against given ones; of very many, some that are evenly spread."""
    points = list(zip(gold, said, strict=True))
    places = np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS)).round().astype(int)
    points = [points[place] for place in places.tolist()]
    # One range for both, so that numbers that are all alike look alike.
    every = [(number, number) for point in points for number in point]
    ends = _with_room(_range(every, 0))
    chart = Chart("right and given numbers", ends, ends, ("right", "given by the model"))
    chart.line([(end, end) for end in chart.across], _INK, "dashed")
    chart.dots(points, colour(0), 3.0, "faint")
    names = [("dashed", _INK, "exactly right"), ("dot", colour(0), "an item")]
    return figure("Right numbers and given ones", chart.svg(), legend(names))


def _points(records: MetricRows, value: Any) -> list[Point]:
    found = []
    for record in records:
        number = value(record)
        if isinstance(number, int | float) and math.isfinite(number):
            found.append((float(record["step"]), float(number)))
    return found


def _thinned(points: list[Point]) -> list[Point]:
    """Of very many points means of neighbours."""
    width = math.ceil(len(points) / _MOST_ON_A_LINE)
    if width <= 1:
        return points
    groups = [points[begin : begin + width] for begin in range(0, len(points), width)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _range(points: Sequence[Point], place: int, least: float | None = None) -> tuple[float, float]:
    numbers = [point[place] for point in points]
    low, high = min(numbers), max(numbers)
    return (low if least is None else min(low, least)), high


def _with_room(ends: tuple[float, float]) -> tuple[float, float]:
    """A little more at both ends, so that rings and dots are not cut."""
    room = 0.06 * (ends[1] - ends[0])
    return ends[0] - room, ends[1] + room
