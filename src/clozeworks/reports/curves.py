"""The curves of a run: loss, accuracy, rate and speed over its steps.

The same panels are drawn twice: together as a PNG, and each by itself as SVG for a page. Colours
of the SVG are CSS variables, so that a page can show them on dark ground, too. matplotlib is
imported when something is drawn, not before.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[float, float]]
MetricRecords = Sequence[Mapping[str, Any]]

# The name of each colour on a page, and the colour itself on a light ground.
INK, FAINT, WARNING = "#20242b", "#d5d9e0", "#d42a2a"
SERIES = ("#2262d4", "#c26a00", "#0c8a5f", "#8a3fd1")
VARIABLES = {
    "ink": INK,
    "faint": FAINT,
    "warning": WARNING,
    **{f"series-{number}": colour for number, colour in enumerate(SERIES)},
}

# More points than this cannot be told apart on a screen.
_MOST_POINTS = 500
_SIZE = (4.6, 3.3)  # inches of one panel
_SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "clozeworks",
}


@dataclass(frozen=True)
class Line:
    """A curve: measured on training text, or on held-out text."""

    label: str
    points: Points
    colour: int
    held_out: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with."""

    label: str
    value: float
    colour: int


@dataclass(frozen=True)
class Marks:
    """What happened at which step, for all panels."""

    spikes: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    borders: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: MetricRecords, borders: Mapping[int, str]) -> "Marks":
        """The marks of a run, up to where it is.

        Args:
            records: What was measured.
            borders: The steps at which stages after the first begin, and their names.
        """
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
    lines: list[Line]
    written: Callable[[float], str]
    level: Level | None = None
    at_least: float | None = None
    """A value the axis must reach down to."""
    across: str = "step"
    """What is counted from left to right."""


def panels(
    records: MetricRecords, baseline: Mapping[str, float] | None, guessed: str
) -> list[Panel]:
    """What there is to draw of a run.

    Args:
        records: What was measured.
        baseline: Loss and accuracy of guessing by frequency.
        guessed: The part of the objective the baseline belongs to.
    """
    training = [record for record in records if "evaluation" not in record]
    held_out = [
        {"step": record["step"], **record["evaluation"]}
        for record in records
        if isinstance(record.get("evaluation"), dict)
    ]
    names = list(dict.fromkeys(name for r in [*training, *held_out] for name in _parts(r)))
    found = []
    accuracy: list[Line] = []
    for colour, name in enumerate(names):
        losses = _pair("loss", name, training, held_out, colour)
        told = name == guessed and baseline is not None
        level = Level("guessing by frequency", baseline["loss"], colour) if told else None  # type: ignore[index]
        found.append(Panel(f"loss: {name}", losses, _short, level))
        accuracy += _pair("accuracy", name, training, held_out, colour, name)
    level = None
    if baseline is not None and guessed in names:
        level = Level("guessing by frequency", baseline["accuracy"], names.index(guessed))
    found.append(Panel("right answers", accuracy, lambda y: f"{y:.0%}", level, 0.0))
    for key, title, written in (
        ("rate", "learning rate", lambda y: f"{y:.1e}" if y else "0"),
        ("tokens_per_second", "tokens a second", lambda y: f"{y:,.0f}"),
    ):
        line = Line(title, _thinned((r["step"], r.get(key)) for r in training), 0)
        found.append(Panel(title, [line], written, None, 0.0))
    return [panel for panel in found if any(line.points for line in panel.lines)]


def draw_png(shown: Sequence[Panel], marks: Marks) -> bytes:
    """All panels in one picture."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = 2 if len(shown) > 1 else 1
    rows = math.ceil(len(shown) / columns)
    with rc_context(_SETTINGS):
        figure = Figure(
            figsize=(_SIZE[0] * columns, _SIZE[1] * rows), dpi=130, layout="constrained"
        )
        places = figure.subplots(rows, columns, squeeze=False).flat
        for place, axes in enumerate(places):
            if place < len(shown):
                _draw(axes, shown[place], marks, named=place == 0)
            else:
                axes.remove()
        return _saved(figure, "png")


def draw_svg(shown: Sequence[Panel], marks: Marks) -> list[str]:
    """Each panel as an SVG element to put into a page; colours are CSS variables."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn = []
    with rc_context(_SETTINGS):
        for place, panel in enumerate(shown):
            figure = Figure(figsize=_SIZE, layout="constrained")
            _draw(figure.subplots(), panel, marks, named=place == 0)
            drawn.append(_inlined(_saved(figure, "svg").decode(), place, panel.title))
    return drawn


