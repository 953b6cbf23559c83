"""Every chart of a report, drawn by matplotlib: SVG for a page, PNG for a file.

The colours of an SVG are CSS variables, so that a page stays readable on a dark background. The
same data give the same bytes. matplotlib is imported when something is drawn, not before, and
without `pyplot`, which would keep figures alive.
"""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from clozeworks.tasks.results.details import CalibrationCurve, ConfusionMatrix, ScatterPlot
from clozeworks.wording import shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[float, float]]

# The name of each colour on a page, and the colour itself on a light background.
INK, FAINT, WARNING, GROUND = "#20242b", "#d5d9e0", "#d42a2a", "#ffffff"
SERIES = ("#2262d4", "#c26a00", "#0c8a5f", "#8a3fd1")
VARIABLES = {
    "ink": INK,
    "faint": FAINT,
    "warning": WARNING,
    "ground": GROUND,
    **{f"series-{number}": colour for number, colour in enumerate(SERIES)},
}

# A larger confusion matrix cannot be read; more points cannot be told apart.
MOST_LABELS = 30
MOST_POINTS = 2_000
_LONGEST_LABEL = 18
_SIZE = (4.6, 3.3)  # inches of one panel
_REM = 7  # of a page, for each inch
_LETTER = 0.075  # inches of a letter
_DASHED = (0, (5, 3))
_SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "clozeworks",
    "text.parse_math": False,
}


@dataclass(frozen=True)
class Line:
    """A curve; a thick one is measured on text that was not trained on."""

    label: str
    points: Points
    colour: int
    thick: bool = False


@dataclass(frozen=True)
class Level:
    """A dashed horizontal line to compare with; without a colour it belongs to no curve."""

    label: str
    value: float
    colour: int | None = None


@dataclass(frozen=True)
class Ring:
    """A ring around a point; `tip` is shown when the pointer is over it."""

    point: tuple[float, float]
    colour: int
    tip: str


@dataclass(frozen=True)
class Marks:
    """Events of a run, by step, which all panels show."""

    spikes: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    borders: Mapping[int, str] = field(default_factory=dict)
    """The steps at which stages after the first begin, and their names."""

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], borders: Mapping[int, str]) -> "Marks":
        """The events of a run up to its last step, from the lines of its metrics file."""
        last = max((record["step"] for record in records), default=0)
        return cls(
            [record["step"] for record in records if record.get("spikes")],
            [record["step"] for record in records if record.get("skipped")],
            {step: name for step, name in borders.items() if step <= last},
        )


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    title: str
    """What it shows."""
    lines: list[Line]
    format_value: Callable[[float], str] = lambda value: f"{value:.3g}"
    """How numbers of the vertical axis are written."""
    level: Level | None = None
    """A line to compare with."""
    rings: tuple[Ring, ...] = ()
    """Points that are emphasised."""
    at_least: float | None = None
    """A value the vertical axis must reach down to."""
    across: str = "step"
    """What the horizontal axis counts."""


@dataclass(frozen=True)
class Bars:
    """Heights between edges, of which there is one more."""

    edges: Sequence[float]
    heights: Sequence[float]


def draw_png(panels: Sequence[Panel], marks: Marks | None = None) -> bytes:
    """All panels in one picture."""
    columns = 2 if len(panels) > 1 else 1
    rows = math.ceil(len(panels) / columns)
    with _drawing((_SIZE[0] * columns, _SIZE[1] * rows), dpi=130, layout="constrained") as figure:
        for number, axes in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
            if number < len(panels):
                _draw(axes, panels[number], marks or Marks(), named=number == 0)
            else:
                axes.remove()
        return _saved(figure, "png")


def draw_svg(panels: Sequence[Panel], marks: Marks | None = None) -> list[str]:
    """Each panel as an SVG element of a page."""
    drawn = []
    for number, panel in enumerate(panels):
        with _drawing(_SIZE, layout="constrained") as figure:
            tips = _draw(figure.subplots(), panel, marks or Marks(), named=number == 0)
            drawn.append(_svg(figure, panel.title, tips))
    return drawn


