"""Text generation: a decoder continues a prompt, an encoder-decoder answers it.

The idea: prompts of all lengths are read packed in one batch, and each text is generated as if it
were alone. Text appears as soon as it is certain: not in the middle of a character that takes
several tokens, and not while it may be the beginning of a stop string.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256

import numpy as np
import torch

from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.generate.beams import Beams, search
from clozeworks.generate.logits_processors import (
    BadWords,
    FirstTokens,
    Known,
    LogitsProcessorSpec,
    MinNewTokens,
    RequiredWords,
)
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.settings import Generation, Wording
from clozeworks.inference.loop import evaluating
from clozeworks.inference.prompts import CheckedSession, memory_batches
from clozeworks.inference.streaming import (
    StopCondition,
    Stops,
    StreamChunk,
    StreamDecoder,
    Token,
    WrittenText,
    first_stop,
)
from clozeworks.runtime.progress import Progress
from clozeworks.tasks.text_to_text.rows import RowSettings, TextLengths, chat_end
from clozeworks.text.tokenizer.tokenizer import Encoded, Tokenizer
from clozeworks.wording import counted

# A text, or token ids, which are read as they are.
PromptOrIds = str | Sequence[int]


class TextWriter:
    """A model that generates text, and where its texts begin and end.

    Args:
        model: A model that can generate.
        tokenizer: Its tokenizer.
        name: What messages call the model.
        ends: The tokens that end a text.
        start: The decoder start token of an encoder-decoder.
        room: The maximum number of tokens the model takes.
        chat: Whether prompts are what a user says in a chat, written as the tokenizer's template
            has it.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        name: str,
        ends: Sequence[int],
        start: int | None,
        room: int | None,
        chat: bool = False,
    ) -> None:
        if not model.blueprint.can_generate or HEAD not in model.blueprint.heads:
            lacks = "its tokens see later ones" if HEAD in model.heads else "no vocabulary head"
            raise UnsupportedError(
                f"{name} cannot write texts: {lacks}; use a decoder such as GPT-2 or LLaMA, or an "
                f"encoder-decoder such as T5, saved with its decoder and language-model head."
            )
        if model.decoder is not None and start is None:
            raise UnsupportedError(
                f"{name} does not say what its answers begin with; state decoder_start_token_id in "
                f"config.json."
            )
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.start, self.room, self.chat = start, room, chat
        self.ends = tuple(ends)
        if chat:  # a turn may end with a token of its own
            self.ends = tuple(dict.fromkeys((*ends, *_turn_ends(tokenizer))))

    def all(
        self,
        prompts: Sequence[PromptOrIds],
        settings: Generation,
        progress: Progress | None = None,
    ) -> list[list[WrittenText]]:
        """The texts of every prompt, the best or first drawn first; progress counts texts."""
        texts: list[dict[int, WrittenText]] = [{} for _ in prompts]
        done, total = 0, len(prompts) * settings.num_return_sequences
        for chunk in self.stream(prompts, settings):
            if chunk.whole is not None:
                texts[chunk.prompt][chunk.number] = chunk.whole
                done += 1
                if progress is not None:
                    progress(done, total)
        return [[several[number] for number in sorted(several)] for several in texts]

    def check(self, prompts: Sequence[PromptOrIds], settings: Generation) -> None:
        """Checks prompts and settings as `stream` does, for callers that stream a few at a time.

        Raises:
            InputError: If a prompt has no token, or more than the model takes.
            SettingError: If a setting does not fit the model or a prompt.
        """
        self._batches(prompts, settings, 1)

    def stream(
        self, prompts: Sequence[PromptOrIds], settings: Generation, *, first: int = 1
    ) -> Iterator[StreamChunk]:
        """Text as it is generated, for several prompts in a batch.

        Everything about prompts and settings is checked here, before the first text comes.
        Messages number the prompts from `first`.
        """
        return self._streamed(self._batches(prompts, settings, first))

    def _batches(
        self, prompts: Sequence[PromptOrIds], settings: Generation, first: int
    ) -> list["_GenerationBatch"]:
        ids = self.encode(prompts, first)
        limits = [self._max_new_tokens(len(own), settings.ending.max_new_tokens) for own in ids]
        self._check(settings, limits, first)
        beams = settings.beams
        each = settings.num_return_sequences if beams is None else beams.num_beams
        return [
            _GenerationBatch(self, settings, prompts, ids, numbers, max_new_tokens, first)
            for numbers, max_new_tokens in memory_batches(
                self.model, [len(own) for own in ids], limits, each, first
            )
        ]

    def _streamed(self, batches: Sequence["_GenerationBatch"]) -> Iterator[StreamChunk]:
        for batch in batches:
            beams = batch.settings.beams
            with evaluating(self.model):
                yield from batch.sample() if beams is None else batch.search(beams)

    def encode(self, prompts: Sequence[PromptOrIds], first: int = 1) -> list[list[int]]:
        """The tokens of each prompt, at least one; messages count prompts from `first`.

        Raises:
            InputError: If a prompt has no token, or more than the model takes, or an id that the
                tokenizer does not have.
        """
        results = self.read(prompts, first)
        if self.model.decoder is None and self.room is not None:
            for number, ids in enumerate(results, first):
                if len(ids) >= self.room:
                    raise InputError(
                        f"prompt {number:,} has {len(ids):,} tokens; {self.name} has positions for "
                        f"{self.room:,}, and at least one must be left to write; shorten it."
                    )
        return results

    def read(self, prompts: Sequence[PromptOrIds], first: int = 1) -> list[list[int]]:
        """The tokens of each prompt as `encode` gives them, however many they are."""
        texts = {n: prompt for n, prompt in enumerate(prompts, first) if isinstance(prompt, str)}
        read = self._texts(texts)
        return [
            read[number] if isinstance(prompt, str) else self._given(prompt, number)
            for number, prompt in enumerate(prompts, first)
        ]

    def _texts(self, texts: Mapping[int, str]) -> dict[int, list[int]]:
        """The tokens of texts by their numbers."""
        prompts = [self._turn(*each) for each in texts.items()] if self.chat else [*texts.values()]
        # A template writes its own special tokens; what an encoder reads has an end as in training.
        special = not self.chat or self.model.decoder is not None
        encoded = dict(zip(texts, self.tokenizer.encode(prompts, special=special), strict=True))
        if self.model.decoder is not None:
            for number, prompt in zip(texts, prompts, strict=True):
                if not prompt.strip():
                    raise InputError(
                        f"prompt {number:,} is empty; {self.name} answers what it reads, and there "
                        f"is nothing; give it at least a word."
                    )
            return {number: list(each.ids) for number, each in encoded.items()}
        return {number: self._open(each, number) for number, each in encoded.items()}

    def _open(self, encoded: Encoded, number: int) -> list[int]:
        """The tokens of a text that is to go on."""
        ids = list(encoded.ids)
        # It has not ended; an end that stands in it is text.
        while len(ids) > 1 and encoded.special[len(ids) - 1] and ids[-1] in self.ends:
            ids.pop()
        if not ids:
            begin = self.tokenizer.first_id
            if begin is None:
                raise InputError(
                    f"prompt {number:,} is empty, and {self.name} has no token that a text "
                    f"begins with; give it at least a word."
                )
            ids.append(begin)
        return ids

    def _given(self, ids: Sequence[int], number: int) -> list[int]:
        """Token ids that are read as they are."""
        if not ids:
            raise InputError(f"prompt {number:,} has no token; give it at least one.")
        self.tokenizer.decode(ids)  # complains about ids that it does not have
        return list(ids)

    def _turn(self, number: int, prompt: str) -> str:
        """A user's message, up to where the assistant begins."""
        messages = [{"role": "user", "content": prompt}]
        return self.tokenizer.chat.render(messages, asks=True, source_location=f"prompt {number:,}")

    def _check(self, settings: Generation, limits: Sequence[int], first: int) -> None:
        entries = self.model.blueprint.embeddings.tokens
        if settings.beams is not None and settings.beams.num_beams > entries:
            rule = f"the vocabulary has {entries:,} entries, and a search cannot be wider"
            raise SettingError("num_beams", settings.beams.num_beams, rule, "lower it")
        minimum = settings.ending.min_new_tokens
        if minimum and not self.ends:
            rule = f"{self.name} has no token that ends a text, so it has no effect"
            raise SettingError("min_new_tokens", minimum, rule, "leave it out")
        check_words(self.tokenizer, settings.wording, self.name)
        first_ids(self.tokenizer, settings.wording)
        words = settings.wording.required_words
        required = sum(map(len, runs_of(self.tokenizer, words)))
        for number, room in enumerate(limits, first):
            if required > room:
                raise SettingError(
                    "required_words",
                    words,
                    f"they take {required:,} tokens, and there is room for {room:,} after prompt "
                    f"{number:,}",
                    "raise `max_new_tokens`, or shorten the prompt",
                )

    def _max_new_tokens(self, length: int, requested: int) -> int:
        if self.model.decoder is not None:
            length = 1  # only the start token of the output
        return requested if self.room is None else min(requested, self.room - length)


