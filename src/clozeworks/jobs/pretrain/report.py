"""What is left of a pre-training run for people: curves, the report and the model's card.

Whatever goes wrong with the report becomes a note: a run that is finished stays finished.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.trainer import Outcome
from clozeworks.jobs.pretrain.baseline import Baseline
from clozeworks.jobs.pretrain.summary import beginning_of
from clozeworks.language_model import LanguageModel
from clozeworks.reports.curves import GuessingLoss
from clozeworks.reports.pretrain_card import PretrainedModel, pretraining_card
from clozeworks.reports.pretrain_page import PretrainSummary, draw_curves, pretraining_page
from clozeworks.runs.folder import CURVES, REPORT
from clozeworks.runs.recorder import noted
from clozeworks.storage.atomic import atomic_file, write_text


def write_report(folder: Path, summary: PretrainSummary, callback: Callback) -> Path | None:
    """Writes curves and report; what cannot be written becomes a note.

    Returns:
        The page; None if it could not be written.
    """
    charts: list[str] = []
    with noted("The curves could not be drawn", callback):
        picture, charts = draw_curves(summary)
        if picture:
            with atomic_file(folder / CURVES) as file:
                file.write(picture)
    with noted("The report could not be written", callback):
        write_text(folder / REPORT, pretraining_page(summary, charts))
        return folder / REPORT
    return None


def model_card(
    model: LanguageModel,
    recipe: Mapping[str, Any],
    manifest: Mapping[str, Any],
    outcome: Outcome,
    results: Mapping[str, Any],
    baseline: Baseline | None,
) -> str:
    """The card of a pre-trained model."""
    beginning = beginning_of(model.blueprint, {*results, recipe["objective"].get("kind")})
    mask, usage = None, 'outputs = model.embed(["a text"])'
    if beginning is not None:
        usage = f'output = model.generate("{beginning}")'
    elif "vocabulary" in model.blueprint.heads:
        mask = model.tokenizer.special.mask
        usage = f'output = model.fill("The {mask or "[MASK]"} is here.")'
    described = PretrainedModel(
        model.family.model_type,
        model.blueprint.count(),
        _pipeline_tag(model.blueprint),
        usage,
        mask,
    )
    return pretraining_card(described, recipe, manifest, outcome, results, guessing_loss(baseline))


def guessing_loss(baseline: Baseline | None) -> GuessingLoss | None:
    """The baseline, as a report tells it."""
    if baseline is None:
        return None
    return GuessingLoss(baseline.part, baseline.loss, baseline.accuracy)


def _pipeline_tag(blueprint: Blueprint) -> str:
    """What hubs sort the model under."""
    if blueprint.can_generate:
        return "text-generation" if blueprint.decoder is None else "text2text-generation"
    return "fill-mask" if "vocabulary" in blueprint.heads else "feature-extraction"
