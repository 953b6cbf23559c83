"""The methods of a language model that show what it is and what happens inside it."""

import html
from collections.abc import Sequence
from typing import Unpack

import torch

from clozeworks.checkpoints.tasks import AnyTask, task_of
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.data.labelled.in_memory import listed_texts
from clozeworks.errors import ClozeworksError
from clozeworks.inference import attention as attending
from clozeworks.inference import logits as scoring
from clozeworks.inference.attention import AttentionWeights
from clozeworks.inference.logits import TextLogits, TextOrPair
from clozeworks.inference.loop import BatchKeywords, device_of
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.loaded import LoadedCheckpoint
from clozeworks.registry import kind
from clozeworks.wording import counted, shortened, visible

# Labels that a description lists before it counts the others.
_LABELS = 6


class InspectionMethods(LoadedCheckpoint):
    """The methods of a language model that show what it is and what happens inside it."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return device_of(self.model)

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are stored as."""
        return next(self.model.parameters()).dtype

    def logits(
        self,
        texts: TextOrPair | Sequence[TextOrPair],
        *,
        head: str | None = None,
        targets: str | Sequence[str] | None = None,
        max_length: int | None = None,
        truncate: bool = False,
        **options: Unpack[BatchKeywords],
    ) -> TextLogits | list[TextLogits]:
        """Computes the logits of a head, before any softmax, threshold or decoding.

        Args:
            texts: One text or several; a pair of texts is a tuple.
            head: Which head, if the model has several: vocabulary, classes, tokens and so on, as
                `clozeworks show` lists them.
            targets: For the vocabulary head of an encoder-decoder, what it is to write for each
                text; the rows are those of the targets' tokens.
            max_length: The maximum number of tokens of a text; the model's limit if not given.
            truncate: Whether longer texts are truncated; otherwise they are an error.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Returns:
            For one text its `TextLogits`, for several a list of them: a row of logits for each
            token, or one for the whole text.
        """
        several, alone = _several(texts)
        with batch_options(options, self.logits) as batching:
            results = scoring.logits(
                self.model,
                self.tokenizer,
                several,
                head=head,
                targets=[targets] if isinstance(targets, str) else targets,
                start=self.start if self.model.decoder is not None else None,
                max_length=self.limited(max_length),
                truncate=truncate,
                options=batching,
            )
        return results[0] if alone else results

    def attention(
        self,
        texts: TextOrPair | Sequence[TextOrPair],
        *,
        max_length: int | None = None,
        truncate: bool = False,
        **options: Unpack[BatchKeywords],
    ) -> AttentionWeights | list[AttentionWeights]:
        """Computes the attention weights of all layers and heads; of T5 those of its encoder.

        Args:
            texts: One text or several; a pair of texts is a tuple.
            max_length: The maximum number of tokens of a text; the model's limit if not given.
            truncate: Whether longer texts are truncated; otherwise they are an error.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Returns:
            For one text its `AttentionWeights`, for several a list of them: `weights` is an array
            (layers, heads, tokens, tokens).
        """
        several, alone = _several(texts)
        with batch_options(options, self.attention) as batching:
            results = attending.attention(
                self.model,
                self.tokenizer,
                several,
                max_length=self.limited(max_length),
                truncate=truncate,
                options=batching,
            )
        return results[0] if alone else results

    def facts(self) -> dict[str, str]:
        """What the model is, in a few words each, for people."""
        blueprint = self.blueprint
        layers = len(blueprint.encoder.running_order())
        decoder = ""
        if blueprint.decoder is not None:
            decoder = f" + {len(blueprint.decoder.running_order())}"
        facts = {
            "family": f"{self.family.model_type} ({self.family.paper})",
            "size": f"{layers}{decoder} layers of width {blueprint.width:,}, "
            f"{counted(blueprint.count(), 'parameter')}",
            "weights": f"{str(self.dtype).removeprefix('torch.')} on {self.device}",
        }
        if self.has_tokenizer:
            limit = self.max_length
            length = f"texts of up to {limit:,} tokens" if limit else "texts of any length"
            facts["tokenizer"] = f"{self.tokenizer.kind}, {self.tokenizer.size:,} entries; {length}"
        if heads := ", ".join(blueprint.heads):
            facts["heads"] = heads
        if task := self._task_in_words():
            facts["task"] = task
        facts["methods"] = ", ".join(self._methods())
        facts["embed"] = str(self.pooling)
        return {name: visible(text) for name, text in facts.items()}

    def __repr__(self) -> str:
        facts = "".join(f"\n  {name}: {text}" for name, text in self.facts().items())
        return f"LanguageModel {visible(self.name)}{facts}"

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.facts().items()
        )
        return f"<table><caption>{html.escape(visible(self.name))}</caption>{rows}</table>"

    def _methods(self) -> list[str]:
        """The main methods that this model can serve."""
        blueprint, found = self.blueprint, ["embed"]
        if HEAD in blueprint.heads:
            if not blueprint.can_generate or blueprint.decoder is not None:
                found.append("fill")
            if blueprint.can_generate:
                found += ["generate", "score"]
        task = self._known_task()
        if task is not None and hasattr(self, kind(type(task))) and kind(type(task)) not in found:
            found.append(kind(type(task)))
        return found

    def _known_task(self) -> AnyTask | None:
        try:
            return task_of(self.checkpoint, self.name)
        except ClozeworksError:  # a description never fails; asking for the task says why
            return None

    def _task_in_words(self) -> str:
        if (task := self._known_task()) is None:
            return ""
        labels = [str(label) for label in getattr(task, "labels", ())]
        more = f" and {len(labels) - _LABELS:,} more" if len(labels) > _LABELS else ""
        listed = ", ".join(shortened(label, 30) for label in labels[:_LABELS])
        return f"{task.ability}: {listed}{more}" if labels else task.ability


def _several(texts: TextOrPair | Sequence[TextOrPair]) -> tuple[list[TextOrPair], bool]:
    """A list of texts, and whether it was a single text or pair."""
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, tuple) and len(texts) == 2:
        first, second = texts
        if isinstance(first, str) and isinstance(second, str):
            return [(first, second)], True
    return listed_texts(texts), False
