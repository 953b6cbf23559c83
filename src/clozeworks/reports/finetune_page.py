"""The report of a fine-tuning run: one page that needs no other file.

The answer comes first: how good the model is, how certain that is, and whether it is better than
guessing.
"""

from collections.abc import Callable, Iterator, Sequence

from clozeworks.reports.charts import draw_svg
from clozeworks.reports.curves import finetuning_panels
from clozeworks.reports.data_section import data_blocks
from clozeworks.reports.render import (
    Banner,
    Block,
    Bullets,
    Charts,
    Remark,
    Section,
    SettingsTable,
    detail_blocks,
    flat_settings,
    mistake_blocks,
    render_page,
    sessions_table,
)
from clozeworks.reports.summary import FinetuneSummary, SeedSummary
from clozeworks.tasks.metrics.measured import number_text
from clozeworks.tasks.results.details import DetailTable, DetailText


def finetuning_page(summary: FinetuneSummary, note: Callable[[str], None]) -> str:
    """The whole page; `note` is called for each part that could not be written."""
    files = ", ".join(summary.recipe["data"]["train"])
    sections = []
    for title, make in _sections(summary):
        # A part that fails, for whatever reason, must not take the others with it.
        try:
            blocks = make()
        except Exception as error:
            note(
                f"The part {title!r} of the report could not be written ({error}); the run itself "
                "is not affected."
            )
            continue
        if blocks:
            sections.append(Section(title, blocks, folded=title == "Recipe"))
    title = f"{summary.name}: {summary.task}"
    subtitle = f"{summary.task_title}: {summary.recipe['model']}, trained on {files}"
    return render_page(title, summary.name, subtitle, _banners(summary), sections)


def _sections(summary: FinetuneSummary) -> Iterator[tuple[str, Callable[[], list[Block]]]]:
    yield "Results on the dev set", lambda: _values(summary)
    yield "Trials", lambda: _trials(summary)
    yield "Seeds", lambda: _seeds(summary)
    yield "Curves", lambda: _curves(summary)
    yield "Details", lambda: detail_blocks(summary.details)
    if (mistakes := summary.mistakes) is not None:
        yield "Mistakes", lambda: mistake_blocks(mistakes)
    yield "Data", lambda: data_blocks(summary.data)
    yield "Training", lambda: _training(summary)
    yield "Sessions", lambda: _sessions(summary)
    yield "Notes", lambda: _bullets(summary.notes)
    yield "Recipe", lambda: [SettingsTable(flat_settings(summary.recipe))]


def _banners(summary: FinetuneSummary) -> list[Banner]:
    """Warnings, then the primary value and what to hold against it."""
    measured = summary.best.measured
    answer = Banner(
        "finished" if summary.is_better_than_guessing else "failed",
        [*summary.searched(), summary.spread(), *summary.compared()],
        metric=measured.primary,
        value=number_text(measured.value),
        interval=measured.interval_text(measured.primary),
    )
    warnings = summary.warnings()
    return [Banner("failed", warnings, loud=True), answer] if warnings else [answer]


def _values(summary: FinetuneSummary) -> list[Block]:
    rows = tuple((name, value, guess, ends) for name, value, ends, guess in summary.results())
    guesses = summary.guess is not None and summary.baseline == "guessing"
    how = f" Guessing is {summary.guessed}." if guesses else ""
    return [
        DetailTable(("", "value", summary.baseline, "95% interval"), rows),
        *_bullets(summary.remarks()),
        Remark(
            f"{summary.best.measured.count:,} items. An interval covers 95% of the values that "
            f"resampling the items gives.{how}"
        ),
    ]


def _seeds(summary: FinetuneSummary) -> list[Block]:
    primary = summary.best.measured.primary
    rows = [
        (
            f"{run.seed}{' (kept)' if run is summary.best else ''}",
            *_outcome(run),
            f"{run.tokens:,}",
            f"{run.seconds:,.1f}",
            f"{run.tokens / max(run.seconds, 1e-9):,.0f}",
        )
        for run in summary.runs
    ]
    columns = ("seed", primary, "95% interval", "best step", "tokens", "seconds", "tokens/s")
    return [DetailTable(columns, tuple(rows))]


def _outcome(run: SeedSummary) -> tuple[str, str, str]:
    """The value of a run, its interval, and the step of its best weights."""
    measured = run.measured
    interval = measured.interval_text(measured.primary)
    return number_text(measured.value), interval, f"{run.step:,} of {run.steps:,}"


def _trials(summary: FinetuneSummary) -> list[Block]:
    if not summary.trials:
        return []
    primary = summary.best.measured.primary
    rows = [
        (
            f"{trial.setting}{' (kept)' if trial.kept else ''}",
            *_outcome(trial.run),
            f"{trial.run.seconds:,.1f}",
        )
        for trial in summary.trials
    ]
    columns = ("setting", primary, "95% interval", "best step", "seconds")
    count = summary.trials[0].run.measured.count
    return [
        DetailTable(columns, tuple(rows)),
        Remark(
            f"Each with one seed, compared on {count:,} items of the dev set. All other values of "
            "this report are measured on the rest of it."
        ),
    ]


def _curves(summary: FinetuneSummary) -> list[Block]:
    levels = summary.guess, summary.baseline
    drawn = draw_svg(finetuning_panels(summary.runs, summary.loss_name, *levels))
    return [Charts(drawn)] if drawn else []


def _training(summary: FinetuneSummary) -> list[Block]:
    tokens = sum(run.tokens for run in summary.runs)
    seconds = sum(run.seconds for run in summary.runs)
    speed = (
        f"{tokens:,} tokens in {seconds / 60:,.1f} minutes over all seeds "
        f"({tokens / max(seconds, 1e-9):,.0f} tokens per second)."
    )
    return [DetailText(sentence) for sentence in (*summary.training, speed)]


def _sessions(summary: FinetuneSummary) -> list[Block]:
    sessions = [{"seed": run.seed, **session} for run in summary.runs for session in run.sessions]
    return [sessions_table(sessions, ["seed"])] if sessions else []


def _bullets(sentences: Sequence[str]) -> list[Block]:
    # A run that was continued says some of them again.
    return [Bullets(list(dict.fromkeys(sentences)))] if sentences else []
