"""The methods of a language model that score texts by their likelihood."""

from collections.abc import Sequence
from typing import Unpack, overload

from clozeworks.data.labelled.in_memory import listed_texts
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.families.family import CHOICE_HEAD
from clozeworks.inference import choose as choosing
from clozeworks.inference import likelihood
from clozeworks.inference.choose import TEMPLATE, Chosen, Normalize
from clozeworks.inference.exposure import GIVEN, LENGTH, Exposure, exposure
from clozeworks.inference.few_shot import FewShot, FewShotPrompts, LabelledExample, demonstrations
from clozeworks.inference.likelihood import HEAD, Scored
from clozeworks.inference.logits import logits
from clozeworks.inference.loop import BatchKeywords
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.loaded import LoadedCheckpoint, checked_length


class ScoreKeywords(BatchKeywords, total=False):
    """The keyword arguments of `score`."""

    max_length: int | None
    overlap: int | None
    source_locations: Sequence[str] | None


class ChooseKeywords(BatchKeywords, total=False):
    """The keyword arguments of `choose`."""

    template: str
    normalize: Normalize
    before: Sequence[str] | None
    source_locations: Sequence[str] | None


class ScoringMethods(LoadedCheckpoint):
    """Scoring texts, choosing among labels, measuring exposure bias."""

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, continuations: str | None = ..., **options: Unpack[ScoreKeywords]
    ) -> Scored: ...
    @overload
    def score(
        self,
        texts: Sequence[str],
        continuations: Sequence[str] | None = ...,
        **options: Unpack[ScoreKeywords],
    ) -> list[Scored]: ...
    def score(
        self,
        texts: str | Sequence[str],
        continuations: str | Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        overlap: int | None = None,
        source_locations: Sequence[str] | None = None,
        **options: Unpack[BatchKeywords],
    ) -> Scored | list[Scored]:
        """Scores texts, or continuations of texts, by their log probability.

        Texts longer than the model takes are read through windows. With an encoder-decoder each
        continuation is scored as the output for its text.

        Args:
            texts: One text or several.
            continuations: What follows each; then only this is scored. White space between the two
                belongs to one of them.
            max_length: The maximum length of a window in tokens; the model's limit if not given.
            overlap: How many tokens a later window has at least before those it scores; half of a
                window if not given.
            source_locations: Where each text came from, for messages: `reviews.csv, row 8,412`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If a text has no token that can be scored, or if texts and continuations do
                not match.
            UnsupportedError: If the model is not a decoder or encoder-decoder.
        """
        self._check_generates("score texts")
        if isinstance(texts, str) != isinstance(continuations, str) and continuations is not None:
            raise InputError(
                "texts and continuations do not match; each text needs a continuation; give two "
                "texts, or two lists of equal length."
            )
        several = listed_texts(texts)
        limit = self.max_length
        window = limit if max_length is None else checked_length(max_length, 2, limit)
        if continuations is None and self.model.decoder is not None:
            raise UnsupportedError(
                f"{self.name} is an encoder-decoder, so a text by itself has no likelihood; "
                f"give the outputs as continuations."
            )
        with batch_options(options, self.score) as batching:
            if continuations is None:
                scores = likelihood.score_texts(
                    self.model,
                    self.tokenizer,
                    several,
                    max_length=window,
                    overlap=overlap,
                    source_locations=source_locations,
                    options=batching,
                )
            else:
                following = listed_texts(continuations, "continuations")
                scores = likelihood.score_continuations(
                    self.model,
                    self.tokenizer,
                    several,
                    following,
                    start=self.start,
                    max_length=window,
                    overlap=overlap,
                    source_locations=source_locations,
                    options=batching,
                )
        return scores[0] if isinstance(texts, str) else scores

    @overload
    def choose(  # type: ignore[overload-overlap]
        self, texts: str, labels: Sequence[str], **options: Unpack[ChooseKeywords]
    ) -> Chosen: ...
    @overload
    def choose(
        self, texts: Sequence[str], labels: Sequence[str], **options: Unpack[ChooseKeywords]
    ) -> list[Chosen]: ...
    def choose(
        self,
        texts: str | Sequence[str],
        labels: Sequence[str],
        *,
        template: str = TEMPLATE,
        normalize: Normalize = "token",
        before: Sequence[str] | None = None,
        source_locations: Sequence[str] | None = None,
        **options: Unpack[BatchKeywords],
    ) -> Chosen | list[Chosen]:
        """Chooses the likeliest label of each text, zero-shot or few-shot; nothing is trained.

        A model that was trained to choose (`…ForMultipleChoice`) reads each text and label as a
        pair; it takes no template.

        Args:
            texts: One text or several.
            labels: The labels to choose from, at least two, as words that can follow.
            template: How a text and a label are combined.
            normalize: How labels are compared: by their log probability per "token", by the whole
                of it ("none"), or minus what it is without the text ("unconditional").
            before: Text put before each prompt, such as `demonstrations`.
            source_locations: Where each text came from, for messages: `reviews.csv, row 8,412`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.
        """
        several = listed_texts(texts)
        if CHOICE_HEAD in self.model.heads and HEAD not in self.model.heads:
            for name, value, usual in (
                ("template", template, TEMPLATE),
                ("normalize", normalize, "token"),
                ("before", before, None),
            ):
                if value != usual:
                    rule = "the model has a head to choose with, which reads text and label alone"
                    raise SettingError(name, value, rule, "leave it out")
            chosen = choosing.choose_by_head(
                lambda pairs: self._choice_logits(pairs, **options),
                several,
                labels,
            )
            return chosen[0] if isinstance(texts, str) else chosen
        self._check_generates("choose by likelihood")

        def score(
            prompts: Sequence[str], continuations: Sequence[str], locations: Sequence[str]
        ) -> list[Scored]:
            return self.score(prompts, continuations, source_locations=locations, **options)

        chosen = choosing.choose(
            score,
            several,
            labels,
            template=template,
            normalize=normalize,
            before=before,
            source_locations=source_locations,
        )
        return chosen[0] if isinstance(texts, str) else chosen

    def _choice_logits(
        self,
        pairs: Sequence[tuple[str, str]],
        **options: Unpack[BatchKeywords],
    ) -> list[float]:
        with batch_options(options, self.choose) as batching:
            results = logits(
                self.model,
                self.tokenizer,
                pairs,
                head=CHOICE_HEAD,
                max_length=self.max_length,
                options=batching,
            )
        return [float(result.logits[0]) for result in results]

    def demonstrations(
        self,
        texts: Sequence[str],
        examples: Sequence[LabelledExample],
        few_shot: FewShot | None = None,
    ) -> FewShotPrompts:
        """Draws few-shot demonstrations to put before prompts, as many as the model takes.

        For `choose` (its `before`, with the same template), or before a prompt for `generate`.

        Args:
            texts: The texts that will be scored or continued.
            examples: Texts with their labels, to draw from.
            few_shot: How many, and how they are written; eight, as `text -> label`, if not given.

        Raises:
            InputError: If there are fewer examples than demonstrations.
        """
        max_length = self.max_length
        special = len(self.tokenizer.encode([""])[0])

        def count(several: Sequence[str]) -> list[int]:
            return [len(text) for text in self.tokenizer.encode(several, special=False)]

        return demonstrations(
            texts,
            examples,
            few_shot or FewShot(),
            max_length=None if max_length is None else max_length - special,
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
        """Measures exposure bias: the teacher-forced loss beside the free-running one.

        Args:
            texts: A decoder continues the first tokens of each; an encoder-decoder answers it.
            answers: The reference outputs, for an encoder-decoder.
            given: How many tokens of each text a decoder is given.
            length: For how many tokens the references are followed.
            greedy: Whether the model reads its likeliest tokens; otherwise it samples them.
            seed: Decides what is sampled.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If no text is long enough, or if answers are missing or superfluous.
            SettingError: If a number is too small, or `given` and `length` exceed what the model
                takes.
            UnsupportedError: If the model is not a decoder or encoder-decoder.
        """
        self._check_generates("read its own output")
        texts = listed_texts(texts)
        answers = None if answers is None else listed_texts(answers, "answers")
        if (answers is None) == (self.model.decoder is not None):
            if answers is None:
                raise InputError(
                    f"{self.name} is an encoder-decoder; give a reference answer for each text."
                )
            raise InputError(f"{self.name} is a decoder, which continues texts; leave out answers.")
        if answers is not None and len(answers) != len(texts):
            raise InputError(
                f"answers has {len(answers):,} texts and texts has {len(texts):,}; each text needs "
                f"one; give lists of equal length."
            )
        with batch_options(options, self.exposure) as batching:
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
                options=batching,
            )

    def _check_generates(self, what: str) -> None:
        blueprint = self.model.blueprint
        if HEAD not in blueprint.heads or not blueprint.can_generate:
            why = "has no vocabulary head" if blueprint.can_generate else "attends to later tokens"
            raise UnsupportedError(
                f"{self.name} {why}, so it cannot {what}; use a decoder such as GPT-2, or an "
                f"encoder-decoder such as T5, saved with its language-model head."
            )
        if blueprint.decoder is not None and self.start is None:
            raise UnsupportedError(
                f"{self.name} has no decoder start token; state decoder_start_token_id in "
                f"config.json."
            )
