"""The page of `clozeworks space` and `clozeworks whiten`: the measures, and what they look like."""

import numpy as np

from clozeworks.inference.space.measures import BINS, Space
from clozeworks.inference.space.report import SpaceReport
from clozeworks.reports.charts import (
    Bars,
    Line,
    Panel,
    Points,
    cloud_chart,
    draw_svg,
    histogram_chart,
)
from clozeworks.reports.render import (
    Banner,
    Block,
    Bullets,
    Charts,
    Remark,
    Section,
    render_page,
    versions,
)
from clozeworks.tasks.metrics.measured import number_text
from clozeworks.tasks.results.details import DetailTable
from clozeworks.wording import counted

# Directions of the spectrum that are drawn, and how often a text is named at most in the picture.
_DIRECTIONS, _NAMED = 256, 60


def space_page(report: SpaceReport) -> str:
    """The whole page, which needs no other file."""
    before = report.before
    subtitle = (
        f"{counted(before.texts, 'text')}, {counted(before.dimensions, 'dimension')}; "
        f"{report.pooling}"
    )
    sections = [
        Section("Measures", [_table(report), *_remarks(report)]),
        Section("Pictures", [Charts(_charts(report))]),
        Section("What they are", [Bullets(_EXPLAINED), Remark(versions())]),
    ]
    return render_page(f"{report.model}: space", report.model, subtitle, _banners(report), sections)


def _banners(report: SpaceReport) -> list[Banner]:
    worse = report.pairs is not None and report.pairs.is_real and report.pairs.value < 0
    answer = Banner(
        "finished",
        report.findings(),
        metric="mean cosine",
        value=number_text(report.before.mean_cosine),
    )
    if not report.verdict():
        return [answer]
    return [Banner("failed" if worse else "finished", [report.verdict()], loud=worse), answer]


def _table(report: SpaceReport) -> DetailTable:
    head = ("measure", "before", "after", "what it means")
    rows = report.rows()
    if report.spearman is not None:
        after = "" if report.pairs is None else number_text(report.pairs.second)
        meaning = "of cosines with the scores of pairs; high is good"
        rows.append(("Spearman on pairs", number_text(report.spearman), after, meaning))
    if report.after is None:
        return DetailTable(
            ("measure", "value", "what it means"),
            tuple((name, value, meaning) for name, value, _, meaning in rows),
        )
    return DetailTable(head, tuple(rows))


def _remarks(report: SpaceReport) -> list[Block]:
    parts = ", ".join(
        f"{number} ({part / report.before.mean_cosine:.0%})"
        for number, part in report.before.dimension_shares
    )
    blocks: list[Block] = [Remark(note) for note in report.notes]
    if report.before.mean_cosine > 0.01:
        blocks.insert(0, Remark(f"Dimensions that contribute most to the mean cosine: {parts}."))
    if report.repair:
        blocks.insert(0, Remark(f"Repair: {report.repair}."))
    return blocks


def _charts(report: SpaceReport) -> list[str]:
    spaces = {"before": report.before} | ({"after": report.after} if report.after else {})
    spectrum = Panel(
        "Spectrum",
        [
            Line(label, _spectrum(space), colour, thick=True)
            for colour, (label, space) in enumerate(spaces.items())
        ],
        format_value=lambda value: f"{value:.0%}",
        at_least=0.0,
        across="direction, fraction of the variance up to it",
    )
    edges = np.linspace(-1, 1, BINS + 1).tolist()
    cosines = {
        label: Bars(edges, (space.cosines / max(1, space.cosines.sum())).tolist())
        for label, space in spaces.items()
    }
    return [
        *draw_svg([spectrum]),
        histogram_chart("Cosines of random pairs", "cosine", "fraction of pairs", cosines),
        histogram_chart(
            "Hubs",
            f"times among the {report.before.neighbours} nearest of others",
            "texts",
            {label: _named(space) for label, space in spaces.items()},
        ),
        cloud_chart(
            "Length and frequency",
            "mean log frequency of a text's tokens",
            "length of its vector",
            {label: _norms(space) for label, space in spaces.items()},
        ),
        *(
            cloud_chart(
                f"Map {label}" if report.after else "Map",
                "first principal component",
                "second",
                {"a text": [(float(x), float(y)) for x, y in space.map]},
            )
            for label, space in spaces.items()
            if space.map.shape[1] == 2
        ),
    ]


def _spectrum(space: Space) -> Points:
    sums = np.cumsum(space.spectrum)[:_DIRECTIONS]
    return [(float(number), float(value)) for number, value in enumerate(sums, start=1)]


def _named(space: Space) -> Bars:
    counts = np.bincount(np.minimum(space.named, _NAMED), minlength=_NAMED + 1)
    return Bars([number - 0.5 for number in range(_NAMED + 2)], counts.tolist())


def _norms(space: Space) -> Points:
    pairs = zip(space.log_frequencies, space.norms, strict=True)
    return [(float(frequency), float(norm)) for frequency, norm in pairs]


_EXPLAINED = (
    "Spectrum: how much of the variance the first directions have together. A line that rises at "
    "once means that few directions are in use.",
    "Cosines: of all pairs of different texts. A narrow hill far from 0 is a cone: a cosine of 0.8 "
    "may then be that of any two texts.",
    f"Hubs: how often each text is among the nearest of others ({_NAMED} stands for more, too). A "
    "long tail means that a search finds the same few texts for everything.",
    "Length and frequency: if they are related, a dot product prefers some texts whatever is "
    "asked.",
    "Map: the two directions with most variance; groups that are visible here are few and large.",
)
