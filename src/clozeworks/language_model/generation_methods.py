"""The methods of a language model that generate text: a continuation, or an answer."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

from clozeworks.checkpoints.generation import ends_of, max_positions_of
from clozeworks.data.labelled.in_memory import listed_texts
from clozeworks.errors import SET, SettingError
from clozeworks.generate.settings import Generation
from clozeworks.inference.generate import TextWriter
from clozeworks.inference.streaming import StreamChunk, WrittenText
from clozeworks.language_model.batching import shown_progress
from clozeworks.language_model.loaded import LoadedCheckpoint
from clozeworks.runtime.progress import Progress


class GenerationMethods(LoadedCheckpoint):
    """The methods of a language model that generate text."""

    @overload
    def generate(self, prompts: str, **settings: Any) -> WrittenText | list[WrittenText]: ...
    @overload
    def generate(
        self, prompts: Sequence[str], **settings: Any
    ) -> list[WrittenText] | list[list[WrittenText]]: ...
    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        settings: Generation | None = None,
        chat: bool = False,
        progress: Progress | bool | None = None,
        **named: Any,
    ) -> Any:
        """Continues each prompt, or answers it.

        Without settings decoding is greedy, up to 128 tokens. A text does not depend on the other
        prompts, and a sampled one is a function of seed and prompt.

        If it is interrupted, nothing is returned. With `stream` you keep what there is:
        `chunk.so_far()` is all that was generated of a text, `chunk.whole` a text that has ended.

        Args:
            prompts: One prompt or several.
            settings: All settings in one object, instead of single ones by name.
            chat: Whether each prompt is a user's message: the tokenizer's chat template is applied,
                and the assistant's turn is generated.
            progress: True for a bar, or a function that is called with the number of texts done and
                of all texts.
            named: Single settings: `max_new_tokens`, `min_new_tokens`, `stop`; `sample`,
                `temperature`, `top_k`, `top_p`, `min_p`, `typical`, `seed`; `num_beams`,
                `length_penalty`, `early_stopping`, `num_beam_groups`, `diversity_penalty`;
                `repetition_penalty`, `presence_penalty`, `frequency_penalty`,
                `no_repeat_ngram_size`, `bad_words`, `required_words`, `first_tokens`;
                `num_return_sequences` for several texts per prompt; `top_logprobs` for alternatives
                of every token. `Generation.of` explains them.

        Returns:
            For one prompt its `WrittenText`, for several a list of them; with
            `num_return_sequences` a list for each prompt.
        """
        chosen = _settings(settings, named)
        several = listed_texts(prompts, "prompts")
        with shown_progress(progress, "texts") as shown:
            texts: list[Any] = list(self.writer(chat=chat).all(several, chosen, shown))
        if "num_return_sequences" not in named and chosen.num_return_sequences == 1:
            texts = [sequences[0] for sequences in texts]
        return texts[0] if isinstance(prompts, str) else texts

    def stream(
        self,
        prompts: str | Sequence[str],
        *,
        settings: Generation | None = None,
        chat: bool = False,
        **named: Any,
    ) -> Iterator[StreamChunk]:
        """Generates as `generate` does, and yields text as it comes.

        Its arguments are those of `generate`. Prompts and settings are checked at once, before the
        first text comes.

        Returns:
            An iterator over new text, with the number of its prompt; the last chunk of a text holds
            the whole of it.
        """
        several = listed_texts(prompts, "prompts")
        return self.writer(chat=chat).stream(several, _settings(settings, named))

    def writer(self, *, chat: bool = False) -> TextWriter:
        """The generator, which begins and ends texts as the folder states.

        Args:
            chat: As for `generate`.

        Raises:
            UnsupportedError: If the model cannot generate text.
        """
        checkpoint, blueprint = self.checkpoint, self.blueprint
        rows = blueprint.embeddings.tokens
        return TextWriter(
            self.model,
            self.tokenizer,
            name=self.name,
            ends=ends_of(checkpoint.generation, checkpoint.config, self.tokenizer, rows),
            start=self.start if blueprint.decoder is not None else None,
            room=max_positions_of(blueprint, checkpoint.config),
            chat=chat,
        )


def _settings(settings: Generation | None, named: dict[str, Any]) -> Generation:
    if settings is not None and named:
        rule = f"`{min(named)}` is given, too"
        raise SettingError("settings", SET, rule, "use only one of the two ways")
    return settings or Generation.of(**named)