def confusion_chart(matrix: ConfusionMatrix) -> str:
    """How often each label was predicted for each other: the more often, the darker a cell.

    The result is empty if there are no labels, or too many to read.
    """
    from matplotlib.patches import Rectangle

    count, title = len(matrix.labels), "Confusion matrix"
    if not 0 < count <= MOST_LABELS:
        return ""
    labels = [shortened(" ".join(label.split()), _LONGEST_LABEL) for label in matrix.labels]
    # Trap: the font that measures text has no Chinese, so the room for labels is counted by hand.
    wide = _LETTER * max(map(_letters, labels))
    side = count * (0.46 if count <= 8 else 0.32)
    left, above = wide + 0.4, 0.75 * wide + 0.75
    width, height = left + side + max(0.7 * wide, 1.4 - side), above + side + 0.1
    tips: dict[str, str] = {}
    with _drawing((width, height)) as figure:
        axes = figure.add_axes((left / width, 0.1 / height, side / width, side / height))
        axes.set(xlim=(0, count), ylim=(count, 0))
        for row, counts in enumerate(matrix.counts):
            total = max(1, sum(counts))
            for column, cell in enumerate(counts):
                fraction = cell / total
                colour = SERIES[0] if row == column else SERIES[1]
                square = axes.add_patch(
                    Rectangle((column, row), 1, 1, facecolor=colour, linewidth=0, alpha=fraction)
                )
                gold, predicted = matrix.labels[row], matrix.labels[column]
                _tip(tips, square, f"{gold} → {predicted}: {cell:,} ({fraction:.1%})")
                if cell:
                    # A cell is dark where the fraction is large.
                    over = GROUND if fraction > 0.55 else INK
                    axes.text(column + 0.5, row + 0.5, f"{cell:,}", color=over, ha="center",
                              va="center", fontsize=9 if count <= 8 else 7)  # fmt: skip
        middles = [number + 0.5 for number in range(count)]
        axes.set_xticks(middles, labels, rotation=45, ha="left", rotation_mode="anchor")
        axes.set_yticks(middles, labels)
        axes.set_xticks(range(count + 1), minor=True)
        axes.set_yticks(range(count + 1), minor=True)
        axes.xaxis.tick_top()
        _style(axes, "", "predicted", "gold", grid="minor")
        axes.tick_params(which="both", length=0)
        axes.xaxis.set_label_position("top")
        figure.text(0.04, 1 - 0.2 / height, title, color=INK, fontsize=10, va="center")
        return _svg(figure, title, tips)


def calibration_chart(curve: CalibrationCurve) -> str:
    """How often predictions are right, by how confident the model was."""
    title = "Calibration"
    tips: dict[str, str] = {}
    with _drawing(_SIZE, layout="constrained") as figure:
        axes = figure.subplots()
        bins = [each for each in curve.bins if each.count]
        for each in bins:
            (bar,) = axes.bar(
                each.low, each.accuracy, each.high - each.low, align="edge", color=SERIES[0],
                alpha=0.22, edgecolor=GROUND, linewidth=1,
            )  # fmt: skip
            sentence = f"{each.count:,} predictions, {each.confidence:.1%} confident, "
            _tip(tips, bar, f"{sentence}{each.accuracy:.1%} right")
        points = [(each.confidence, each.accuracy) for each in bins]
        axes.plot([0, 1], [0, 1], color=INK, linestyle=_DASHED, linewidth=1.2, label="ideal")
        if points:
            axes.plot(*zip(*points, strict=True), "o", color=SERIES[0], markersize=4, label="bins")
        axes.set(xlim=(0, 1), ylim=(0, 1.03))
        _style(axes, title, "confidence", "accuracy")
        _legend(axes, title)
        return _svg(figure, title, tips)


def scatter_chart(plot: ScatterPlot) -> str:
    """Gold numbers against predicted ones; of very many, some that are evenly spread."""
    title = "Gold and predicted numbers"
    points = _spread(list(zip(plot.gold, plot.predicted, strict=True)))
    # One range for both axes, so that numbers that are all alike look alike.
    ends = _with_margin([number for point in points for number in point])
    with _drawing(_SIZE, layout="constrained") as figure:
        axes = figure.subplots()
        axes.plot(ends, ends, color=INK, linestyle=_DASHED, linewidth=1.2, label="exactly right")
        axes.plot(*zip(*points, strict=True), "o", color=SERIES[0], alpha=0.55, markersize=4,
                  markeredgewidth=0, label="an item")  # fmt: skip
        axes.set(xlim=ends, ylim=ends)
        _style(axes, title, "gold", "predicted")
        _legend(axes, title)
        return _svg(figure, title, {})


def histogram_chart(title: str, across: str, up: str, bars: Mapping[str, Bars]) -> str:
    """How often numbers fall between equal steps, for one kind of number or several."""
    with _drawing(_SIZE, layout="constrained") as figure:
        axes = figure.subplots()
        for colour, (label, each) in enumerate(bars.items()):
            axes.stairs(each.heights, each.edges, fill=True, color=_series(colour), alpha=0.4,
                        label=label)  # fmt: skip
        axes.set_ylim(bottom=0)
        _style(axes, title, across, up)
        _legend(axes, title)
        return _svg(figure, title, {})


def cloud_chart(title: str, across: str, up: str, clouds: Mapping[str, Points]) -> str:
    """Points of two coordinates, for one kind or several; of very many, some of them."""
    with _drawing(_SIZE, layout="constrained") as figure:
        axes = figure.subplots()
        for colour, (label, points) in enumerate(clouds.items()):
            axes.plot(*zip(*_spread(points), strict=True), "o", color=_series(colour), alpha=0.4,
                      markersize=3, markeredgewidth=0, label=label)  # fmt: skip
        _style(axes, title, across, up)
        _legend(axes, title)
        return _svg(figure, title, {})


def _spread(points: Points) -> Points:
    """As many points as can be told apart, evenly spread over all."""
    step = max(1.0, (len(points) - 1) / (MOST_POINTS - 1))
    return [points[round(number * step)] for number in range(min(len(points), MOST_POINTS))]


