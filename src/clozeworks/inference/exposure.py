"""Exposure bias: what a model loses when it reads its own tokens.

Paper: Bengio et al. 2015; Ranzato et al. 2016 (the name); Holtzman et al. 2020 (repetition).
The idea: in training every token is predicted after the right ones before it; in generation, after
the model's own. The same references are read twice, token by token: once the reference chooses the
next token (teacher forcing), once the model does (free running). At every position the loss of the
reference's token is measured. At the first position both read the same, so both losses are equal
there; how far they differ afterwards is shown by position.
What it is not: the loss after own tokens also rises where a model continues well, but differently.
So it is read together with how much the model repeats itself and how long its texts are.

Shapes: n rows (texts), V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

import torch
from torch import Tensor

from clozeworks.core.model import Model
from clozeworks.core.ops.sampling import gumbel
from clozeworks.errors import InputError, SettingError
from clozeworks.generate.session import DecoderSession
from clozeworks.inference.loop import BatchOptions, in_batches
from clozeworks.inference.packing import check_finite
from clozeworks.spec import PositiveInt, RandomSeed, check
from clozeworks.text.tokenizer.tokenizer import Tokenizer

GIVEN, LENGTH = 16, 64
# n-grams whose repetition is counted.
NGRAMS = (1, 2, 3, 4)


class PositionLoss(NamedTuple):
    """One position of the references, counted from 1."""

    position: int
    texts: int
    """How many texts have a reference there, and have not ended by themselves before."""
    teacher_forced: float
    """The mean loss after the right tokens."""
    free_running: float
    """The mean loss after the model's own, of the same texts."""


class RepetitionRates(NamedTuple):
    """The fraction of n-grams that occurred before in the same text."""

    n: int
    free_running: float
    reference: float


@dataclass(frozen=True)
class Exposure:
    """What was measured."""

    texts: int
    skipped: int
    """How many were too short."""
    positions: list[PositionLoss]
    """Losses position by position."""
    repetition: list[RepetitionRates]
    """How much is repeated, by length of n-gram."""
    length_ratio: float | None
    """Generated tokens per token of the reference, both up to the limit; None if the tokenizer has
    no token that ends a text."""
    ended: int
    """How many texts ended by themselves."""

    @property
    def teacher_forced(self) -> float:
        """The mean loss after the right tokens, over all tokens."""
        return _mean([(position.teacher_forced, position.texts) for position in self.positions])

    @property
    def free_running(self) -> float:
        """The mean loss after the model's own tokens, over all tokens."""
        return _mean([(position.free_running, position.texts) for position in self.positions])


@dataclass
class _Walk:
    """One text: its prompt, its reference, and what was measured."""

    number: int
    prompt: list[int]
    reference: list[int]
    teacher_forced: list[float] = field(default_factory=list)
    free_running: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    ended: bool = False


def exposure(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    answers: Sequence[str] | None = None,
    *,
    room: int | None,
    start: int | None = None,
    given: int = GIVEN,
    length: int = LENGTH,
    greedy: bool = False,
    seed: int = 0,
    options: BatchOptions | None = None,
) -> Exposure:
    """Measures losses along references, with teacher forcing and free running.

    Args:
        model: A decoder or encoder-decoder with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: A decoder continues the first tokens of each; an encoder-decoder answers it.
        answers: The answers to the texts, for an encoder-decoder.
        room: The maximum number of tokens the model takes; None without a limit.
        start: The decoder start token of an encoder-decoder.
        given: How many tokens of each text a decoder gets as its prompt.
        length: How many tokens are generated and compared.
        greedy: Whether the model reads its likeliest tokens; otherwise they are sampled.
        seed: The seed of the sampling.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: If no text is long enough.
        SettingError: If a number is too small, or both are more than the model takes.
    """
    check("given", given, PositiveInt)
    check("length", length, PositiveInt)
    check("seed", seed, RandomSeed)
    if answers is None:
        if room is not None and given + length > room:
            rule = (
                f"with `length` {length:,} that is more than the {room:,} tokens this model takes"
            )
            raise SettingError("given", given, rule, "lower one of them")
        walks = [
            _Walk(number, text.ids[:given], text.ids[given : given + length])
            for number, text in enumerate(tokenizer.encode(texts))
        ]
    else:
        read = tokenizer.encode(texts, max_length=room, advice="shorten it")
        right = tokenizer.encode(answers)
        walks = [
            _Walk(number, text.ids, answer.ids[:length])
            for number, (text, answer) in enumerate(zip(read, right, strict=True))
        ]
    long = [walk for walk in walks if walk.reference]
    if not long:
        raise InputError(
            f"no text has more than the {given:,} tokens that are given; use longer texts, or "
            f"lower given."
        )

    def forward(batch: list[int]) -> None:
        several = [long[number] for number in batch]
        _walk(model, several, length, start, tokenizer.last_id, None)
        draw = _likeliest if greedy else _drawing(seed, batch)
        _walk(model, several, length, start, tokenizer.last_id, draw)

    costs = [len(walk.prompt) + len(walk.reference) for walk in long]
    for _ in in_batches(model, costs, forward, options):
        pass
    return _measured(long, len(walks) - len(long), tokenizer.last_id is not None)


