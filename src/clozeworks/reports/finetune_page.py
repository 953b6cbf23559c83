"""The report of a fine-tuning run: `report.html`, one page that needs nothing beside itself.

The answer comes first: how good the model is, how sure that is, and whether it is better than
guessing. Whatever goes wrong here becomes a note: a run that is finished stays finished.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import torch

from clozeworks import config
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.param_groups import frozen_message
from clozeworks.engine.settings import Training
from clozeworks.inference.predict import answers
from clozeworks.jobs.finetune.baseline import GuessingBaseline, guess
from clozeworks.language_model import load
from clozeworks.reports.data_page import data_section
from clozeworks.reports.finetune_card import finetuning_card
from clozeworks.reports.finetune_charts import curves
from clozeworks.reports.page import (
    box,
    bullets,
    folded,
    heading,
    paragraph,
    sessions_table,
    settings_table,
    table,
    whole_page,
)
from clozeworks.reports.predictions import FILE as PREDICTIONS
from clozeworks.reports.predictions import write_predictions
from clozeworks.reports.pretrain_card import flat
from clozeworks.reports.summary import RunSummary, main_values, number
from clozeworks.reports.task_details import details, mistakes_section
from clozeworks.runs.folder import MODEL, NOTES, REPORT, SESSIONS, read_lines
from clozeworks.storage.atomic import atomic_file
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.tasks.text_to_text.writing import Writing

TASKS = {
    "classify": "Classification of texts",
    "compare": "Comparison of two texts",
    "tag": "Tagging of words",
    "answer": "Answers to questions",
    "text_to_text": "Texts written for texts",
}


def tell(told: RunSummary, device: torch.device, callback: Callback) -> Path | None:
    """Asks the best model about the dev set; writes predictions, card and page.

    Args:
        told: What is known without asking.
        device: Where to compute.
        callback: Is told what could not be done.

    Returns:
        The page; None if there is none.
    """
    with _noted("Guessing could not be measured", callback):
        known = guess(told.data.task, told.data.train, told.data.dev)
        told = replace(told, guess=known)
    for sentence in told.warnings():
        callback.on_message(sentence)
    model = None
    with _noted("The best model could not be asked about the dev set", callback):
        model = load(told.folder / MODEL, device=device, dtype=torch.float32)
        training = told.recipe.training
        training.freezing.apply(model.model)
        told = replace(told, frozen=frozen(training, frozen_message(model.model)))
        items = told.data.dev
        said = told.answers or answers(
            told.data.task, model.model, model.tokenizer, items, most=model.max_length
        )
        told = replace(told, answers=said)
        write_predictions(told.folder / PREDICTIONS, items, said)
    if model is not None:
        with _noted("The model's card could not be written", callback):
            card = finetuning_card(told, model).text()
            with atomic_file(told.folder / MODEL / "README.md", "w") as file:
                file.write(card)
    with _noted("The report could not be written", callback):
        text = page(told, callback)
        with atomic_file(told.folder / REPORT, "w") as file:
            file.write(text)
        return told.folder / REPORT
    return None


@contextmanager
def _noted(what: str, callback: Callback) -> Iterator[None]:
    """Makes a note of what goes wrong: there are many ways, and none is a reason to lose a run."""
    try:
        yield
    except Exception as error:
        callback.on_message(f"{what} ({error}); the run itself is not touched.")


def frozen(training: Training, counted: str) -> str:
    """What did not change, or less than the rest.

    Args:
        training: The settings.
        counted: How many parameters change; empty if all do.
    """
    said, freezing = [counted or "Every parameter was trained."], training.freezing
    if freezing.heads_only:
        said.append("Only the heads and the pooler were trained.")
    elif freezing.layers:
        layers = "layer" if freezing.layers == 1 else f"{freezing.layers} layers"
        said.append(f"The embeddings and the lowest {layers} stayed as they were.")
    if every := freezing.unfreeze_every_steps:
        said.append(f"The heads began alone; every {every:,} steps one more layer joined.")
    if training.layer_decay != 1:
        said.append(f"Each layer has {training.layer_decay:g} times the rate of the one above it.")
    return " ".join(said)


def page(told: RunSummary, callback: Callback) -> str:
    """The whole page.

    Args:
        told: What it tells.
        callback: Is told which part could not be made.
    """
    name = told.folder.resolve().name
    kind = told.recipe.task["kind"]
    files = ", ".join(told.recipe.data.train)
    parts = [
        f"<h1>{escape(name)}</h1>",
        paragraph(f"{TASKS[kind]}: {told.recipe.model}, trained on {files}", "quiet"),
        _answer(told),
    ]
    for title, section in _sections(told):
        # One part that fails is no reason to lose the others.
        with _noted(f"The part {title!r} of the report could not be made", callback):
            if inside := section():
                parts += [heading(title), inside]
    recipe = settings_table(flat(config.plain(told.recipe)))
    parts.append(folded("Recipe", recipe))
    return whole_page(f"{name}: {kind}", parts)


def _sections(told: RunSummary) -> Iterator[tuple[str, Callable[[], str]]]:
    task, items, said = told.data.task, told.data.dev, told.answers
    yield "On the dev set", lambda: _values(told.best.measured, told.guess)
    if told.trials:
        yield "Trials", lambda: _trials(told)
    yield "Seeds", lambda: _seeds(told)
    yield "Curves", lambda: _curves(told)
    if said:
        yield "In detail", lambda: details(task, items, said, told.best.measured)
        yield "Mistakes", lambda: mistakes_section(task, items, said)
    yield "Data", lambda: data_section(told.data.report)
    yield "How it was read and trained", lambda: _training(told)
    yield "Sessions", lambda: _sessions(told)
    yield "Notes", lambda: _notes(told)


def _answer(told: RunSummary) -> str:
    """The answer: the value that decides, and what to hold against it."""
    measured = told.best.measured
    sentences = [*told.searched(), told.spread(), *told.compared()]
    low_high = measured.intervals.get(measured.primary)
    interval = f"{number(low_high[0])} to {number(low_high[1])} (95 %)" if low_high else ""
    big = (
        f'<p class="answer"><span>{escape(measured.primary)}</span> '
        f"<b>{number(measured.value)}</b> <span>{interval}</span></p>"
    )
    warnings = told.warnings()
    loud = box("failed loud", warnings) if warnings else ""
    state = "finished" if told.is_better_than_guessing else "failed"
    return f'{loud}<div class="ended {state}">{big}{"".join(map(paragraph, sentences))}</div>'


def _values(measured: Measured, guessed: GuessingBaseline | None) -> str:
    rows = []
    for name in main_values(measured):
        low, high = measured.intervals.get(name, (math.nan, math.nan))
        interval = "" if math.isnan(low) else f"{number(low)} to {number(high)}"
        there = None if guessed is None else guessed.measured.values.get(name)
        beside = "" if there is None else number(there)
        rows.append([name, number(measured.values[name]), beside, interval])
    head = ["", "value", "guessing", "95 % interval"]
    notes = bullets(measured.remarks) if measured.remarks else ""
    how = f" Guessing is {guessed.how}." if guessed is not None else ""
    return (
        table(head, rows, "numbers")
        + notes
        + paragraph(
            f"{measured.count:,} items. An interval holds 95 % of what comes out if items are "
            f"drawn again.{how}",
            "quiet",
        )
    )


def _seeds(told: RunSummary) -> str:
    primary = told.best.measured.primary
    rows = []
    for result in told.results:
        low, high = result.measured.intervals.get(primary, (math.nan, math.nan))
        rows.append(
            [
                f"{result.seed}{' (kept)' if result is told.best else ''}",
                number(result.measured.value),
                "" if math.isnan(low) else f"{number(low)} to {number(high)}",
                f"{result.step:,} of {result.steps:,}",
                f"{result.tokens:,}",
                f"{result.seconds:,.1f}",
                f"{result.tokens / max(result.seconds, 1e-9):,.0f}",
            ]
        )
    head = ["seed", primary, "95 % interval", "best at step", "tokens", "seconds", "tokens/s"]
    return table(head, rows, "numbers")


def _trials(told: RunSummary) -> str:
    rows = []
    for trial in told.trials:
        measured = trial.result.measured
        low, high = measured.intervals.get(measured.primary, (math.nan, math.nan))
        rows.append(
            [
                f"{trial.setting}{' (kept)' if trial.kept else ''}",
                number(measured.value),
                "" if math.isnan(low) else f"{number(low)} to {number(high)}",
                f"{trial.result.step:,} of {trial.result.steps:,}",
                f"{trial.result.seconds:,.1f}",
            ]
        )
    head = ["setting", told.best.measured.primary, "95 % interval", "best at step", "seconds"]
    return table(head, rows, "numbers") + paragraph(
        f"Each with one seed, judged by {told.trials[0].result.measured.count:,} items of the dev "
        "set that nothing else is reported on.",
        "quiet",
    )


def _curves(told: RunSummary) -> str:
    drawn = curves(told.results, told.records, told.data.task.name, told.guess)
    return f'<div class="charts">{"".join(drawn)}</div>' if drawn else ""


def _training(told: RunSummary) -> str:
    sentences = []
    windows = [answer.windows for answer in told.answers]
    if isinstance(told.data.task, TextToText):
        sentences += _written(told, told.data.task.writing)
    elif windows:
        several = sum(count > 1 for count in windows)
        sentences.append(
            f"{several:,} of {len(windows):,} items of the dev set were read through more than one "
            f"window, {max(windows):,} at most."
            if several
            else "Every item of the dev set fits into one window; nothing was cut."
        )
    sentences.append(told.frozen)
    tokens = sum(result.tokens for result in told.results)
    seconds = sum(result.seconds for result in told.results)
    sentences.append(
        f"{tokens:,} tokens in {seconds / 60:,.1f} minutes over all seeds "
        f"({tokens / max(seconds, 1e-9):,.0f} a second)."
    )
    return "".join(paragraph(sentence) for sentence in sentences if sentence)


def _written(told: RunSummary, writing: Writing) -> list[str]:
    """How sources were read and texts written, in sentences."""
    cut = sum(answer.cut for answer in told.answers)
    endless = sum(not answer.ended for answer in told.answers)
    how = (
        f"a search of {writing.num_beams} beams"
        if writing.num_beams > 1
        else "the likeliest tokens"
    )
    said = [f"Texts are written by {how}, of up to {writing.max_new_tokens or 0:,} tokens."]
    total = f"{len(told.answers):,} items of the dev set"
    said.append(f"Sources that were cut: {cut:,} of {total}." if cut else "No source was cut.")
    if endless:
        said.append(f"Texts that had no end when there was no more room: {endless:,} of {total}.")
    return said


def _sessions(told: RunSummary) -> str:
    found: list[Mapping[str, Any]] = [
        {"seed": result.seed, **session}
        for result in told.results
        for session in read_lines(result.folder / SESSIONS)
    ]
    return sessions_table(found, ["seed"]) if found else ""


def _notes(told: RunSummary) -> str:
    notes = (str(note.get("note", "")) for note in read_lines(told.folder / NOTES))
    # A run that goes on says some of them again.
    once = list(dict.fromkeys(notes))
    return bullets(once) if once else ""
