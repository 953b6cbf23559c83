"""What is left of a fine-tuning run for people: predictions, the model's card and the report.

Whatever goes wrong here becomes a note: a run that is finished stays finished.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clozeworks import config
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.metrics import FILE, read
from clozeworks.engine.param_groups import frozen_message
from clozeworks.engine.settings import Training
from clozeworks.inference.predict import answers as predict
from clozeworks.jobs.finetune.data import LabelledTask
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.jobs.finetune.run import RunResult
from clozeworks.language_model import LanguageModel, load
from clozeworks.reports.finetune_card import finetuning_card
from clozeworks.reports.finetune_page import finetuning_page
from clozeworks.reports.summary import (
    BEFORE,
    CardUsage,
    FinetuneSummary,
    SeedSummary,
    TrialSummary,
)
from clozeworks.runs.folder import MODEL, NOTES, REPORT, SESSIONS, read_lines
from clozeworks.runs.recorder import noted
from clozeworks.storage.atomic import write_text
from clozeworks.tasks.metrics.measured import number_text
from clozeworks.tasks.results.details import worst_mistakes
from clozeworks.tasks.results.records import record_of, write_records

PREDICTIONS = "predictions.jsonl"


def write_report(
    folder: Path,
    recipe: FinetuneRecipe,
    data: LabelledTask,
    results: Sequence[RunResult],
    best: RunResult,
    *,
    device: torch.device,
    callback: Callback,
    predictions: Sequence[Any] = (),
    trials: Sequence[TrialSummary] = (),
) -> Path | None:
    """Writes predictions, card and report of a finished run.

    If there are no predictions for the dev set, the model is asked.

    Returns:
        The page; None if it is not wanted, or could not be written.
    """
    task, items = data.task, data.dev
    runs = [seed_summary(result) for result in results]
    summary = FinetuneSummary(
        name=folder.resolve().name,
        task=recipe.task["kind"],
        task_title=task.title,
        loss_name=task.name,
        recipe=config.plain(recipe),
        data=data.report,
        dev_size=len(items),
        runs=runs,
        best=runs[list(results).index(best)],
        trials=trials,
    )
    with noted("Guessing could not be measured", callback):
        if (guessed := data.guessed()) is not None:
            how, guess = guessed
            summary = replace(summary, guess=guess, guessed=how)
        elif (before := data.before()) is not None:
            summary = replace(summary, guess=before, guessed=BEFORE)
            callback.on_message(
                f"Before training {before.primary} was {number_text(before.value)}; the best "
                f"weights have {number_text(best.measured.value)}."
            )
    for sentence in summary.warnings():
        callback.on_message(sentence)
    model = None
    with noted("The best model could not be asked about the dev set", callback):
        model = load(folder / MODEL, device=device, dtype=torch.float32)
        predictions = predictions or predict(
            task, model.model, model.tokenizer, items, max_length=model.max_length
        )
        sentences = [
            *task.reading_notes(predictions),
            *data.decided,
            trained(recipe.training, model),
        ]
        summary = replace(summary, training=sentences)
        pairs = zip(items, predictions, strict=True)
        records = [record_of(item, prediction, gold=True) for item, prediction in pairs]
        write_records(folder / PREDICTIONS, records)
    if predictions:
        with noted("Details of the predictions could not be worked out", callback):
            shown = task.details(items, predictions, best.measured)
            wrong = task.mistakes(items, predictions)
            worst = None if wrong is None else worst_mistakes(wrong)
            summary = replace(summary, details=shown, mistakes=worst)
    if model is not None:
        with noted("The model's card could not be written", callback):
            write_text(folder / MODEL / "README.md", card(summary, model, data))
    if not recipe.logging.report:
        return None
    with noted("The report could not be written", callback):
        notes = [str(line.get("note", "")) for line in read_lines(folder / NOTES)]
        page = finetuning_page(replace(summary, notes=notes), callback.on_message)
        write_text(folder / REPORT, page)
        return folder / REPORT
    return None


def seed_summary(result: RunResult) -> SeedSummary:
    """A seed, as a report tells it."""
    return SeedSummary(
        result.seed,
        result.step,
        result.steps,
        result.tokens,
        result.seconds,
        result.measured,
        list(read(result.folder / FILE)),
        read_lines(result.folder / SESSIONS),
    )


def card(summary: FinetuneSummary, model: LanguageModel, data: LabelledTask) -> str:
    """The card of a fine-tuned model."""
    task, chats = data.task, data.chats
    snippets = task.usage(chats=chats), task.transformers_usage(chats=chats)
    usage = CardUsage(task.pipeline_tag, *snippets, task.usage_notes())
    return finetuning_card(summary, model.family.model_type, model.blueprint.count(), usage)


def trained(training: Training, model: LanguageModel) -> str:
    """What was trained, and what less than the rest, in sentences."""
    training.freezing.apply(model.model)
    return about_freezing(training, frozen_message(model.model))


def about_freezing(training: Training, counted: str) -> str:
    """What did not change, or less than the rest, in sentences."""
    sentences, freezing = [counted or "Every parameter was trained."], training.freezing
    if freezing.heads_only:
        sentences.append("Only the heads and the pooler were trained.")
    elif freezing.layers:
        layers = "layer" if freezing.layers == 1 else f"{freezing.layers} layers"
        sentences.append(f"The embeddings and the lowest {layers} were frozen.")
    if every := freezing.unfreeze_every_steps:
        sentences.append(
            f"At first only the heads were trained; one more layer joined every {every:,} steps."
        )
    if training.layer_decay != 1:
        sentences.append(
            f"Each layer has {training.layer_decay:g} times the learning rate of the layer above "
            "it."
        )
    return " ".join(sentences)
