"""The report of a pre-training run: one page that needs no other file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clozeworks.reports.charts import Marks, draw_png, draw_svg
from clozeworks.reports.curves import GUESSING, GuessingLoss, pretraining_panels
from clozeworks.reports.render import (
    Banner,
    Block,
    Bullets,
    Charts,
    Page,
    Remark,
    Section,
    SettingsTable,
    flat_settings,
    render_page,
    sessions_table,
)
from clozeworks.tasks.results.details import DetailTable, DetailText
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.engine.trainer import Outcome


@dataclass(frozen=True)
class PretrainSummary:
    """What the report of a pre-training run tells.

    Attributes:
        name: What the run is called.
        recipe: Its recipe as plain data.
        manifest: The manifest of its corpus.
        records: The lines of its metrics file.
        borders: The steps at which stages after the first begin, and their names.
        outcome: How it ended; None if an error ended it.
        problem: That error.
        guessing: What guessing by frequency costs on the held-out text.
        sessions: The lines of its file of sessions.
        notes: What the run said on its way.
        command: What to type to continue it; None if that is not known.
    """

    name: str
    recipe: Mapping[str, Any]
    manifest: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    borders: Mapping[int, str]
    outcome: "Outcome | None"
    problem: str = ""
    guessing: GuessingLoss | None = None
    sessions: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    command: str | None = None


def draw_curves(summary: PretrainSummary) -> tuple[bytes, list[str]]:
    """The curves of a run: one picture of all, and an SVG element for each.

    Returns:
        The picture, and the elements; both empty if nothing was measured.
    """
    panels = pretraining_panels(summary.records, summary.guessing)
    if not panels:
        return b"", []
    marks = Marks.of(summary.records, summary.borders)
    return draw_png(panels, marks), draw_svg(panels, marks)


def pretraining_page(summary: PretrainSummary, charts: Sequence[str]) -> str:
    """The whole page.

    Args:
        summary: What it tells.
        charts: The curves as SVG elements.
    """
    model, data = summary.recipe["model"], summary.recipe["data"]
    sections = [Section("Results on held-out text", _results(summary))]
    if charts:
        sections.append(Section("Curves", [Charts(charts)]))
    sections += [
        Section("Data", _data(summary.manifest)),
        Section("Sessions", [sessions_table(summary.sessions)]),
    ]
    if summary.notes:
        sections.append(Section("Notes", [Bullets(summary.notes)]))
    recipe = SettingsTable(flat_settings(summary.recipe))
    sections.append(Section("Recipe", [recipe], folded=True))
    return render_page(
        Page(
            f"{summary.name}: pre-training",
            summary.name,
            f"Pre-training of {model['start']} on {data['corpus']}",
            [_ended(summary)],
            sections,
        )
    )


def _ended(summary: PretrainSummary) -> Banner:
    steps, outcome = summary.recipe["training"]["steps"], summary.outcome
    if outcome is None:
        step = max((record["step"] for record in summary.records), default=0)
        sentence = f"An error ended the run after step {step:,} of {steps:,}: {summary.problem}"
        return Banner("failed", [sentence])
    sentences = [
        f"{'Finished' if outcome.finished else 'Stopped'}: {outcome.step:,} of "
        f"{counted(steps, 'step')}, {counted(outcome.tokens, 'token')} in "
        f"{outcome.seconds / 60:,.1f} minutes "
        f"({outcome.tokens / max(outcome.seconds, 1e-9):,.0f} tokens per second)."
    ]
    if outcome.guards.skipped or outcome.guards.spikes:
        sentences.append(
            f"Updates skipped because their gradients were not finite: "
            f"{outcome.guards.skipped:,}; steps with an unusually high loss: "
            f"{outcome.guards.spikes:,}."
        )
    if outcome.finished:
        return Banner("finished", sentences)
    return Banner("stopped", sentences, command=summary.command)


def _results(summary: PretrainSummary) -> list[Block]:
    measured = [record for record in summary.records if "evaluation" in record]
    if not measured:
        return [DetailText("The corpus has no held-out part, so nothing was measured.")]
    first, last = measured[0], measured[-1]
    guess = summary.guessing
    rows: list[tuple[str, ...]] = []
    for name, after in last["evaluation"].items():
        if not isinstance(after, Mapping):
            continue
        before = first["evaluation"].get(name, {})
        guessed = {}
        if guess is not None and guess.loss_name == name:
            guessed = {"loss": guess.loss, "accuracy": guess.accuracy}
        rows.append((name,))
        for key, form in (("loss", ".4f"), ("perplexity", ",.2f"), ("accuracy", ".2%")):
            rows.append((key, *(_text(part.get(key), form) for part in (before, after, guessed))))
    columns = ("", f"step {first['step']:,}", f"step {last['step']:,}", GUESSING)
    return [
        DetailTable(columns, tuple(rows)),
        Remark(
            "Measured on documents that were not used for training: always the same documents, "
            "with the same tokens hidden. A model that scores better than guessing by frequency "
            "has learned to use the context."
        ),
    ]


def _text(value: Any, form: str) -> str:
    return format(value, form) if isinstance(value, int | float) else ""


def _data(manifest: Mapping[str, Any]) -> list[Block]:
    columns = ("documents", "sentences", "tokens")
    rows = [
        (name, *(f"{part[column]:,}" for column in columns))
        for name, part in manifest["splits"].items()
    ]
    tokenizer = manifest["tokenizer"]
    return [
        DetailTable(("split", *columns), tuple(rows)),
        Remark(f"Tokenizer: {tokenizer['kind']}, {tokenizer['size']:,} entries."),
    ]
