"""The card of a fine-tuned model: results, data, training, and how to use it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clozeworks.data.labelled.report import DataPart
from clozeworks.reports.render import flat_settings, render_card, versions
from clozeworks.reports.summary import CardUsage, FinetuneSummary, main_values

# What the hub calls a metric, where its name differs from ours.
_METRICS = {
    "matthews": "matthews_correlation",
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "mean_absolute_error": "mae",
    "mean_squared_error": "mse",
}
_MOST_LABELS = 50


def finetuning_card(
    summary: FinetuneSummary, model_type: str, parameters: int, usage: CardUsage
) -> str:
    """The card of a fine-tuned model, in Markdown."""
    title = f"{model_type}, {parameters:,} parameters, fine-tuned for {summary.task}"
    base = str(summary.recipe["model"])
    local = Path(base).expanduser().exists()
    metadata = {
        "library_name": "transformers" if usage.transformers is not None else "clozeworks",
        "pipeline_tag": usage.pipeline_tag,
        "tags": ["clozeworks", model_type, summary.task],
        "base_model": None if local else base,
        "model-index": [{"name": title, "results": [_result(summary, usage.pipeline_tag)]}],
    }
    best = summary.best
    labels, more = _labels(summary)
    ours = f'import clozeworks as cw\n\nmodel = cw.load("FOLDER")\n{usage.clozeworks}'
    return render_card(
        "finetune_card.md.j2",
        metadata,
        title=title,
        results=summary.results(),
        remarks=_remarks(summary),
        splits=_splits(summary),
        labels=labels,
        more_labels=more,
        training=(
            f"Seed {best.seed}, the weights of step {best.step:,} of {best.steps:,}; "
            f"{best.tokens:,} tokens in {best.seconds / 60:,.1f} minutes. "
            f"{' '.join(summary.training)}"
        ),
        versions=versions(),
        settings=_settings(summary.recipe, local=local),
        snippets=[ours, *([usage.transformers] if usage.transformers is not None else [])],
        differences=usage.differences,
    )


def _names(files: Sequence[str]) -> list[str]:
    return [Path(file).name for file in files]


def _measured_on(data: Mapping[str, Any]) -> str:
    names = ", ".join(_names(data["dev"] or data["train"]))
    return names if data["dev"] else f"{names}, a part that was not used for training"


def _result(summary: FinetuneSummary, pipeline_tag: str) -> dict[str, Any]:
    measured, data = summary.best.measured, summary.recipe["data"]
    files = _names(data["dev"] or data["train"])
    metrics = [
        {"type": _METRICS.get(name, name), "value": round(measured.values[name], 6), "name": name}
        for name in main_values(measured)
    ]
    return {
        "task": {"type": pipeline_tag, "name": summary.task},
        # The hub insists on a short name beside the one for people.
        "dataset": {"type": re.sub(r"\W+", "-", Path(files[0]).stem), "name": _measured_on(data)},
        "metrics": metrics,
    }


def _remarks(summary: FinetuneSummary) -> list[str]:
    measured = summary.best.measured
    sentences = [
        f"{measured.count:,} items of {_measured_on(summary.recipe['data'])}. An interval covers "
        "95% of the values that resampling the items gives."
    ]
    if summary.guess is not None and summary.baseline == "guessing":
        sentences.append(f"Guessing is {summary.guessed}.")
    return [
        *sentences,
        *summary.searched(),
        summary.spread(),
        *summary.warnings(),
        *summary.remarks(),
    ]


def _splits(summary: FinetuneSummary) -> list[tuple[str, ...]]:
    data = summary.data
    parts = [("train", data.train), *([("dev", data.dev)] if data.dev else [])]
    return [
        (name, f"{part.rows:,}", _mean_tokens(part), ", ".join(_names(part.files)))
        for name, part in parts
    ]


def _mean_tokens(part: DataPart) -> str:
    return next((f"{each.mean:,.1f}" for each in part.lengths if each.what.endswith("tokens")), "")


def _labels(summary: FinetuneSummary) -> tuple[list[tuple[str, str]], str]:
    labels = summary.data.train.labels
    more = len(labels) - _MOST_LABELS
    shown = [(each.name, f"{each.fraction:.1%}") for each in labels[:_MOST_LABELS]]
    return shown, f" and {more:,} more" if more > 0 else ""


def _settings(recipe: Mapping[str, Any], *, local: bool) -> list[tuple[str, Any]]:
    """The recipe without folders: a card is read elsewhere, where they say nothing."""
    data = {**recipe["data"], **{key: _names(recipe["data"][key]) for key in ("train", "dev")}}
    model = Path(recipe["model"]).name if local else recipe["model"]
    rows = flat_settings({**recipe, "data": data, "model": model})
    return [(path, value) for path, value in rows if path != "run"]