# Logits (n, V) of some rows to a token for each.
Choose = Callable[[Tensor, Sequence[int]], Tensor]


def _likeliest(logits: Tensor, rows: Sequence[int]) -> Tensor:
    return logits.argmax(dim=1)


def _drawing(seed: int, numbers: Sequence[int]) -> Choose:
    """Samples from the softmax, each row with a generator of its own."""
    generators = [torch.Generator().manual_seed((seed * 1_000_003 + n) % 2**63) for n in numbers]

    def choose(logits: Tensor, rows: Sequence[int]) -> Tensor:
        noise = gumbel([1] * len(rows), logits.shape[1], [generators[row] for row in rows])
        return (logits + noise.to(logits.device)).argmax(dim=1)

    return choose


def _walk(
    model: Model,
    walks: Sequence[_Walk],
    length: int,
    start: int | None,
    end: int | None,
    choose: Choose | None,
) -> None:
    """Reads along references; `choose` decides what is read next, the reference itself if None."""
    session = DecoderSession(model, [walk.prompt for walk in walks], length, start)
    rows = list(range(len(walks)))
    logits = session.prefill()
    for position in range(length):
        logs = logits.log_softmax(dim=1)
        numbers = [walks[row].number for row in rows]
        check_finite(model, logs.amax(dim=1, keepdim=True), numbers, "the score")
        for number, row in enumerate(rows):
            walk = walks[row]
            if position < len(walk.reference):
                cost = -float(logs[number, walk.reference[position]])
                (walk.teacher_forced if choose is None else walk.free_running).append(cost)
        if choose is None:
            staying = [n for n, row in enumerate(rows) if position + 1 < len(walks[row].reference)]
            following = [walks[rows[n]].reference[position] for n in staying]
            tokens = torch.tensor(following, device=logits.device)
        else:
            chosen = choose(logits, rows)
            for row, token in zip(rows, chosen.tolist(), strict=True):
                walks[row].written.append(token)
                walks[row].ended = token == end
            staying = [n for n, row in enumerate(rows) if not walks[row].ended]
            tokens = chosen[staying]
        if not staying or position + 1 == length:
            return
        if len(staying) < len(rows):
            rows = [rows[n] for n in staying]
            session.reorder(staying)
            session.reorder_prompts(staying)
        logits = session.step(tokens)


def _measured(walks: Sequence[_Walk], skipped: int, can_end: bool) -> Exposure:
    positions = []
    for position in range(max(len(walk.free_running) for walk in walks)):
        pairs = [
            (walk.teacher_forced[position], walk.free_running[position])
            for walk in walks
            if position < len(walk.free_running)
        ]
        teacher_forced, free_running = (
            fsum(side) / len(pairs) for side in zip(*pairs, strict=True)
        )
        positions.append(PositionLoss(position + 1, len(pairs), teacher_forced, free_running))
    written = [walk.written for walk in walks]
    references = [walk.reference for walk in walks]
    ratio = sum(map(len, written)) / sum(map(len, references)) if can_end else None
    repeated = [
        RepetitionRates(n, repetition(written, n), repetition(references, n)) for n in NGRAMS
    ]
    ended = sum(walk.ended for walk in walks)
    return Exposure(len(walks), skipped, positions, repeated, ratio, ended)


def repetition(texts: Sequence[Sequence[int]], n: int) -> float:
    """The fraction of n-grams that occurred before in the same text, over all texts."""
    total = different = 0
    for text in texts:
        ngrams = [tuple(text[position : position + n]) for position in range(len(text) - n + 1)]
        total += len(ngrams)
        different += len(set(ngrams))
    return 1 - different / total if total else 0.0


def _mean(pairs: Sequence[tuple[float, int]]) -> float:
    return fsum(value * count for value, count in pairs) / sum(count for _, count in pairs)
