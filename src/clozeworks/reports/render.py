"""Plain data in, a page or a card out: the templates, and what they are filled with.

A page is sections of blocks; each kind of block has one template. Everything is escaped by the
templates, so that a text may hold HTML or Markdown and stays a text.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from clozeworks import __version__
from clozeworks.reports.charts import calibration_chart, confusion_chart, scatter_chart
from clozeworks.reports.excerpts import excerpt
from clozeworks.reports.markdown import cell, code_block, code_span, plain_text, yaml_value
from clozeworks.tasks.results.details import (
    CalibrationCurve,
    ConfusionMatrix,
    Detail,
    DetailTable,
    DetailText,
    Mistakes,
    ScatterPlot,
)
from clozeworks.wording import shortened

_SESSION = ("began", "clozeworks", "torch", "python", "machine", "device", "threads", "ranks")


@dataclass(frozen=True)
class SettingsTable:
    """Settings with their paths."""

    rows: Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Remark:
    """A sentence in the background, such as how something was measured."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class Folded:
    """A list of sentences that the reader can unfold."""

    summary: str
    sentences: Sequence[str]


@dataclass(frozen=True)
class Charts:
    """SVG elements, side by side where there is room."""

    drawn: Sequence[str]


Block = DetailTable | DetailText | SettingsTable | Remark | Bullets | Folded | Charts | Mistakes
# The template of each kind of block.
_TEMPLATES: dict[type, str] = {
    DetailTable: "table", DetailText: "text", SettingsTable: "settings", Remark: "remark",
    Bullets: "bullets", Folded: "folded", Charts: "charts", Mistakes: "mistakes",
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it; a folded one is opened by its reader."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False


@dataclass(frozen=True)
class Banner:
    """Sentences that must not be missed."""

    state: str
    """`finished`, `stopped` or `failed`; decides the colour."""
    sentences: Sequence[str]
    loud: bool = False
    """Whether it is a warning."""
    metric: str = ""
    """The name of the value that is shown large."""
    value: str = ""
    interval: str = ""
    """Its confidence interval."""
    command: str | None = None
    """What to type to continue."""


def render_page(
    title: str,
    heading: str,
    subtitle: str,
    banners: Sequence[Banner] = (),
    sections: Sequence[Section] = (),
) -> str:
    """A page as HTML that needs no other file; banners hold the answer and warnings."""
    template = _environment().get_template("page.html.j2")
    return template.render(
        title=title, heading=heading, subtitle=subtitle, banners=banners, sections=sections
    )


def render_card(template: str, metadata: Mapping[str, Any], **data: Any) -> str:
    """A model card: a file of `templates/`, after metadata for hubs without what is None."""
    known = {key: value for key, value in metadata.items() if value is not None}
    return _environment().get_template(template).render(metadata=known, **data)


def detail_blocks(details: Sequence[Detail]) -> list[Block]:
    """What a task shows of its predictions: charts first, side by side."""
    drawn, blocks = [], list[Block]()
    for detail in details:
        if isinstance(detail, ConfusionMatrix):
            drawn.append(confusion_chart(detail))
        elif isinstance(detail, CalibrationCurve):
            drawn.append(calibration_chart(detail))
        elif isinstance(detail, ScatterPlot):
            drawn.append(scatter_chart(detail))
        else:
            blocks.append(detail)
    charts = [chart for chart in drawn if chart]
    return [Charts(charts), *blocks] if charts else blocks


def mistake_blocks(mistakes: Mistakes) -> list[Block]:
    """How many mistakes of each kind there are, and the worst of them in context."""
    if not mistakes.total:
        return [DetailText("Every prediction on the dev set is right.")]
    rows = [(kind, f"{count:,}") for kind, count in list(mistakes.kinds.items())[:20]]
    shown, total = len(mistakes.worst), mistakes.total
    order = f"{shown:,} of {total:,} mistakes: the worst of each kind, the worst first."
    if shown == total:
        order = f"All {total:,} mistakes, the worst first." if total > 1 else "The only mistake."
    return [DetailTable(("kind of mistake", "count"), tuple(rows)), Remark(order), mistakes]


def sessions_table(sessions: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> DetailTable:
    """The lines of `sessions.jsonl` as a table, with the columns `first` before the usual ones."""
    columns = (*first, *_SESSION)
    rows = []
    for session in sessions:
        row = {column: str(session.get(column, "")) for column in columns}
        row["began"] = row["began"].replace("T", " ").replace("+00:00", " UTC")
        rows.append(tuple(row.values()))
    return DetailTable(columns, tuple(rows), numbers=False)


def flat_settings(data: Any, path: str = "") -> list[tuple[str, Any]]:
    """The settings of a recipe with their paths, except those that are None."""
    if isinstance(data, Mapping):
        pairs = [(f"{path}.{key}" if path else str(key), value) for key, value in data.items()]
    elif isinstance(data, list) and any(isinstance(item, Mapping) for item in data):
        pairs = [(f"{path}[{number}]", value) for number, value in enumerate(data)]
    else:
        return [] if data is None else [(path, data)]
    return [setting for where, value in pairs for setting in flat_settings(value, where)]


def versions() -> str:
    """The versions of Clozeworks, torch and Python, in a sentence."""
    torch, python = version("torch"), platform.python_version()
    return f"Clozeworks {__version__}, torch {torch}, Python {python}."


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("clozeworks.reports"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["template_of"] = lambda block: f"{_TEMPLATES[type(block)]}.html.j2"
    environment.filters |= {
        "excerpt": excerpt,
        "shorten": shortened,
        "markdown": plain_text,
        "code": code_span,
        "code_block": code_block,
        "cell": cell,
        "yaml": yaml_value,
    }
    return environment