def _pair(
    key: str,
    name: str,
    training: MetricRecords,
    held_out: MetricRecords,
    colour: int,
    label: str | None = None,
) -> list[Line]:
    """A part's curve on training text and on held-out text."""
    each = [
        _thinned((record["step"], record.get(name, {}).get(key)) for record in records)
        for records in (training, held_out)
    ]
    first, second = ("training", "held-out text")
    if label is not None:
        first, second = f"{label}, training", f"{label}, held-out"
    return [Line(first, each[0], colour), Line(second, each[1], colour, held_out=True)]


def _parts(record: Mapping[str, Any]) -> list[str]:
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


def _draw(axes: "Axes", panel: Panel, marks: Marks, *, named: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for line in panel.lines:
        if not line.points:
            continue
        single = line.held_out or len(line.points) == 1
        axes.plot(
            *zip(*line.points, strict=True),
            color=SERIES[line.colour % len(SERIES)],
            label=line.label,
            linewidth=1.8 if line.held_out else 1.0,
            alpha=1.0 if line.held_out else 0.55,
            marker="o" if single and len(line.points) <= 60 else None,
            markersize=3,
        )
    if panel.level is not None:
        colour = SERIES[panel.level.colour % len(SERIES)]
        axes.axhline(
            panel.level.value,
            color=colour,
            linestyle=(0, (5, 3)),
            linewidth=1.2,
            label=panel.level.label,
        )
    _mark(axes, marks, named=named)
    if panel.at_least is not None:
        axes.set_ylim(bottom=min(panel.at_least, axes.get_ylim()[0]))
    axes.set_title(panel.title, color=INK, loc="left")
    axes.set_xlabel(panel.across, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: panel.written(y)))
    axes.tick_params(colors=INK, length=3)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.patch.set_alpha(0)
    for name, spine in axes.spines.items():
        spine.set_color(FAINT)
        spine.set_visible(name in ("left", "bottom"))
    handles, labels = axes.get_legend_handles_labels()
    if labels and labels != [panel.title]:
        # Below the axes, where it hides nothing.
        axes.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.19),
            ncols=1 if max(map(len, labels)) > 28 else 2,
            frameon=False,
            labelcolor=INK,
            borderaxespad=0,
        )


def _mark(axes: "Axes", marks: Marks, *, named: bool) -> None:
    for steps, sign, label in (
        (marks.spikes, "v", "loss far above the usual"),
        (marks.skipped, "x", "update left out"),
    ):
        if steps:
            axes.plot(
                steps,
                [0.98] * len(steps),
                sign,
                transform=axes.get_xaxis_transform(),
                color=WARNING,
                markersize=5,
                label=label if named else None,
                clip_on=False,
            )
    for step, name in marks.borders.items():
        text = f"from step {step:,} on {name}" if named else None
        axes.axvline(step, color=INK, linestyle=":", linewidth=1, label=text)


def _saved(figure: "Figure", kind: str) -> bytes:
    stream = BytesIO()
    if kind == "svg":
        figure.savefig(stream, format=kind, transparent=True, metadata={"Date": None})
    else:
        figure.savefig(stream, format=kind)
    return stream.getvalue()


def _inlined(svg: str, place: int, title: str) -> str:
    """An SVG file as an element of a page: names of its own, colours as variables."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Its style sheet would hold for the whole page; the page has the rule for all its charts.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    for before in ('id="', "url(#", 'href="#'):
        svg = svg.replace(before, f"{before}panel-{place}-")
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
    for name, colour in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    return svg.strip()


def _short(value: float) -> str:
    return f"{value:.3g}"
