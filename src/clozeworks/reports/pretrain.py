"""The report of a pre-training run, one page that needs no other file, and its model's card."""

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
    Remark,
    Section,
    SettingsTable,
    flat_settings,
    render_card,
    render_page,
    sessions_table,
    versions,
)
from clozeworks.tasks.results.details import DetailTable, DetailText
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.engine.trainer import Outcome

_COUNTS = ("documents", "sentences", "tokens")
# What is measured of a loss, and how it is written; no accuracy where nothing can be right.
_MEASURED = {"loss": ".4f", "accuracy": ".2%", "perplexity": ",.2f"}


@dataclass(frozen=True)
class PretrainSummary:
    """What the report of a pre-training run tells."""

    name: str
    recipe: Mapping[str, Any]
    """Its recipe as plain data."""
    manifest: Mapping[str, Any]
    """The manifest of its corpus."""
    records: Sequence[Mapping[str, Any]]
    """The lines of its metrics file."""
    borders: Mapping[int, str]
    """The steps at which stages after the first begin, and their names."""
    outcome: "Outcome | None"
    """How it ended; None if an error ended it."""
    problem: str = ""
    """That error."""
    guessing: GuessingLoss | None = None
    """What guessing by frequency costs on the held-out text."""
    sessions: Sequence[Mapping[str, Any]] = ()
    """The lines of its file of sessions."""
    notes: Sequence[str] = ()
    """Messages of the run."""
    command: str | None = None
    """What to type to continue it; None if that is not known."""


@dataclass(frozen=True)
class PretrainedModel:
    """What a card says of the model itself."""

    model_type: str
    """The family, as `config.json` names it."""
    parameters: int
    pipeline_tag: str
    """What hubs sort the model under."""
    usage: str
    """A line of Python that asks `model`."""
    mask_token: str | None = None
    """The mask token, if the model fills gaps."""


def draw_curves(summary: PretrainSummary) -> tuple[bytes, list[str]]:
    """One PNG of all curves, and an SVG element for each; both empty if nothing was measured."""
    panels = pretraining_panels(summary.records, summary.guessing)
    if not panels:
        return b"", []
    marks = Marks.of(summary.records, summary.borders)
    return draw_png(panels, marks), draw_svg(panels, marks)


def pretraining_page(summary: PretrainSummary, charts: Sequence[str]) -> str:
    """The whole page, with the curves as SVG elements."""
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
    subtitle = f"Pre-training of {model['start']} on {data['corpus']}"
    title = f"{summary.name}: pre-training"
    return render_page(title, summary.name, subtitle, [_ended(summary)], sections)


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
            f"Updates skipped because their gradients were not finite: {outcome.guards.skipped:,}; "
            f"steps with an unusually high loss: {outcome.guards.spikes:,}."
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
        for key, form in _MEASURED.items():
            if key in after:
                parts = (before, after, guessed)
                rows.append((key, *(_text(part.get(key), form) for part in parts)))
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
    table = DetailTable(("split", *_COUNTS), tuple(_splits(manifest)))
    tokenizer = manifest["tokenizer"]
    return [table, Remark(f"Tokenizer: {tokenizer['kind']}, {tokenizer['size']:,} entries.")]


def _splits(manifest: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (name, *(f"{part[count]:,}" for count in _COUNTS))
        for name, part in manifest["splits"].items()
    ]


def pretraining_card(
    model: PretrainedModel,
    recipe: Mapping[str, Any],
    manifest: Mapping[str, Any],
    outcome: "Outcome",
    results: Mapping[str, Any],
    guessing: GuessingLoss | None,
) -> str:
    """The card of a pre-trained model, in Markdown; `results` is the last evaluation."""
    metadata = {
        "library_name": "transformers",
        "pipeline_tag": model.pipeline_tag,
        "tags": ["clozeworks", model.model_type],
        "mask_token": model.mask_token,
    }
    measured = [
        (name, *(_text(part.get(key), form) for key, form in _MEASURED.items()))
        for name, part in results.items()
        if isinstance(part, Mapping)
    ]
    if guessing is not None:
        measured.append((GUESSING, f"{guessing.loss:.4f}", f"{guessing.accuracy:.2%}", ""))
    updates = outcome.guards.skipped
    skipped = f", {counted(updates, 'update')} skipped" if updates else ""
    return render_card(
        "pretrain_card.md.j2",
        metadata,
        title=f"{model.model_type}, {model.parameters:,} parameters, pre-trained",
        results=measured,
        splits=_splits(manifest),
        tokenizer=manifest["tokenizer"],
        training=(
            f"{counted(outcome.step, 'step')}, {counted(outcome.tokens, 'token')} in "
            f"{outcome.seconds / 60:,.1f} minutes{skipped}."
        ),
        versions=versions(),
        settings=[(path, value) for path, value in flat_settings(recipe) if path != "run"],
        usage=model.usage,
    )
