"""`model.look`: what happens inside a model, as plain data."""

from collections.abc import Sequence
from functools import cached_property
from typing import Unpack

from clozeworks.errors import UnsupportedError
from clozeworks.inference.logits import TextOrPair
from clozeworks.inference.loop import BatchKeywords
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.embedding_methods import EmbeddingMethods
from clozeworks.language_model.task_methods import TaskMethods
from clozeworks.look.attention import AttentionView, look_at_attention
from clozeworks.look.lens import LensView, look_through_lens
from clozeworks.look.pieces import TokenizedText, look_at_tokens
from clozeworks.look.tuned_lens import TunedLens, train_lens


class LookMethods(TaskMethods, EmbeddingMethods):
    """A language model that one can look into."""

    @cached_property
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
