"""The report of a run: `curves.png`, and `report.html`, one page that needs nothing beside itself.

Whatever goes wrong here becomes a note: a run that is finished stays finished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from clozeworks.engine.callbacks import Callback
from clozeworks.engine.trainer import Outcome
from clozeworks.jobs.pretrain.baseline import Baseline
from clozeworks.reports.curves import Marks, draw_png, draw_svg, panels
from clozeworks.reports.page import (
    box,
    bullets,
    folded,
    heading,
    paragraph,
    sessions_table,
    settings_table,
    table,
    value_text,
    whole_page,
)
from clozeworks.reports.pretrain_card import flat
from clozeworks.runs.folder import CURVES, NOTES, REPORT, SESSIONS, command_of, read_lines
from clozeworks.storage.atomic import atomic_file
from clozeworks.wording import counted

_GUESSING = "guessing by frequency"


@dataclass(frozen=True)
class PretrainReport:
    """What a report tells.

    Attributes:
        folder: The run.
        recipe: Its recipe as plain data.
        manifest: The manifest of its corpus.
        records: What was measured.
        borders: The steps at which stages after the first begin, and their names.
        outcome: How it ended; None if an error ended it.
        problem: That error.
        baseline: What guessing by frequency costs on the held-out text.
    """

    folder: Path
    recipe: Mapping[str, Any]
    manifest: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    borders: Mapping[int, str]
    outcome: Outcome | None
    problem: str = ""
    baseline: Baseline | None = None


def write_report(story: PretrainReport, callback: Callback) -> Path | None:
    """Writes curves and report; what cannot be written becomes a note.

    Returns:
        The page; None if there is none.
    """
    charts: list[str] = []
    # A drawing library has many ways to fail, and none is a reason to lose a run.
    try:
        charts = _drawn(story)
    except Exception as error:
        callback.on_message(
            f"The curves could not be drawn ({error}); the run itself is not touched."
        )
    try:
        place = story.folder / REPORT
        with atomic_file(place, "w") as file:
            file.write(page(story, charts))
        return place
    except Exception as error:
        callback.on_message(
            f"The report could not be written ({error}); the run itself is not touched."
        )
        return None


def _drawn(story: PretrainReport) -> list[str]:
    """Writes the picture; the charts for the page."""
    baseline = story.baseline.described() if story.baseline else None
    shown = panels(story.records, baseline, story.baseline.part if story.baseline else "")
    if not shown:
        return []
    marks = Marks.of(story.records, story.borders)
    picture = draw_png(shown, marks)
    with atomic_file(story.folder / CURVES) as file:
        file.write(picture)
    return draw_svg(shown, marks)


def page(story: PretrainReport, charts: Sequence[str]) -> str:
    """The whole page.

    Args:
        story: What it tells.
        charts: SVG elements.
    """
    name = story.folder.resolve().name
    sessions = read_lines(story.folder / SESSIONS)
    model, data = story.recipe["model"], story.recipe["data"]
    parts = [
        f"<h1>{escape(name)}</h1>",
        paragraph(f"Pre-training of {model['start']} on {data['corpus']}", "quiet"),
        _ended(story, sessions),
        heading("On held-out text"),
        _results(story),
    ]
    if charts:
        parts += [heading("Curves"), f'<div class="charts">{"".join(charts)}</div>']
    parts += [heading("Data"), _data(story.manifest)]
    parts += [heading("Sessions"), sessions_table(sessions)]
    if notes := read_lines(story.folder / NOTES):
        parts += [heading("Notes"), bullets([str(note.get("note", "")) for note in notes])]
    parts.append(folded("Recipe", settings_table(flat(story.recipe)), is_open=True))
    return whole_page(f"{name}: pre-training", parts)


def _ended(story: PretrainReport, sessions: Sequence[Mapping[str, Any]]) -> str:
    steps, outcome = story.recipe["training"]["steps"], story.outcome
    if outcome is None:
        step = max((record["step"] for record in story.records), default=0)
        sentences = [f"An error ended the run behind step {step:,} of {steps:,}: {story.problem}"]
        return box("failed", sentences)
    minutes = outcome.seconds / 60
    sentences = [
        f"{'Finished' if outcome.finished else 'Stopped'}: {outcome.step:,} of "
        f"{counted(steps, 'step')}, {counted(outcome.tokens, 'token')} in {minutes:,.1f} minutes "
        f"({outcome.tokens / max(outcome.seconds, 1e-9):,.0f} a second)."
    ]
    if outcome.guards.skipped or outcome.guards.spikes:
        sentences.append(
            f"Updates left out because their numbers were not finite: {outcome.guards.skipped:,}; "
            f"losses far above the usual: {outcome.guards.spikes:,}."
        )
    command = command_of(sessions[-1]) if sessions else None
    if outcome.finished:
        return box("finished", sentences)
    return box("stopped", sentences, command)


def _results(story: PretrainReport) -> str:
    measured = [record for record in story.records if "evaluation" in record]
    if not measured:
        return paragraph("The corpus has no held-out part, so nothing was measured.")
    first, last = measured[0], measured[-1]
    header = ["", f"step {first['step']:,}", f"step {last['step']:,}", _GUESSING]
    rows = []
    for name, after in last["evaluation"].items():
        if not isinstance(after, Mapping):
            continue
        before = first["evaluation"].get(name, {})
        guess = story.baseline.described() if story.baseline and name == story.baseline.part else {}
        rows.append([name])
        for key, form in (("loss", ".4f"), ("perplexity", ",.2f"), ("accuracy", ".2%")):
            known = [value_text(part.get(key), form) for part in (before, after, guess)]
            rows.append(["right answers" if key == "accuracy" else key, *known])
    return table(header, rows, "numbers") + paragraph(
        "Measured on documents that were not trained on, always the same, hidden alike. "
        "A model has learnt to use the context where it is better than guessing by frequency.",
        "quiet",
    )


def _data(manifest: Mapping[str, Any]) -> str:
    columns = ("documents", "sentences", "tokens")
    rows = [
        [name, *(f"{part[column]:,}" for column in columns)]
        for name, part in manifest["splits"].items()
    ]
    tokenizer = manifest["tokenizer"]
    return table(["part", *columns], rows, "numbers") + paragraph(
        f"Tokenizer: {tokenizer['kind']}, {tokenizer['size']:,} entries.", "quiet"
    )
