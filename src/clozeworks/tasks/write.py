"""Write texts: what a decoder puts behind a prompt, what an encoder-decoder answers to it.

The idea: prompts of all lengths are read packed, side by side, and each text is written as if it
were alone. Text appears as soon as it is certain: not in the middle of a character that takes
several tokens, and not while it may be the beginning of a stop string.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

import numpy as np
import torch

from clozeworks.core.attention import AttentionModule
from clozeworks.core.memory import available
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.generate.beams import search
from clozeworks.generate.reading import HEAD, Reader
from clozeworks.generate.rules import AtLeast, BadWords, Known, RequiredWords, RuleSpec
from clozeworks.generate.settings import Generation
from clozeworks.generate.writing import Limits, Written, write
from clozeworks.tasks.packing import check_finite, device_of, evaluating
from clozeworks.tasks.text_to_text_rows import Lengths, Reading, chat_end
from clozeworks.tasks.unfolding import Stops, Unfolding, first_stop
from clozeworks.tasks.written_text import Fresh, Token, WrittenText
from clozeworks.text.tokenizer import Tokenizer
from clozeworks.wording import size_in_words

Progress = Callable[[int, int], None]
# The most texts that are written side by side.
ROWS = 32
# The share of the memory at hand that a batch may take for what it has read.
_SHARE = 0.5


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
        if not model.blueprint.writes or HEAD not in model.blueprint.heads:
            lacks = "its tokens see later ones" if HEAD in model.heads else "no vocabulary head"
            raise UnsupportedError(
                f"{name} cannot write texts: {lacks}; use a decoder such as GPT-2 or LLaMA, or an "
                f"encoder-decoder such as T5, saved with its language-model head."
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
            told = Reading(tokenizer, Lengths(), None)
            self.ends = tuple(dict.fromkeys((*self.ends, chat_end(told))))
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
        done, total = 0, len(prompts) * settings.texts
        for fresh in self.stream(prompts, settings):
            if fresh.whole is not None:
                found[fresh.prompt][fresh.number] = fresh.whole
                done += 1
                if progress is not None:
                    progress(done, total)
        return [[texts[number] for number in sorted(texts)] for texts in found]

    def stream(self, prompts: Sequence[str], settings: Generation) -> Iterator[Fresh]:
        """Text as it comes, of several prompts side by side.

        Everything about prompts and settings is checked before the first token is written.
        """
        ids = self.encode(prompts)
        self._check(ids, settings)
        batches = self._batches(ids, settings)
        run = self._searched if settings.beams is not None else self._written
        for batch, most in batches:
            with evaluating(self.model):
                yield from run(prompts, ids, batch, most, settings)

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """The tokens of each prompt, at least one.

        Raises:
            InputError: A prompt has no token, or more than the model takes.
        """
        if self.chat:
            prompts = [self._turn(prompt, number) for number, prompt in enumerate(prompts, 1)]
        # A template writes its own special tokens.
        encoded = self.tokenizer.encode(prompts, special=not self.chat)
        found = [list(one.ids) for one in encoded]
        if self.model.decoder is not None:
            return found
        for number, ids in enumerate(found, start=1):
            while not self.chat and len(ids) > 1 and ids[-1] in self.ends:
                ids.pop()  # a text that is to go on has not ended
            if not ids:
                first = self.tokenizer.first_id
                if first is None:
                    raise InputError(
                        f"prompt {number:,} is empty, and {self.name} has no token that a text "
                        f"begins with; give it at least a word."
                    )
                ids.append(first)
            if self.room is not None and len(ids) >= self.room:
                raise InputError(
                    f"prompt {number:,} has {len(ids):,} tokens; {self.name} has places for "
                    f"{self.room:,}, and at least one must be left to write; shorten it."
                )
        return found

    def _turn(self, prompt: str, number: int) -> str:
        """What a user says, up to where the assistant begins."""
        said = [{"role": "user", "content": prompt}]
        return self.tokenizer.chat.render(said, asks=True, place=f"prompt {number:,}")

    def _check(self, ids: Sequence[Sequence[int]], settings: Generation) -> None:
        entries = self.model.blueprint.embeddings.tokens
        if settings.beams is not None and settings.beams.width > entries:
            raise SettingError(
                f"beams is {settings.beams.width:,}; the vocabulary has {entries:,} entries; a "
                f"search cannot be wider; lower it."
            )
        if settings.ending.least and not self.ends:
            raise SettingError(
                f"least is {settings.ending.least}, but {self.name} has no token that ends a "
                f"text; it has no effect; leave it out."
            )
        wanted = sum(len(word) for word in self._runs(settings.wording.required_words))
        for number, prompt in enumerate(ids, start=1):
            room = self._most(len(prompt), settings.ending.tokens)
            if wanted > room:
                raise SettingError(
                    f"required_words take {wanted:,} tokens, and behind prompt {number:,} there is "
                    f"room for {room:,}; they must fit; raise tokens, or shorten the prompt."
                )

    def _batches(
        self, ids: Sequence[Sequence[int]], settings: Generation
    ) -> list[tuple[list[int], int]]:
        """Prompts to be written side by side, and the most tokens each may get.

        What a text may have must not depend on its neighbours: prompts with less room than asked
        for are among their like.
        """
        each = settings.beams.width if settings.beams is not None else settings.texts
        of_token = _cache_bytes(self.model)
        have = available(device_of(self.model))
        most = [self._most(len(prompt), settings.ending.tokens) for prompt in ids]
        batches: list[tuple[list[int], int]] = []
        order = sorted(range(len(ids)), key=lambda number: (-most[number], -len(ids[number])))
        for number in order:
            # The first of a batch is its longest.
            size = (len(ids[number]) + most[number] + 1) * each * of_token
            if have is not None and size > have * _SHARE:
                raise SettingError(
                    f"prompt {number + 1:,} with {most[number]:,} new tokens and {each:,} texts "
                    f"side by side takes {size_in_words(size)}, and {size_in_words(have)} are at "
                    f"hand; lower tokens, texts or beams."
                )
            if batches and batches[-1][1] == most[number]:
                batch = batches[-1][0]
                longest = len(ids[batch[0]]) + most[number] + 1
                rows = (len(batch) + 1) * each
                fits = have is None or rows * longest * of_token <= have * _SHARE
                if rows <= max(ROWS, each) and fits:
                    batch.append(number)
                    continue
            batches.append(([number], most[number]))
        return batches

    def _most(self, length: int, asked: int) -> int:
        if self.model.decoder is not None:
            length = 1  # of an answer only its start is there
        return asked if self.room is None else min(asked, self.room - length)

    def _rules(self, most: int, settings: Generation) -> list[RuleSpec]:
        """All rules, in their fixed order."""
        wording, ending = settings.wording, settings.ending
        rules = wording.rules()
        if self.tokenizer.size < self.model.blueprint.embeddings.tokens:
            rules.append(Known(count=self.tokenizer.size))
        if wording.bad_words:
            rules.append(BadWords(words=self._runs(wording.bad_words, both=True)))
        if wording.required_words:
            required = self._runs(wording.required_words)
            rules.append(RequiredWords(words=required, ends=self.ends, most=most))
        if ending.least:
            rules.append(AtLeast(tokens=ending.least, ends=self.ends))
        return rules + (settings.drawing.rules() if settings.drawing is not None else [])

    def _runs(self, words: Sequence[str], *, both: bool = False) -> tuple[tuple[int, ...], ...]:
        """The tokens of words as they stand inside a sentence; also as a text begins with them."""
        found: dict[tuple[int, ...], None] = {}
        for word in words:
            spellings = [self.tokenizer.ids_inside(word)]
            if both:
                spellings.append(self.tokenizer.encode([word], special=False)[0].ids)
            found.update((tuple(spelling), None) for spelling in spellings)
        return tuple(found)

    def _limits(self, ids: Sequence[list[int]], most: int, settings: Generation) -> Limits:
        stop = None
        if settings.ending.stop:
            before = ids if self.model.decoder is None else [()] * len(ids)
            stop = Stops(self.tokenizer, settings.ending.stop, before)
        return Limits(most=most, ends=self.ends, stop=stop)

    def _reader(self, ids: Sequence[Sequence[int]], batch: Sequence[int], most: int) -> Reader:
        return _CheckedReader(self.model, ids, most, self.start, batch)

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
        most: int,
        settings: Generation,
    ) -> Iterator[Fresh]:
        assert settings.beams is not None
        own = [ids[number] for number in batch]
        found = search(
            self._reader(own, batch, most),
            self._given(own),
            beams=settings.beams,
            limits=self._limits(own, most, settings),
            rules=self._rules(most, settings),
        )
        for number, texts in zip(batch, found, strict=True):
            for rank, text in enumerate(texts[: settings.texts]):
                whole = self._whole(prompts[number], ids[number], text, settings)
                yield Fresh(number, rank, whole.text, whole)

    @torch.inference_mode()
    def _written(
        self,
        prompts: Sequence[str],
        ids: Sequence[list[int]],
        batch: list[int],
        most: int,
        settings: Generation,
    ) -> Iterator[Fresh]:
        own = [ids[number] for number in batch]
        seeds = None
        if settings.drawing is not None:
            drawn = range(settings.texts)
            seeds = [[_seed(settings.drawing.seed, text, k) for k in drawn] for text in own]
        texts = [Written() for _ in range(len(batch) * settings.texts)]
        shown = [self._unfolding(text, settings) for text in own for _ in range(settings.texts)]
        steps = write(
            self._reader(own, batch, most),
            self._given(own),
            limits=self._limits(own, most, settings),
            rules=self._rules(most, settings),
            seeds=seeds,
            others=settings.others,
        )
        for pieces in steps:
            for piece in pieces:
                text = texts[piece.row]
                text.add(piece)
                place, number = divmod(piece.row, settings.texts)
                prompt = batch[place]
                new = "" if piece.token in self.ends else shown[piece.row].add(piece.token)
                if piece.ended is None:
                    if new:
                        yield Fresh(prompt, number, new)
                    continue
                whole = self._whole(prompts[prompt], ids[prompt], text, settings)
                yield Fresh(prompt, number, new + shown[piece.row].rest(whole.text), whole)

    def _unfolding(self, ids: Sequence[int], settings: Generation) -> "Unfolding":
        before = ids if self.model.decoder is None else ()
        return Unfolding(self.tokenizer, before, settings.ending.stop)

    def _whole(
        self, prompt: str, ids: Sequence[int], text: Written, settings: Generation
    ) -> WrittenText:
        before = ids if self.model.decoder is None else ()
        tokens = [token for token in text.tokens if token not in self.ends]
        words = self.tokenizer.continued(before, tokens)
        words = words[: first_stop(words, settings.ending.stop)]
        named = self.tokenizer.token_of
        return WrittenText(
            prompt,
            words,
            tuple(
                Token(named(token), log, tuple((named(other), value) for other, value in others))
                for token, log, others in zip(text.tokens, text.logs, text.others, strict=True)
            ),
            text.ended,
            text.score,
        )


class _CheckedReader(Reader):
    """A reader whose first scores are looked at: damaged weights show there."""

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        most: int,
        start: int | None,
        numbers: Sequence[int],
    ) -> None:
        super().__init__(model, prompts, most, start)
        self._numbers = numbers

    def first(self) -> torch.Tensor:
        """What comes behind the prompts, (B, V).

        Raises:
            CheckpointError: A score is not finite.
        """
        scores = super().first()
        check_finite(self.model, scores, self._numbers, "a score")
        return scores


def _seed(seed: int, prompt: Sequence[int], number: int) -> int:
    """A seed for one text: a function of the prompt, so that neighbours change nothing."""
    told = np.array([seed, number, *prompt], dtype=np.int64).tobytes()
    return int.from_bytes(sha256(told).digest()[:8], "little") >> 1


def _cache_bytes(model: Model) -> int:
    """What keys and values of one token take, over all layers."""
    tower = model.decoder or model.encoder
    parts = [part for part in tower.modules() if isinstance(part, AttentionModule)]
    widths = sum(part.key.out_features for part in parts)
    return 2 * widths * next(model.parameters()).element_size()