@contextmanager
def _drawing(size: tuple[float, float], **options: Any) -> "Iterator[Figure]":
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS), warnings.catch_warnings():
        # A page has the fonts of its reader, and needs none of matplotlib's.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield Figure(figsize=size, **options)


def _draw(axes: "Axes", panel: Panel, marks: Marks, *, named: bool) -> dict[str, str]:
    """Draws a panel; what its rings say."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for line in panel.lines:
        if not line.points:
            continue
        dotted = (line.thick or len(line.points) == 1) and len(line.points) <= 60
        axes.plot(
            *zip(*line.points, strict=True), color=_series(line.colour), label=line.label,
            linewidth=1.8 if line.thick else 1.0, alpha=1.0 if line.thick else 0.55,
            marker="o" if dotted else None, markersize=3,
        )  # fmt: skip
    tips: dict[str, str] = {}
    for number, ring in enumerate(panel.rings):
        (drawn,) = axes.plot(
            *ring.point, "o", color=_series(ring.colour), markerfacecolor="none", markersize=10,
            markeredgewidth=1.5, label=None if number else "best", clip_on=False,
        )  # fmt: skip
        _tip(tips, drawn, ring.tip)
    if (level := panel.level) is not None:
        colour = INK if level.colour is None else _series(level.colour)
        axes.axhline(level.value, color=colour, linestyle=_DASHED, linewidth=1.2, label=level.label)
    _mark(axes, marks, named=named)
    if panel.at_least is not None:
        axes.set_ylim(bottom=min(panel.at_least, axes.get_ylim()[0]))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: panel.format_value(y)))
    _style(axes, panel.title, panel.across, "")
    _legend(axes, panel.title)
    return tips


def _mark(axes: "Axes", marks: Marks, *, named: bool) -> None:
    for steps, sign, label in (
        (marks.spikes, "v", "unusually high loss"),
        (marks.skipped, "x", "skipped update"),
    ):
        if steps:
            axes.plot(
                steps, [0.98] * len(steps), sign, transform=axes.get_xaxis_transform(),
                color=WARNING, markersize=5, label=label if named else None, clip_on=False,
            )  # fmt: skip
    for step, name in marks.borders.items():
        label = f"from step {step:,}: {name}" if named else ""
        axes.axvline(step, color=INK, linestyle=":", linewidth=1, label=label or None)


def _style(axes: "Axes", title: str, across: str, up: str, grid: Any = "major") -> None:
    axes.set_title(title, color=INK, loc="left")
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.tick_params(colors=INK, length=3)
    axes.grid(which=grid, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.patch.set_alpha(0)
    for name, spine in axes.spines.items():
        spine.set_color(FAINT)
        spine.set_visible(name in ("left", "bottom"))


def _legend(axes: "Axes", title: str) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if labels and labels != [title]:
        # Below the axes, where it hides nothing.
        axes.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(-0.02, -0.19), labelcolor=INK,
            ncols=1 if max(map(len, labels)) > 28 else 2, frameon=False, borderaxespad=0,
        )  # fmt: skip


def _series(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _tip(tips: dict[str, str], artist: "Artist", sentence: str) -> None:
    name = f"tip-{len(tips)}"
    artist.set_gid(name)
    tips[name] = sentence


def _saved(figure: "Figure", kind: str, **options: Any) -> bytes:
    """The bytes of a file with the figure."""
    stream = BytesIO()
    figure.savefig(stream, format=kind, **options)
    return stream.getvalue()


def _svg(figure: "Figure", title: str, tips: Mapping[str, str]) -> str:
    """A figure as an element of a page: unique ids, and colours as variables."""
    svg = _saved(figure, "svg", transparent=True, metadata={"Date": None}).decode()
    svg = svg[svg.index("<svg") :].strip()
    # Its style sheet would apply to the whole page, which has the same rule for all its charts.
    for pattern in (
        r"<metadata>.*?</metadata>\s*",
        r"<!--.*?-->\s*",
        r"<defs>\s*<style.*?</style>\s*</defs>\s*",
    ):
        svg = re.sub(pattern, "", svg, flags=re.DOTALL)
    for name, sentence in tips.items():
        svg = svg.replace(f'<g id="{name}">', f"<g><title>{escape(sentence)}</title>", 1)
    prefix = f"c{sha256(svg.encode()).hexdigest()[:8]}-"
    for before in ('id="', "url(#", 'href="#'):
        svg = svg.replace(before, f"{before}{prefix}")
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg\b[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    width = f"{figure.get_figwidth() * _REM:.1f}rem"
    attributes = f'role="img" aria-label="{escape(title)}" style="max-width: {width}"'
    svg = svg.replace("<svg", f"<svg {attributes}", 1)
    for name, colour in VARIABLES.items():
        svg = svg.replace(f": {colour}", f": var(--{name}, {colour})")
    return svg


def _letters(text: str) -> int:
    """How many Latin letters are as wide as a text."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _with_margin(numbers: Sequence[float]) -> tuple[float, float]:
    """The range of some numbers and a little more, so that dots are not cut."""
    low, high = min(numbers), max(numbers)
    margin = 0.06 * (high - low) or max(abs(low) * 0.1, 0.5)
    return low - margin, high + margin
