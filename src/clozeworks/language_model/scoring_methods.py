"""What a model that writes can be asked without writing: how likely texts are."""

from collections.abc import Sequence
from typing import Unpack, overload

from clozeworks.checkpoints.generation import start_of
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.inference import choose as choosing
from clozeworks.inference import likelihood
from clozeworks.inference.choose import TEMPLATE, Chosen, Normalize
from clozeworks.inference.exposure import GIVEN, LENGTH, Exposure, exposure
from clozeworks.inference.few_shot import FewShot, FewShotPrompts, LabelledExample, demonstrations
from clozeworks.inference.likelihood import HEAD, Scored
from clozeworks.inference.loop import BatchKeywords, BatchOptions
from clozeworks.language_model.task_methods import TaskMethods


class ScoringMethods(TaskMethods):
    """The part of a language model that says how likely texts are."""

    @property
    def start(self) -> int | None:
        """What the answers of an encoder-decoder begin with."""
        point = self.checkpoint
        rows = point.model.blueprint.embeddings.tokens
        return start_of(point.generation, point.config, self.tokenizer, rows)

    @overload
    def score(  # type: ignore[overload-overlap]
        self,
        texts: str,
        continuations: str | None = ...,
        *,
        max_length: int | None = ...,
        overlap: int | None = ...,
        places: Sequence[str] | None = ...,
        **options: Unpack[BatchKeywords],
    ) -> Scored: ...
    @overload
    def score(
        self,
        texts: Sequence[str],
        continuations: Sequence[str] | None = ...,
        *,
        max_length: int | None = ...,
        overlap: int | None = ...,
        places: Sequence[str] | None = ...,
        **options: Unpack[BatchKeywords],
    ) -> list[Scored]: ...
    def score(
        self,
        texts: str | Sequence[str],
        continuations: str | Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        overlap: int | None = None,
        places: Sequence[str] | None = None,
        **options: Unpack[BatchKeywords],
    ) -> Scored | list[Scored]:
        """How likely texts are, or how likely it is that other texts follow them.

        Longer texts than the model takes are read through windows. An encoder-decoder is asked how
        likely each continuation is as the answer to its text.

        Args:
            texts: One text or several.
            continuations: What follows each; then only this is asked for. White space between the
                two belongs to one of them.
            max_length: The most tokens of a window; the model's limit if not given.
            overlap: How many tokens a later window has at least before those it asks for; half of
                a window if not given.
            places: Where each text came from, for messages: `reviews.csv, row 8,412`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one text a `Scored`, for several a list of them.
        """
        self._check_writes("say how likely texts are")
        if isinstance(texts, str) != isinstance(continuations, str) and continuations is not None:
            raise InputError(
                "texts and continuations do not match; each text needs what follows it; give two "
                "texts, or two lists of equal length."
            )
        alone = isinstance(texts, str)
        several = [texts] if isinstance(texts, str) else texts
        room, batching = self._window(max_length), BatchOptions(**options)
        if continuations is None:
            if self.model.decoder is not None:
                raise UnsupportedError(
                    f"{self.name} answers texts, so a text by itself has no likelihood; give the "
                    f"answers as continuations."
                )
            found = likelihood.score_texts(
                self.model,
                self.tokenizer,
                several,
                room=room,
                overlap=overlap,
                places=places,
                options=batching,
            )
        else:
            behind = [continuations] if isinstance(continuations, str) else continuations
            found = likelihood.score_continuations(
                self.model,
                self.tokenizer,
                several,
                behind,
                start=self.start,
                room=room,
                overlap=overlap,
                places=places,
                options=batching,
            )
        return found[0] if alone else found

    @overload
    def choose(  # type: ignore[overload-overlap]
        self,
        texts: str,
        labels: Sequence[str],
        *,
        template: str = ...,
        normalize: Normalize = ...,
        before: Sequence[str] | None = ...,
        places: Sequence[str] | None = ...,
        **options: Unpack[BatchKeywords],
    ) -> Chosen: ...
    @overload
    def choose(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        template: str = ...,
        normalize: Normalize = ...,
        before: Sequence[str] | None = ...,
        places: Sequence[str] | None = ...,
        **options: Unpack[BatchKeywords],
    ) -> list[Chosen]: ...
    def choose(
        self,
        texts: str | Sequence[str],
        labels: Sequence[str],
        *,
        template: str = TEMPLATE,
        normalize: Normalize = "token",
        before: Sequence[str] | None = None,
        places: Sequence[str] | None = None,
        **options: Unpack[BatchKeywords],
    ) -> Chosen | list[Chosen]:
        """The likeliest label of each text, by what the model has read; nothing is trained.

        Args:
            texts: One text or several.
            labels: What may be chosen, at least two, as words that can follow.
            template: How text and label stand together.
            normalize: How labels are compared: by their log probability per "token", by the whole
                of it ("none"), or less what it is without the text ("unconditional").
            before: What stands before each prompt, such as `demonstrations`.
            places: Where each text came from, for messages: `reviews.csv, row 8,412`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.

        Returns:
            For one text a `Chosen`, for several a list of them.
        """
        self._check_writes("choose by likelihood")
        several = [texts] if isinstance(texts, str) else list(texts)

        def score(
            prompts: Sequence[str], continuations: Sequence[str], places: Sequence[str]
        ) -> list[Scored]:
            return self.score(prompts, continuations, places=places, **options)

        found = choosing.choose(
            score,
            several,
            labels,
            template=template,
            normalize=normalize,
            before=before,
            places=places,
        )
        return found[0] if isinstance(texts, str) else found

    def demonstrations(
        self,
        texts: Sequence[str],
        examples: Sequence[LabelledExample],
        few_shot: FewShot | None = None,
    ) -> FewShotPrompts:
        """What may stand before prompts to show a task by examples, as much as the model takes.

        For `choose` (its `before`, with the same template), or before a prompt that is gone on
        with.

        Args:
            texts: What will be asked about.
            examples: Texts with their labels, to draw from.
            few_shot: How many, and how they are written; eight, as `text -> label`, if not given.
        """
        room = self.max_length
        frame = len(self.tokenizer.encode([""])[0])

        def count(several: Sequence[str]) -> list[int]:
            return [len(text) for text in self.tokenizer.encode(several, special=False)]

        return demonstrations(
            texts,
            examples,
            few_shot or FewShot(),
            room=None if room is None else room - frame,
            count=count,
        )

    def exposure(
        self,
        texts: Sequence[str],
        answers: Sequence[str] | None = None,
        *,
        given: int = GIVEN,
        length: int = LENGTH,
        greedy: bool = False,
        seed: int = 0,
        **options: Unpack[BatchKeywords],
    ) -> Exposure:
        """The loss behind right tokens beside that behind the model's own, place by place.

        Args:
            texts: A decoder goes on behind the first tokens of each; an encoder-decoder answers it.
            answers: The answers to the texts, for an encoder-decoder.
            given: How many tokens of each text a decoder is given.
            length: How many tokens it is followed for.
            greedy: Whether the model reads its likeliest tokens; otherwise it draws them.
            seed: Decides what is drawn.
            options: `batch_tokens`, `progress` and `cancelled`, as for `ask`.
        """
        self._check_writes("read its own words")
        if (answers is None) == (self.model.decoder is not None):
            if answers is None:
                raise InputError(f"{self.name} answers texts; give an answer for each of them.")
            raise InputError(f"{self.name} goes on with texts; give no answers.")
        if answers is not None and len(answers) != len(texts):
            raise InputError(
                f"answers has {len(answers):,} texts and texts has {len(texts):,}; each text needs "
                f"one; give lists of equal length."
            )
        return exposure(
            self.model,
            self.tokenizer,
            texts,
            answers,
            room=self.max_length,
            start=self.start,
            given=given,
            length=length,
            greedy=greedy,
            seed=seed,
            options=BatchOptions(**options),
        )

    def _check_writes(self, what: str) -> None:
        blueprint = self.model.blueprint
        if HEAD not in blueprint.heads or not blueprint.can_generate:
            why = "has no vocabulary head" if blueprint.can_generate else "sees what comes next"
            raise UnsupportedError(
                f"{self.name} {why}, so it cannot {what}; use a decoder such as GPT-2, or an "
                f"encoder-decoder such as T5, saved with its language-model head."
            )
        if blueprint.decoder is not None and self.start is None:
            raise UnsupportedError(
                f"{self.name} does not say what its answers begin with; state "
                f"decoder_start_token_id in config.json."
            )

    def _window(self, asked: int | None) -> int | None:
        room = self.max_length
        if asked is None:
            return room
        if asked < 2:
            raise SettingError(f"max_length is {asked:,}; it must be at least 2; raise it.")
        if room is not None and asked > room:
            raise SettingError(
                f"max_length is {asked:,}; this model takes at most {room:,} tokens; lower it."
            )
        return asked