class _GenerationBatch:
    """Prompts that are continued together."""

    def __init__(
        self,
        writer: TextWriter,
        settings: Generation,
        prompts: Sequence[PromptOrIds],
        ids: Sequence[list[int]],
        numbers: list[int],
        max_new_tokens: int,
        first: int,
    ) -> None:
        self.writer, self.settings = writer, settings
        self.tokenizer = writer.tokenizer
        self.numbers, self.first = numbers, first
        self.prompts = [
            prompt if isinstance(prompt, str) else self.tokenizer.decode(prompt, skip_special=False)
            for prompt in map(prompts.__getitem__, numbers)
        ]
        self.ids = [ids[number] for number in numbers]
        self.before = self.prompt_ids = self.ids
        if writer.model.decoder is not None:  # its outputs follow a start token, not the prompt
            assert writer.start is not None
            self.before, self.prompt_ids = [[]] * len(numbers), [[writer.start]] * len(numbers)
        self.max_new_tokens = max_new_tokens
        self.required = runs_of(self.tokenizer, settings.wording.required_words)
        self.condition = StopCondition(settings.ending.min_new_tokens, self.required)

    def _session(self) -> CheckedSession:
        numbers = [number + self.first - 1 for number in self.numbers]
        writer = self.writer
        beams = self.settings.beams
        width = self.settings.num_return_sequences if beams is None else beams.num_beams
        return CheckedSession(
            writer.model, self.ids, self.max_new_tokens, writer.start, numbers, width=width
        )

    def _limits(self) -> Limits:
        strings = self.settings.ending.stop
        stop = Stops(self.tokenizer, strings, self.before, self.condition) if strings else None
        return Limits(max_new_tokens=self.max_new_tokens, ends=self.writer.ends, stop=stop)

    def _rules(self) -> list[LogitsProcessorSpec]:
        """All rules, in their fixed order."""
        wording, ending, ends = self.settings.wording, self.settings.ending, self.writer.ends
        rules = wording.rules()
        if self.tokenizer.size < self.writer.model.blueprint.embeddings.tokens:
            rules.append(Known(count=self.tokenizer.size))
        if wording.bad_words:
            rules.append(BadWords(words=runs_of(self.tokenizer, wording.bad_words, both=True)))
        if self.required:
            limit = self.max_new_tokens
            rules.append(RequiredWords(words=self.required, ends=ends, max_new_tokens=limit))
        if ending.min_new_tokens:
            rules.append(MinNewTokens(tokens=ending.min_new_tokens, ends=ends))
        if wording.first_tokens:
            rules.append(FirstTokens(tokens=first_ids(self.tokenizer, wording)))
        return rules + (self.settings.drawing.rules() if self.settings.drawing is not None else [])

    @torch.inference_mode()
    def search(self, beams: Beams) -> Iterator[StreamChunk]:
        """The texts of a beam search, all at its end."""
        limits, rules = self._limits(), self._rules()
        with closing(self._session()) as session:
            results = search(session, self.prompt_ids, beams=beams, limits=limits, rules=rules)
        for index, texts in enumerate(results):
            for rank, text in enumerate(texts[: self.settings.num_return_sequences]):
                so_far = partial(self._text, index, text)
                whole = so_far()
                yield StreamChunk(self.numbers[index], rank, whole.text, so_far, whole)

    @torch.inference_mode()
    def sample(self) -> Iterator[StreamChunk]:
        """Texts token by token, drawn or greedy."""
        each, seeds = self.settings.num_return_sequences, None
        if self.settings.drawing is not None:
            seed = self.settings.drawing.seed
            seeds = [[_seed(seed, ids, number) for number in range(each)] for ids in self.ids]
        stop = self.settings.ending.stop
        texts = [Written() for _ in range(len(self.ids) * each)]
        decoders = [
            StreamDecoder(self.tokenizer, before, stop)
            for before in self.before
            for _ in range(each)
        ]
        with closing(self._session()) as session:
            steps = write(
                session,
                self.prompt_ids,
                limits=self._limits(),
                rules=self._rules(),
                seeds=seeds,
                others=self.settings.top_logprobs,
            )
            for sampled in steps:
                for token in sampled:
                    text, decoder = texts[token.row], decoders[token.row]
                    text.add(token)
                    index, number = divmod(token.row, each)
                    new = ""
                    if token.token not in self.writer.ends:
                        begin = self.condition.after(text.tokens, self.tokenizer) if stop else 0
                        stops = begin is not None and begin < len(text.tokens)
                        new = decoder.add(token.token, stops=stops)
                    so_far = partial(self._text, index, text)
                    whole = None if token.finish_reason is None else so_far()
                    if whole is not None:
                        new += decoder.rest(whole.text)
                    yield StreamChunk(self.numbers[index], number, new, so_far, whole)

    def _text(self, index: int, text: Written) -> WrittenText:
        before, stop = self.before[index], self.settings.ending.stop
        tokens = [token for token in text.tokens if token not in self.writer.ends]
        words = self.tokenizer.continued(before, tokens)
        first = self.condition.after(tokens, self.tokenizer) if stop else None
        if first is not None:
            begin = len(self.tokenizer.continued(before, tokens[:first]))
            end = first_stop(words[begin:], stop)
            words = words if end is None else words[: begin + end]
        name, entries = self.tokenizer.token_of, self.tokenizer.size
        return WrittenText(
            self.prompts[index],
            words,
            tuple(
                Token(
                    name(token),
                    log,
                    # A model may have more entries than its tokenizer.
                    tuple((name(other), value) for other, value in others if other < entries),
                )
                # Trap: an interruption may come while a token is added.
                for token, log, others in zip(text.tokens, text.logs, text.others, strict=False)
            ),
            text.finish_reason,
            text.score,
        )


