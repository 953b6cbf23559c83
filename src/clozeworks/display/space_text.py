"""What `clozeworks space` and `clozeworks whiten` print."""

from typing import TYPE_CHECKING

import numpy as np

from clozeworks.display.table import aligned
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.inference.space.measures import Space
    from clozeworks.inference.space.report import SpaceReport

_BAR, _ROWS = 40, 20


def space_text(report: "SpaceReport") -> str:
    """The whole page: measures with what they mean, a histogram, and sentences."""
    before = report.before
    lines = [
        f"{report.model}: {counted(before.texts, 'text')}, "
        f"{counted(before.dimensions, 'dimension')}",
        f"{report.pooling}",
    ]
    if report.repair:
        lines.append(f"repair: {report.repair}")
    rows = report.rows()
    if report.spearman is not None:
        after = "" if report.pairs is None else f"{report.pairs.second:.3f}"
        meaning = "of cosines with the scores of pairs; high is good"
        rows.append(("Spearman on pairs", f"{report.spearman:.3f}", after, meaning))
    if report.after is None:
        table = [("", "value", ""), *((name, value, what) for name, value, _, what in rows)]
        lines += ["", *aligned(table, left=(0, 2))]
    else:
        lines += ["", *aligned([("", "before", "after", ""), *rows], left=(0, 3))]
    lines += ["", "cosines of random pairs", *_histogram(before)]
    if report.after is not None:
        lines += ["after", *_histogram(report.after)]
    lines += ["", *report.findings()]
    if report.verdict():
        lines += ["", report.verdict()]
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def _histogram(space: "Space") -> list[str]:
    """Bars for parts of -1 to 1, from the first that has any pair to the last."""
    counts = space.cosines.reshape(_ROWS, -1).sum(axis=1)
    used = np.flatnonzero(counts)
    edges = np.round(np.linspace(-1, 1, _ROWS + 1), 1) + 0.0  # not -0.0
    rows = []
    for number in range(used[0], used[-1] + 1):
        bar = "█" * round(_BAR * counts[number] / counts.max()) or ("▏" if counts[number] else "")
        share = f"{counts[number] / counts.sum():.1%}"
        rows.append((f"{edges[number]:.1f} to {edges[number + 1]:.1f}", share, bar))
    return [f"  {line}" for line in aligned(rows, left=(2,))]
