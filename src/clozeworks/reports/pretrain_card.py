"""The card of a pre-trained model: data, recipe, versions and results, as measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clozeworks.reports.curves import GUESSING, GuessingLoss
from clozeworks.reports.render import flat_settings, render_card, versions
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.engine.trainer import Outcome


@dataclass(frozen=True)
class PretrainedModel:
    """What a card says of the model itself.

    Attributes:
        model_type: The family, as `config.json` names it.
        parameters: How many parameters it has.
        pipeline_tag: What hubs sort the model under.
        usage: A line of Python that asks `model`.
        mask_token: The mask token, if the model fills gaps.
    """

    model_type: str
    parameters: int
    pipeline_tag: str
    usage: str
    mask_token: str | None = None


def pretraining_card(
    model: PretrainedModel,
    recipe: Mapping[str, Any],
    manifest: Mapping[str, Any],
    outcome: "Outcome",
    results: Mapping[str, Any],
    guessing: GuessingLoss | None,
) -> str:
    """The card of a pre-trained model, in Markdown.

    Args:
        model: The model.
        recipe: The recipe as plain data.
        manifest: The manifest of the corpus.
        outcome: How the run ended.
        results: The last evaluation.
        guessing: What guessing by frequency costs.
    """
    metadata = {
        "library_name": "transformers",
        "pipeline_tag": model.pipeline_tag,
        "tags": ["clozeworks", model.model_type],
        "mask_token": model.mask_token,
    }
    measured = [
        (name, f"{part['loss']:.4f}", f"{part['accuracy']:.2%}", f"{part['perplexity']:,.2f}")
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
        splits=[
            (name, *(f"{part[key]:,}" for key in ("documents", "sentences", "tokens")))
            for name, part in manifest["splits"].items()
        ],
        tokenizer=manifest["tokenizer"],
        training=(
            f"{counted(outcome.step, 'step')}, {counted(outcome.tokens, 'token')} in "
            f"{outcome.seconds / 60:,.1f} minutes"
            f"{skipped}."
        ),
        versions=versions(),
        settings=[
            (f"`{path}`", f"`{value}`") for path, value in flat_settings(recipe) if path != "run"
        ],
        usage=model.usage,
    )
