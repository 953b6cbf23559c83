"""The card of a pre-trained model: data, recipe, versions and results, as measured."""

import platform
from collections.abc import Mapping
from typing import Any

import torch

from clozeworks import __version__
from clozeworks.checkpoints.card import Card, table
from clozeworks.core.blueprint import Blueprint
from clozeworks.engine.trainer import Outcome
from clozeworks.jobs.pretrain.baseline import Baseline
from clozeworks.jobs.pretrain.summary import beginning_of
from clozeworks.language_model import LanguageModel
from clozeworks.wording import counted


def pretraining_card(
    model: LanguageModel,
    recipe: Mapping[str, Any],
    corpus: Mapping[str, Any],
    outcome: Outcome,
    results: Mapping[str, Any],
    baseline: Baseline | None,
) -> Card:
    """What a pre-trained model's card says.

    Args:
        model: The model.
        recipe: The recipe as plain data.
        corpus: The manifest of the corpus.
        outcome: How the run ended.
        results: The last evaluation.
        baseline: What guessing by frequency costs.
    """
    writes = beginning_of(model.blueprint, {*results, recipe["objective"].get("kind")})
    fills = "vocabulary" in model.blueprint.heads and writes is None
    metadata = {
        "library_name": "transformers",
        "pipeline_tag": _pipeline(model.blueprint),
        "tags": ["clozeworks", model.family.model_type],
        "mask_token": model.tokenizer.special.mask if fills else None,
    }
    sections = [
        ("Results", _results(results, baseline)),
        ("Data", _data(corpus)),
        ("Training", _training(recipe, outcome)),
        ("Use", _use(fills, model.tokenizer.special.mask or "[MASK]", writes)),
    ]
    title = f"{model.family.model_type}, {model.blueprint.count():,} parameters, pre-trained"
    return Card(title, metadata, sections)


def _pipeline(blueprint: Blueprint) -> str:
    """What hubs sort the model under."""
    if blueprint.can_generate:
        return "text-generation" if blueprint.decoder is None else "text2text-generation"
    return "fill-mask" if "vocabulary" in blueprint.heads else "feature-extraction"


def _results(results: Mapping[str, Any], baseline: Baseline | None) -> str:
    rows = [
        [name, f"{part['loss']:.4f}", f"{part['accuracy']:.2%}", f"{part['perplexity']:,.2f}"]
        for name, part in results.items()
        if isinstance(part, Mapping)
    ]
    if baseline is not None:
        rows.append(
            ["guessing by frequency", f"{baseline.loss:.4f}", f"{baseline.accuracy:.2%}", ""]
        )
    if not rows:
        return "The corpus has no held-out part, so nothing was measured."
    measured = table(["held-out text", "loss", "accuracy", "perplexity"], rows)
    return f"{measured}\n\nMeasured at the end of the run on documents that were not trained on."


def _data(corpus: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{part['documents']:,}", f"{part['sentences']:,}", f"{part['tokens']:,}"]
        for name, part in corpus["splits"].items()
    ]
    tokenizer = corpus["tokenizer"]
    return (
        f"{table(['part', 'documents', 'sentences', 'tokens'], rows)}\n\n"
        f"Tokenizer: {tokenizer['kind']}, {tokenizer['size']:,} entries."
    )


def _training(recipe: Mapping[str, Any], outcome: Outcome) -> str:
    rows = [[f"`{path}`", f"`{value}`"] for path, value in flat(recipe) if path != "run"]
    updates = counted(outcome.guards.skipped, "update")
    skipped = f", {updates} left out" if outcome.guards.skipped else ""
    return (
        f"{counted(outcome.step, 'step')}, {counted(outcome.tokens, 'token')} in "
        f"{outcome.seconds / 60:,.1f} minutes"
        f"{skipped}; Clozeworks {__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}.\n\n{table(['setting', 'value'], rows)}"
    )


def _use(fills: bool, mask: str | None, writes: str | None) -> str:
    if writes is not None:
        return f'```python\nimport clozeworks as cw\n\ncw.load("FOLDER").generate("{writes}")\n```'
    if not fills:
        return '```python\nimport clozeworks as cw\n\ncw.load("FOLDER").embed(["a text"])\n```'
    return (
        f'```python\nimport clozeworks as cw\n\ncw.load("FOLDER").fill("The {mask} is here.")\n```'
    )


def flat(data: Any, path: str = "") -> list[tuple[str, Any]]:
    """The settings of a recipe with their paths, but for those that are None."""
    if isinstance(data, Mapping):
        pairs = [(f"{path}.{key}" if path else str(key), value) for key, value in data.items()]
    elif isinstance(data, list) and any(isinstance(item, Mapping) for item in data):
        pairs = [(f"{path}[{place}]", value) for place, value in enumerate(data)]
    else:
        return [] if data is None else [(path, data)]
    return [found for where, value in pairs for found in flat(value, where)]
