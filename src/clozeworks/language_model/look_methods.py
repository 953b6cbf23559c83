"""`model.look`: what happens inside a model, as plain data."""

from collections.abc import Sequence
from typing import Unpack

from clozeworks.data.labelled.in_memory import listed_texts
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.inference.logits import TextOrPair
from clozeworks.inference.loop import BatchKeywords
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.embedding_methods import EmbeddingMethods
from clozeworks.language_model.task_methods import TaskMethods
from clozeworks.look.attention import AttentionView, look_at_attention
from clozeworks.look.attributions import STEPS, AttributionView, attribute
from clozeworks.look.contexts import ContextsView, look_at_contexts
from clozeworks.look.controls import AttributionControls, control
from clozeworks.look.lens import LensView, look_through_lens
from clozeworks.look.pieces import TokenizedText, look_at_tokens
from clozeworks.look.targets import (
    AttributionTarget,
    cosine_target,
    label_target,
    word_target,
)
from clozeworks.look.tuned_lens import TunedLens, train_lens


class LookMethods(TaskMethods, EmbeddingMethods):
    """A language model that one can look into."""

    @property
    def look(self) -> "Looking":
        """What happens inside: attention, lens, contexts, attributions, pieces of a text."""
        return Looking(self)


class Looking:
    """The views into a model. Each returns a frozen dataclass with `to_dict`.

    Args:
        model: The model.
    """

    def __init__(self, model: LookMethods) -> None:
        self._model = model

    def tokens(self, text: TextOrPair) -> TokenizedText:
        """Shows the pieces of a text: their characters, ids, offsets and words.

        Args:
            text: A text of any length, or a pair of texts as a tuple.
        """
        return look_at_tokens(self._model.tokenizer, text, max_length=self._model.max_length)

    def attention(
        self,
        text: TextOrPair,
        *,
        target: str | None = None,
        layers: int | Sequence[int] | None = None,
        max_length: int | None = None,
        **options: Unpack[BatchKeywords],
    ) -> AttentionView:
        """Computes attention: weights, the length of what is added, rollout, a summary per head.

        Args:
            text: A text, or a pair of texts as a tuple.
            target: What an encoder-decoder writes for it; without it only the encoder is shown.
            layers: The layers that are kept in full, from 1; -1 is the last. All if not given.
            max_length: The most tokens of a text; the model's limit if not given.
            options: `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If the text is too long for the model or for the memory.
            SettingError: If there is no such layer.
        """
        model = self._model
        with batch_options(options, self.attention) as batching:
            return look_at_attention(
                model.model,
                model.tokenizer,
                text,
                target=target,
                start=self._start(),
                layers=[layers] if isinstance(layers, int) else layers,
                max_length=model.limited(max_length),
                options=batching,
            )

    def lens(
        self,
        text: str,
        *,
        target: str | None = None,
        places: Sequence[int] | None = None,
        right: Sequence[str] | None = None,
        top: int = 5,
        tuned: TunedLens | None = None,
        max_length: int | None = None,
        **options: Unpack[BatchKeywords],
    ) -> LensView:
        """Shows which words the vocabulary head would say at each layer.

        Args:
            text: The text; of a masked model with gaps, or its tokens name themselves.
            target: What an encoder-decoder writes for the text.
            places: Numbers of the tokens to ask at; gaps, or all tokens, if not given.
            right: The right words for the gaps.
            top: How many words each layer names.
            tuned: A lens that `train_lens` trained.
            max_length: The most tokens of a text; the model's limit if not given.
            options: `progress` and `cancelled`, as for `predict`.

        Raises:
            UnsupportedError: If the model has no vocabulary head.
            InputError: If the text is too long, or an argument does not fit it.
        """
        model = self._model
        with batch_options(options, self.lens) as batching:
            return look_through_lens(
                model.model,
                model.tokenizer,
                text,
                target=target,
                start=self._start(),
                places=places,
                right=right,
                top=top,
                tuned=tuned,
                max_length=model.limited(max_length),
                options=batching,
            )

    def train_lens(
        self,
        texts: Sequence[str],
        *,
        targets: Sequence[str] | None = None,
        steps: int = 200,
        learning_rate: float = 1e-3,
        seed: int = 0,
        **options: Unpack[BatchKeywords],
    ) -> TunedLens:
        """Trains a tuned lens on texts; the model stays as it is.

        Args:
            texts: The texts, such as those the model was trained on; long ones are cut.
            targets: What an encoder-decoder writes for each.
            steps: How many steps.
            learning_rate: The learning rate of Adam.
            seed: Decides the order of texts and what is hidden.
            options: `progress` and `cancelled`, as for `predict`.

        Returns:
            A lens for `lens(tuned=...)`; its `save` writes a safetensors file.
        """
        model = self._model
        with batch_options(options, self.train_lens) as batching:
            return train_lens(
                model.model,
                model.tokenizer,
                texts,
                targets=targets,
                start=self._start(),
                steps=steps,
                learning_rate=learning_rate,
                seed=seed,
                max_length=model.max_length,
                options=batching,
            )

    def attribute(
        self,
        text: TextOrPair,
        *,
        label: str | None = None,
        word: str | int | None = None,
        gap: int = 0,
        target: str | None = None,
        token: int | None = None,
        other: str | None = None,
        baseline: str | None = None,
        steps: int = STEPS,
        leave_out: bool = True,
        **options: Unpack[BatchKeywords],
    ) -> AttributionView:
        """Says what each word of a text does to a label, an answer, or a written word.

        Without further arguments: of a model with a task, its likeliest label, or its answer; of
        others the likeliest word in the first gap, or after the text.

        Args:
            text: A text, or a pair: two texts, or a question and its context.
            label: The label.
            word: The word in a gap; where each word has a label, the number of one, from 0.
            gap: Which gap, from 0.
            target: What follows the text, or what is written for it.
            token: Which token of the target, from 0; all of them if not given.
            other: Another text: what makes the vectors of both similar is attributed.
            baseline: What stands in place of the words: mask, pad, zero or mean.
            steps: Points of the integral; doubled up to 400 while more than 5 % is missing.
            leave_out: Whether each word is left out in turn, too.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If the text is too long, or an argument does not fit it.
            UnsupportedError: If the model has no head for it.
        """
        model = self._model
        with batch_options(options, self.attribute) as batching:
            asked = self._target(text, label, word, gap, target, token, other)
            return attribute(
                model.model,
                model.tokenizer,
                asked,
                baseline=baseline,
                steps=steps,
                leave_out=leave_out,
                options=batching,
            )

    def control(
        self,
        view: AttributionView,
        text: TextOrPair,
        *,
        seed: int = 0,
        label: str | None = None,
        word: str | int | None = None,
        gap: int = 0,
        target: str | None = None,
        token: int | None = None,
        other: str | None = None,
        **options: Unpack[BatchKeywords],
    ) -> AttributionControls:
        """Controls an attribution: random weights, and words taken out in its order.

        Args:
            view: What `attribute` returned.
            text: The text, and everything else as for `attribute`.
            seed: Decides random weights and orders.
            label: The label.
            word: The word in a gap, or the number of one.
            gap: Which gap.
            target: What follows the text, or what is written for it.
            token: Which token of the target.
            other: Another text.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.
        """
        model = self._model
        with batch_options(options, self.control) as batching:
            asked = self._target(text, label, word, gap, target, token, other)
            return control(model.model, model.tokenizer, asked, view, seed=seed, options=batching)

    def contexts(
        self,
        word: str,
        texts: Sequence[str],
        *,
        forms: Sequence[str] = (),
        labels: Sequence[str | None] | None = None,
        layer: int | str | None = None,
        correction: str = "centred",
        neighbours: int = 5,
        seed: int = 0,
        **options: Unpack[BatchKeywords],
    ) -> ContextsView:
        """Compares the vectors of a word in many contexts.

        Args:
            word: The word; small and capital letters are alike.
            texts: Texts with it, and others, from which the baseline is measured.
            forms: Further forms of the word, such as its plural.
            labels: The sense of the word in each text; None where it is not known.
            layer: The layer that map, clusters and nearest contexts are of: a number, 0 for the
                embeddings, or sum_last_four; the last if not given.
            correction: raw; centred, minus the mean of other words; or whitened by them.
            neighbours: How many nearest contexts each has.
            seed: Decides which other words are drawn, and where clusters begin.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If the word stands in fewer than two places.
            SettingError: If there is no such layer or correction.
        """
        model = self._model
        with batch_options(options, self.contexts) as batching:
            return look_at_contexts(
                model.model,
                model.tokenizer,
                word,
                listed_texts(texts),
                forms=forms,
                labels=labels,
                layer=None if layer is None else str(layer),
                correction=correction,
                neighbours=neighbours,
                seed=seed,
                max_length=model.max_length,
                options=batching,
            )

    def _target(
        self,
        text: TextOrPair,
        label: str | None,
        word: str | int | None,
        gap: int,
        target: str | None,
        token: int | None,
        other: str | None,
    ) -> AttributionTarget:
        """What is attributed."""
        model, network = self._model, self._model.model
        limit, task = model.max_length, self._model.task
        if other is not None:
            if not isinstance(text, str):
                raise InputError("other is compared with one text, and text is a pair; give one.")
            return cosine_target(
                network, model.tokenizer, text, other, chain=model.chain(), max_length=limit
            )
        if task is not None and not task.writes and target is None:
            if isinstance(word, str):
                rule = "it must be the number of a word, from 0"
                raise SettingError("word", word, rule)
            return label_target(
                task, network, model.tokenizer, text, label=label, word=word, max_length=limit
            )
        if label is not None:
            raise UnsupportedError(f"{model.name} has no head for labels; leave out label.")
        if not isinstance(text, str):
            raise InputError("the model reads one text here, not a pair; give one.")
        if isinstance(word, int):
            rule = "it must be a word"
            raise SettingError("word", word, rule, "write it in quotes")
        return word_target(
            network,
            model.tokenizer,
            text,
            word=word,
            gap=gap,
            target=target,
            token=token,
            start=self._start(),
            max_length=limit,
        )

    def _start(self) -> int | None:
        """The decoder start token of an encoder-decoder; None of others."""
        if self._model.model.decoder is None:
            return None
        start = self._model.start
        if start is None:
            raise UnsupportedError(
                f"{self._model.name} has no decoder start token; state decoder_start_token_id in "
                "config.json."
            )
        return start