def _turn_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What ends a turn of the assistant; empty if the template does not say."""
    try:
        return (chat_end(RowSettings(tokenizer, TextLengths(), None)),)
    except InputError:
        return ()


def _seed(seed: int, prompt: Sequence[int], number: int) -> int:
    """A seed for one text: a function of the prompt, so that neighbours change nothing."""
    data = np.array([seed, number, *prompt], dtype=np.int64).tobytes()
    return int.from_bytes(sha256(data).digest()[:8], "little") >> 1


def first_ids(tokenizer: Tokenizer, wording: Wording) -> tuple[int, ...]:
    """The tokens that texts begin with.

    Raises:
        SettingError: If the vocabulary has no such entry.
    """
    ids = []
    for entry in wording.first_tokens:
        token = tokenizer.id_of(entry)
        if token is None:
            rule, advice = "the vocabulary has no such entry", "name entries as answers show them"
            raise SettingError("first_tokens", entry, rule, advice)
        ids.append(token)
    return tuple(ids)


def runs_of(
    tokenizer: Tokenizer, words: Sequence[str], *, both: bool = False
) -> tuple[tuple[int, ...], ...]:
    """The distinct token runs of words inside a sentence and, with `both`, at its beginning."""
    spellings: list[tuple[int, ...]] = []
    for word in words:
        spellings.append(tuple(tokenizer.ids_inside(word)))
        if both:
            spellings.append(tuple(tokenizer.encode([word], special=False)[0].ids))
    return tuple(dict.fromkeys(spellings))


def check_words(tokenizer: Tokenizer, wording: Wording, name: str) -> None:
    """Checks bad and required words against the tokenizer of the model `name`.

    Raises:
        SettingError: If a word has no tokens, or is required and another setting forbids it.
    """
    for setting in ("bad_words", "required_words"):
        for word in getattr(wording, setting):
            unknown = word != tokenizer.special.unknown
            if unknown and tokenizer.unknown_id in tokenizer.ids_inside(word):
                rule = f"the tokenizer of {name} has no tokens for it, so it is never generated"
                raise SettingError(setting, word, rule, "leave it out")
    banned, size = runs_of(tokenizer, wording.bad_words, both=True), wording.no_repeat_ngram_size
    for word in runs_of(tokenizer, wording.required_words):
        shown = tokenizer.decode(word).strip()
        for bad in banned:
            if any(word[index : index + len(bad)] == bad for index in range(len(word))):
                part = tokenizer.decode(bad).strip()
                rule = f"`bad_words` lists a part of it, {part!r}"
                raise SettingError("required_words", shown, rule, "leave one of them out")
        if size is None:
            continue
        runs = [word[index : index + size] for index in range(len(word) - size + 1)]
        if len(set(runs)) < len(runs):
            rule = f"it repeats {counted(size, 'token')}, and `no_repeat_ngram_size` is {size}"
            raise SettingError("required_words", shown, rule, "leave one of them out")
