"""What a model that writes can be asked: to go on with a prompt, or to answer it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, overload

from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.checkpoints.generation import ends_of, max_positions_of, start_of
from clozeworks.errors import InputError, SettingError
from clozeworks.generate.settings import Generation
from clozeworks.inference.generate import TextWriter
from clozeworks.inference.streaming import StreamChunk, WrittenText
from clozeworks.runtime.progress import Progress
from clozeworks.text.tokenizer.tokenizer import Tokenizer


class GenerationMethods(ABC):
    """The part of a language model that writes."""

    name: str
    checkpoint: Checkpoint

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""

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
        progress: Progress | None = None,
        **named: Any,
    ) -> Any:
        """Writes a text behind each prompt, or an answer to it.

        Without settings the likeliest token is taken each time, 128 at most. A text does not depend
        on the prompts beside it, and one that is drawn is a function of seed and prompt.

        Who interrupts it gets nothing. `stream` keeps what there is: `fresh.so_far()` is all that
        was written of a text, `fresh.whole` a text that has ended.

        Args:
            prompts: One prompt or several.
            settings: How texts are written, all in one; or name single ones:
            chat: Whether each prompt is what a user says in a chat: it is put as the tokenizer's
                template has it, and the assistant's turn is written.
            progress: Called with texts done and texts in all.
            named: `max_new_tokens`, `min_new_tokens`, `stop`; `sample`, `temperature`, `top_k`,
                `top_p`, `min_p`, `typical`, `seed`; `num_beams`, `length_penalty`,
                `early_stopping`, `num_beam_groups`, `diversity_penalty`; `repetition_penalty`,
                `presence_penalty`, `frequency_penalty`, `no_repeat_ngram_size`, `bad_words`,
                `required_words`; `num_return_sequences` for several texts of each prompt;
                `top_logprobs` for alternatives of every token. `Generation.of` explains them.

        Returns:
            For one prompt its `WrittenText`, for several a list of them; with
            `num_return_sequences` a list for each prompt.
        """
        chosen = _settings(settings, named)
        several = _listed(prompts)
        found: list[Any] = list(self.writer(chat=chat).all(several, chosen, progress))
        if "num_return_sequences" not in named and chosen.num_return_sequences == 1:
            found = [texts[0] for texts in found]
        return found[0] if isinstance(prompts, str) else found

    def stream(
        self,
        prompts: str | Sequence[str],
        *,
        settings: Generation | None = None,
        chat: bool = False,
        **named: Any,
    ) -> Iterator[StreamChunk]:
        """The same, given as it comes.

        Everything about prompts and settings is checked at once, before the first text comes.

        Args:
            prompts: One prompt or several.
            settings: How texts are written, all in one; or name single ones:
            chat: As for `generate`.
            named: As for `generate`.

        Returns:
            An iterator over text that is new, with the number of its prompt; the last of each text
            has it whole.
        """
        several = _listed(prompts)
        return self.writer(chat=chat).stream(several, _settings(settings, named))

    def writer(self, *, chat: bool = False) -> TextWriter:
        """What writes, with the folder's word on where texts begin and end.

        Args:
            chat: As for `generate`.

        Raises:
            UnsupportedError: The model cannot write.
        """
        point, blueprint = self.checkpoint, self.checkpoint.model.blueprint
        told = (point.generation, point.config, self.tokenizer, blueprint.embeddings.tokens)
        return TextWriter(
            point.model,
            self.tokenizer,
            name=self.name,
            ends=ends_of(*told),
            start=start_of(*told) if blueprint.decoder is not None else None,
            room=max_positions_of(blueprint, point.config),
            chat=chat,
        )


def _listed(prompts: str | Sequence[str]) -> list[str]:
    if isinstance(prompts, str):
        return [prompts]
    if not isinstance(prompts, Sequence):
        raise InputError(f"prompts is {prompts!r}; it must be a text or a list of texts; give one.")
    return list(prompts)


def _settings(settings: Generation | None, named: dict[str, Any]) -> Generation:
    if settings is not None and named:
        raise SettingError(
            f"settings is given, and {min(named)} beside it; say everything in one of them."
        )
    return settings or Generation.of(**named)
