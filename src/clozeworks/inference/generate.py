"""Write texts: what a decoder puts behind a prompt, what an encoder-decoder answers to it.

The idea: prompts of all lengths are read packed, side by side, and each text is written as if it
were alone. Text appears as soon as it is certain: not in the middle of a character that takes
several tokens, and not while it may be the beginning of a stop string.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256

import numpy as np
import torch

from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.generate.beams import search
from clozeworks.generate.logits_processors import (
    BadWords,
    Known,
    LogitsProcessorSpec,
    MinNewTokens,
    RequiredWords,
)
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.session import DecoderSession
from clozeworks.generate.settings import Generation, Wording
from clozeworks.inference.loop import evaluating
from clozeworks.inference.prompts import CheckedReader, memory_batches
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
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted


class TextWriter:
    """A model and its tokenizer, and where texts begin and end.

    Args:
        model: A model that writes.
        tokenizer: Its tokenizer.
        name: What messages call the model.
        ends: The tokens that end a text.
        start: What the answers of an encoder-decoder begin with.
        room: The most tokens the model takes.
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
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.ends = tuple(ends)
        if chat:  # a turn may end with a token of its own
            self.ends = tuple(dict.fromkeys((*self.ends, *_turn_ends(tokenizer))))
        self.start = start
        self.room = room
        self.chat = chat

    def all(
        self, prompts: Sequence[str], settings: Generation, progress: Progress | None = None
    ) -> list[list[WrittenText]]:
        """The texts of every prompt, the best or first drawn first.

        Args:
            prompts: The prompts.
            settings: How texts are written.
            progress: Called with texts done and texts in all.
        """
        found: list[dict[int, WrittenText]] = [{} for _ in prompts]
        done, total = 0, len(prompts) * settings.num_return_sequences
        for fresh in self.stream(prompts, settings):
            if fresh.whole is not None:
                found[fresh.prompt][fresh.number] = fresh.whole
                done += 1
                if progress is not None:
                    progress(done, total)
        return [[texts[number] for number in sorted(texts)] for texts in found]

    def check(self, prompts: Sequence[str], settings: Generation) -> None:
        """Complains about prompts and settings as `stream` would, for who asks for some at a time.

        Raises:
            InputError: A prompt has no token, or more than the model takes.
            SettingError: A setting does not fit the model or a prompt.
        """
        self._batches(self.encode(prompts), settings, 1)

    def stream(
        self, prompts: Sequence[str], settings: Generation, *, first: int = 1
    ) -> Iterator[StreamChunk]:
        """Text as it comes, of several prompts side by side.

        Everything about prompts and settings is checked here, before the first text comes.

        Args:
            prompts: The prompts.
            settings: How texts are written.
            first: The number of the first prompt, for messages.
        """
        ids = self.encode(prompts, first)
        return self._streamed(prompts, ids, self._batches(ids, settings, first), settings, first)

    def _batches(
        self, ids: Sequence[Sequence[int]], settings: Generation, first: int
    ) -> list[tuple[list[int], int]]:
        """Which prompts are written together, and how much at most, if all can be."""
        self._check(ids, settings, first)
        each = settings.beams.width if settings.beams is not None else settings.num_return_sequences
        max_new_tokens = [
            self._max_new_tokens(len(prompt), settings.ending.max_new_tokens) for prompt in ids
        ]
        return memory_batches(
            self.model, [len(prompt) for prompt in ids], max_new_tokens, each, first
        )

    def _streamed(
        self,
        prompts: Sequence[str],
        ids: Sequence[list[int]],
        batches: Sequence[tuple[list[int], int]],
        settings: Generation,
        first: int,
    ) -> Iterator[StreamChunk]:
        run = self._searched if settings.beams is not None else self._written
        for batch, max_new_tokens in batches:
            with evaluating(self.model):
                yield from run(prompts, ids, batch, max_new_tokens, settings, first)

    def encode(self, prompts: Sequence[str], first: int = 1) -> list[list[int]]:
        """The tokens of each prompt, at least one; messages count prompts from `first`.

        Raises:
            InputError: A prompt has no token, or more than the model takes.
        """
        if self.chat:
            prompts = [self._turn(prompt, number) for number, prompt in enumerate(prompts, first)]
        # A template writes its own special tokens; what an encoder reads has an end as in training.
        special = not self.chat or self.model.decoder is not None
        encoded = self.tokenizer.encode(prompts, special=special)
        found = [list(one.ids) for one in encoded]
        if self.model.decoder is not None:
            for number, prompt in enumerate(prompts, first):
                if not prompt.strip():
                    raise InputError(
                        f"prompt {number:,} is empty; {self.name} answers what it reads, and there "
                        f"is nothing; give it at least a word."
                    )
            return found
        for number, ids in enumerate(found, first):
            while not self.chat and len(ids) > 1 and ids[-1] in self.ends:
                ids.pop()  # a text that is to go on has not ended
            if not ids:
                begin = self.tokenizer.first_id
                if begin is None:
                    raise InputError(
                        f"prompt {number:,} is empty, and {self.name} has no token that a text "
                        f"begins with; give it at least a word."
                    )
                ids.append(begin)
            if self.room is not None and len(ids) >= self.room:
                raise InputError(
                    f"prompt {number:,} has {len(ids):,} tokens; {self.name} has positions for "
                    f"{self.room:,}, and at least one must be left to write; shorten it."
                )
        return found

    def _turn(self, prompt: str, number: int) -> str:
        """What a user says, up to where the assistant begins."""
        said = [{"role": "user", "content": prompt}]
        return self.tokenizer.chat.render(said, asks=True, source_location=f"prompt {number:,}")

    def _check(self, ids: Sequence[Sequence[int]], settings: Generation, first: int) -> None:
        entries = self.model.blueprint.embeddings.tokens
        if settings.beams is not None and settings.beams.width > entries:
            rule = f"the vocabulary has {entries:,} entries, and a search cannot be wider"
            raise SettingError("num_beams", settings.beams.width, rule, "lower it")
        if settings.ending.min_new_tokens and not self.ends:
            rule = f"{self.name} has no token that ends a text, so it has no effect"
            raise SettingError(
                "min_new_tokens", settings.ending.min_new_tokens, rule, "leave it out"
            )
        check_words(self.tokenizer, settings.wording, self.name)
        required = runs_of(self.tokenizer, settings.wording.required_words)
        wanted = sum(map(len, required))
        for number, prompt in enumerate(ids, first):
            room = self._max_new_tokens(len(prompt), settings.ending.max_new_tokens)
            if wanted > room:
                raise SettingError(
                    "required_words",
                    settings.wording.required_words,
                    f"they take {wanted:,} tokens, and there is room for {room:,} after prompt "
                    f"{number:,}",
                    "raise `max_new_tokens`, or shorten the prompt",
                )

    def _max_new_tokens(self, length: int, asked: int) -> int:
        if self.model.decoder is not None:
            length = 1  # of an answer only its start is there
        return asked if self.room is None else min(asked, self.room - length)

    def _rules(self, max_new_tokens: int, settings: Generation) -> list[LogitsProcessorSpec]:
        """All rules, in their fixed order."""
        wording, ending = settings.wording, settings.ending
        rules = wording.rules()
        if self.tokenizer.size < self.model.blueprint.embeddings.tokens:
            rules.append(Known(count=self.tokenizer.size))
        if wording.bad_words:
            rules.append(BadWords(words=runs_of(self.tokenizer, wording.bad_words, both=True)))
        if wording.required_words:
            required = runs_of(self.tokenizer, wording.required_words)
            rules.append(
                RequiredWords(words=required, ends=self.ends, max_new_tokens=max_new_tokens)
            )
        if ending.min_new_tokens:
            rules.append(MinNewTokens(tokens=ending.min_new_tokens, ends=self.ends))
        return rules + (settings.drawing.rules() if settings.drawing is not None else [])

    def _limits(
        self, ids: Sequence[list[int]], max_new_tokens: int, settings: Generation
    ) -> Limits:
        stop = None
        if settings.ending.stop:
            before = ids if self.model.decoder is None else [()] * len(ids)
            stop = Stops(self.tokenizer, settings.ending.stop, before, self._due(settings))
        return Limits(max_new_tokens=max_new_tokens, ends=self.ends, stop=stop)

    def _due(self, settings: Generation) -> StopCondition:
        """What is written before a stop string may end a text."""
        words = runs_of(self.tokenizer, settings.wording.required_words)
        return StopCondition(settings.ending.min_new_tokens, words)

    def _reader(
        self, ids: Sequence[Sequence[int]], batch: Sequence[int], max_new_tokens: int, first: int
    ) -> DecoderSession:
        numbers = [number + first - 1 for number in batch]
        return CheckedReader(self.model, ids, max_new_tokens, self.start, numbers)

    def _given(self, ids: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """What rules about repetition count as there already."""
        if self.model.decoder is None:
            return ids
        assert self.start is not None
        return [[self.start]] * len(ids)

    @torch.inference_mode()
    def _searched(
        self,
        prompts: Sequence[str],
        ids: Sequence[list[int]],
        batch: list[int],
        max_new_tokens: int,
        settings: Generation,
        first: int,
    ) -> Iterator[StreamChunk]:
        assert settings.beams is not None
        own = [ids[number] for number in batch]
        found = search(
            self._reader(own, batch, max_new_tokens, first),
            self._given(own),
            beams=settings.beams,
            limits=self._limits(own, max_new_tokens, settings),
            rules=self._rules(max_new_tokens, settings),
        )
        for number, texts in zip(batch, found, strict=True):
            for rank, text in enumerate(texts[: settings.num_return_sequences]):
                so_far = partial(self._whole, prompts[number], ids[number], text, settings)
                whole = so_far()
                yield StreamChunk(number, rank, whole.text, so_far, whole)

    @torch.inference_mode()
    def _written(
        self,
        prompts: Sequence[str],
        ids: Sequence[list[int]],
        batch: list[int],
        max_new_tokens: int,
        settings: Generation,
        first: int,
    ) -> Iterator[StreamChunk]:
        own = [ids[number] for number in batch]
        seeds = None
        if settings.drawing is not None:
            drawn = range(settings.num_return_sequences)
            seeds = [[_seed(settings.drawing.seed, text, k) for k in drawn] for text in own]
        due = self._due(settings)
        texts = [Written() for _ in range(len(batch) * settings.num_return_sequences)]
        shown = [
            self._unfolding(text, settings)
            for text in own
            for _ in range(settings.num_return_sequences)
        ]
        steps = write(
            self._reader(own, batch, max_new_tokens, first),
            self._given(own),
            limits=self._limits(own, max_new_tokens, settings),
            rules=self._rules(max_new_tokens, settings),
            seeds=seeds,
            others=settings.top_logprobs,
        )
        for pieces in steps:
            for piece in pieces:
                text = texts[piece.row]
                text.add(piece)
                index, number = divmod(piece.row, settings.num_return_sequences)
                prompt = batch[index]
                new = ""
                if piece.token not in self.ends:
                    begin = due.behind(text.tokens, self.tokenizer) if settings.ending.stop else 0
                    stops = begin is not None and begin < len(text.tokens)
                    new = shown[piece.row].add(piece.token, stops=stops)
                so_far = partial(self._whole, prompts[prompt], ids[prompt], text, settings)
                if piece.ended is None:
                    yield StreamChunk(prompt, number, new, so_far)
                    continue
                whole = so_far()
                rest = shown[piece.row].rest(whole.text)
                yield StreamChunk(prompt, number, new + rest, so_far, whole)

    def _unfolding(self, ids: Sequence[int], settings: Generation) -> "StreamDecoder":
        before = ids if self.model.decoder is None else ()
        return StreamDecoder(self.tokenizer, before, settings.ending.stop)

    def _whole(
        self, prompt: str, ids: Sequence[int], text: Written, settings: Generation
    ) -> WrittenText:
        before = ids if self.model.decoder is None else ()
        tokens = [token for token in text.tokens if token not in self.ends]
        words = self.tokenizer.continued(before, tokens)
        first = self._due(settings).behind(tokens, self.tokenizer) if settings.ending.stop else None
        if first is not None:
            begin = len(self.tokenizer.continued(before, tokens[:first]))
            end = first_stop(words[begin:], settings.ending.stop)
            words = words if end is None else words[: begin + end]
        named = self.tokenizer.token_of
        return WrittenText(
            prompt,
            words,
            tuple(
                Token(named(token), log, tuple((named(other), value) for other, value in others))
                # Trap: who interrupts may do so while a token is added.
                for token, log, others in zip(text.tokens, text.logs, text.others, strict=False)
            ),
            text.ended,
            text.score,
        )


def _turn_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What ends a turn of the assistant; nothing where its template does not tell."""
    try:
        return (chat_end(RowSettings(tokenizer, TextLengths(), None)),)
    except InputError:
        return ()


def _seed(seed: int, prompt: Sequence[int], number: int) -> int:
    """A seed for one text: a function of the prompt, so that neighbours change nothing."""
    told = np.array([seed, number, *prompt], dtype=np.int64).tobytes()
    return int.from_bytes(sha256(told).digest()[:8], "little") >> 1


def runs_of(
    tokenizer: Tokenizer, words: Sequence[str], *, both: bool = False
) -> tuple[tuple[int, ...], ...]:
    """The tokens of words as they stand inside a sentence.

    Args:
        tokenizer: The tokenizer.
        words: The words.
        both: Whether also those that a text begins with are given.
    """
    found: dict[tuple[int, ...], None] = {}
    for word in words:
        spellings = [tokenizer.ids_inside(word)]
        if both:
            spellings.append(tokenizer.encode([word], special=False)[0].ids)
        found.update((tuple(spelling), None) for spelling in spellings)
    return tuple(found)


def check_words(tokenizer: Tokenizer, wording: Wording, name: str) -> None:
    """Complains about words that cannot be written, or must come and may not.

    Args:
        tokenizer: The tokenizer.
        wording: What is asked for.
        name: What messages call the model.

    Raises:
        SettingError: The word, and what is in its way.
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
        runs = [word[index : index + (size or 0)] for index in range(len(word))]
        runs = [run for run in runs if size is not None and len(run) == size]
        if len(set(runs)) < len(runs):
            rule = f"it repeats {counted(size or 0, 'token')}, and `no_repeat_ngram_size` is {size}"
            raise SettingError("required_words", shown, rule, "leave one of them out")
