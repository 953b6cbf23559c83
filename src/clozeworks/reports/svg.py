"""Small charts as SVG, for a page: axes with round numbers, lines, dots, bars and a grid of cells.

They are written by hand: their colours and letters are those of the page, on dark ground too, and
a run need not wait for a drawing library at its end. Shapes are given in the numbers of the axes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from unicodedata import east_asian_width

Point = tuple[float, float]

WIDTH, HEIGHT = 460.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 12.0, 12.0, 44.0
_COLOURS = 4


def colour(number: int) -> str:
    """One of the page's colours for series."""
    return f"var(--series-{number % _COLOURS})"


def round_steps(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from one value to another, both of them inside if they are round."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


@dataclass
class Chart:
    """Axes and what is drawn on them.

    Attributes:
        title: What it shows, for those who do not see it.
        across: The least and the largest number of the lower axis.
        up: The same of the left one.
        labels: What the two axes are called.
        whole: Whether the lower axis has whole numbers only.
    """

    title: str
    across: tuple[float, float]
    up: tuple[float, float]
    labels: tuple[str, str] = ("", "")
    whole: bool = False
    _drawn: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.across, self.up = _apart(*self.across), _apart(*self.up)

    def line(self, points: Sequence[Point], stroke: str, kind: str = "") -> None:
        """A line through points."""
        if len(points) == 1:
            self.dots(points, stroke)
        elif points:
            places = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
            self._drawn.append(f'<polyline class="{kind}" points="{places}" stroke="{stroke}"/>')

    def dots(self, points: Iterable[Point], fill: str, size: float = 2.6, kind: str = "") -> None:
        """A dot for each point."""
        self._drawn += [
            f'<circle class="{kind}" cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="{size}" '
            f'fill="{fill}"/>'
            for x, y in points
        ]

    def ring(self, point: Point, stroke: str, title: str) -> None:
        """A ring around a point that counts; its title is shown when pointed at."""
        x, y = point
        self._drawn.append(
            f'<circle class="ring" cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="6" '
            f'stroke="{stroke}"><title>{escape(title)}</title></circle>'
        )

    def bar(self, begin: float, end: float, value: float, title: str) -> None:
        """A bar from the lower axis up to a value."""
        left, right, top = self._x(begin) + 1, self._x(end) - 1, self._y(value)
        bottom = self._y(self.up[0])
        self._drawn.append(
            f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{max(0.0, bottom - top):.1f}"><title>{escape(title)}</title></rect>'
        )

    def svg(self) -> str:
        """The chart as an element of a page."""
        inside = "".join([*self._axes(), *self._drawn])
        return (
            f'<svg class="chart" role="img" aria-label="{escape(self.title)}" '
            f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}">{inside}</svg>'
        )

    def _x(self, value: float) -> float:
        low, high = self.across
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        low, high = self.up
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def _axes(self) -> list[str]:
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        found = []
        for value in round_steps(*self.up):
            y = self._y(value)
            found.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
            found.append(_text(_number(value), _LEFT - 6, y + 4, "end"))
        for value in round_steps(*self.across):
            if self.whole and value != round(value):
                continue
            x = self._x(value)
            found.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
            found.append(_text(_number(value), x, bottom + 16, "middle"))
        below, beside = self.labels
        found.append(_text(below, (_LEFT + right) / 2, HEIGHT - 8, "middle name"))
        found.append(_text(beside, 13, (_TOP + bottom) / 2, "middle name", turned=-90))
        return found


def cells(
    title: str, labels: Sequence[str], counts: Sequence[Sequence[int]], named: tuple[str, str]
) -> str:
    """A square of numbers: the more of its row a cell holds, the darker it is.

    Args:
        title: What it shows, for those who do not see it.
        labels: What rows and columns are called.
        counts: The numbers, row by row.
        named: What rows are, and what columns are.
    """
    size = 52.0 if len(labels) <= 8 else 36.0
    short = [label if len(label) <= 18 else f"{label[:17]}…" for label in labels]
    wide = 7.2 * max(map(_letters, short))
    left, top = wide + 34, wide * 0.75 + 40
    width, height = left + size * len(labels) + 0.6 * wide, top + size * len(labels) + 6
    drawn = [
        _text(named[0], 12, (top + height) / 2, "middle name", turned=-90),
        _text(named[1], left, 14, "name"),
    ]
    for place, label in enumerate(short):
        middle = (place + 0.5) * size
        drawn.append(_text(label, left - 6, top + middle + 4, "end"))
        drawn.append(_text(label, left + middle + 3, top - 6, turned=-45))
    for row, numbers in enumerate(counts):
        total = max(1, sum(numbers))
        for column, count in enumerate(numbers):
            x, y, share = left + column * size, top + row * size, count / total
            kind = "right" if row == column else "wrong"
            hint = f"{labels[row]} → {labels[column]}: {count:,} ({share:.1%})"
            square = f'x="{x:.1f}" y="{y:.1f}" width="{size - 2:g}" height="{size - 2:g}"'
            drawn.append(
                f'<g><title>{escape(hint)}</title><rect class="cell" {square}/>'
                f'<rect class="{kind}" {square} fill-opacity="{share:.3f}"/>'
            )
            if count:
                # The ground is dark where the share is large.
                shade = "middle over" if share > 0.55 else "middle"
                drawn.append(_text(f"{count:,}", x + size / 2 - 1, y + size / 2 + 3, shade))
            drawn.append("</g>")
    return (
        f'<svg class="chart cells" role="img" aria-label="{escape(title)}" '
        f'style="max-width: {width:.0f}px" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"{''.join(drawn)}</svg>"
    )


def _text(words: str, x: float, y: float, kind: str = "", turned: int = 0) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}"'
    if turned:
        where = f'transform="translate({x:.1f} {y:.1f}) rotate({turned})"'
    return f'<text class="{kind}" {where}>{escape(words)}</text>'


def _letters(text: str) -> int:
    """How many Latin letters are as wide as a text."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """What the lines of a chart are: a class for the sign, its colour, and a name for each."""
    found = (
        f'<span><i class="{kind}" style="color: {stroke}"></i>{escape(name)}</span>'
        for kind, stroke, name in entries
    )
    return f'<p class="legend">{"".join(found)}</p>'


def figure(caption: str, *inside: str) -> str:
    """A chart with what it shows."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{''.join(inside)}</figure>"


def _apart(low: float, high: float) -> tuple[float, float]:
    """An axis needs two ends."""
    if high > low:
        return low, high
    width = max(abs(low) * 0.1, 0.5)
    return low - width, low + width


def _number(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:.1e}"
