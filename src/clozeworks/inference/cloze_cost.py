"""The loss of masked words: a number that can be compared across tokenizers.

The idea: a loss per token says nothing about two models that split text differently, because longer
tokens are harder to predict and there are fewer of them. Here words of the text itself are masked,
the same characters whatever the tokenizer, and the loss of a word is the sum over its tokens.

What it is not: the likelihood of the word. All its tokens are masked and predicted independently of
each other, and the number of masks tells how many there are. A word that is one token has nothing
to lose by that; a word of many tokens has.
"""

import dataclasses
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import NamedTuple

import torch
import torch.nn.functional as F

from clozeworks.core.model import Model
from clozeworks.errors import InputError, UnsupportedError
from clozeworks.inference.loop import BatchOptions, device_of, in_batches
from clozeworks.inference.packing import check_finite, pack
from clozeworks.rng import RandomStream
from clozeworks.text.characters import words_of
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# Paper: Devlin et al. 2019, the fraction of a text that is masked.
FRACTION = 0.15
# Masked words that are enough: the mean is then known to about 0.1.
MAX_WORDS = 2_000
# Bytes of text that a model sees at a time. No tokenizer makes more tokens than bytes, so that all
# models with room for so many see the same.
LONGEST = 480


@dataclass(frozen=True)
class ClozeCost:
    """What hidden words cost."""

    words: int
    """Words that were hidden."""
    tokens: int
    """Pieces they are cut into."""
    nats: float
    """The sum of -log p over these pieces."""

    @property
    def per_word(self) -> float:
        """Nats of a hidden word: comparable across tokenizers."""
        return self.nats / max(self.words, 1)

    @property
    def per_token(self) -> float:
        """Nats of a hidden token: comparable only between models with the same tokenizer."""
        return self.nats / max(self.tokens, 1)


class _Word(NamedTuple):
    number: int
    """Within its text."""
    begin: int
    end: int


@dataclass(frozen=True)
class _MaskedText:
    """A stretch of text with masks in it."""

    text: int
    encoded: Encoded
    words: int
    positions: list[int]
    label_ids: list[int]


def cloze_cost(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    seed: int = 0,
    beside: Sequence[Tokenizer] = (),
    max_length: int | None = None,
    max_words: int = MAX_WORDS,
    options: BatchOptions | None = None,
) -> ClozeCost:
    """Masks words of texts, about 15 %, and measures how well the model predicts them.

    Words that a tokenizer cannot represent are never masked: the unknown token is easy to predict.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: Texts; long ones are read in stretches.
        seed: Chooses the words. The same seed masks the same words of the same texts.
        beside: Tokenizers of models that this one is compared with. Only words that all of them can
            represent are masked. Words that share a token of one of them, as `).` or 北京, are
            masked together.
        max_length: The maximum number of tokens of a text.
        max_words: How many masked words are enough.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: If the texts are one str, or one of them is not valid.
        TokenizerError: If the tokenizer has no mask token.
        UnsupportedError: If the model has no vocabulary head.
    """
    if isinstance(texts, str):
        raise InputError("texts is one str; it must be a list of str; put it in a list.")
    if "vocabulary" not in model.blueprint.heads:
        raise UnsupportedError(
            "the model has no vocabulary head, so it cannot guess hidden words; use a checkpoint "
            "saved with its masked-language-model head."
        )
    tokenizer.mark_gaps("")  # raises an error if there is no mask token
    masked: list[_MaskedText] = []
    words = 0
    for item in _masked(tokenizer, beside, texts, seed, max_length):
        masked.append(item)
        words += item.words
        if words >= max_words:
            break
    device = device_of(model)

    def forward(batch: list[int]) -> float:
        items = [masked[number] for number in batch]
        packed = pack([item.encoded for item in items], device)
        positions = [
            start + position
            for start, item in zip(packed.layout.starts, items, strict=True)
            for position in item.positions
        ]
        logits = packed.vocabulary_logits(model, torch.tensor(positions, device=device)).float()
        owners = [item.text for item in items for _ in item.positions]
        check_finite(model, logits, owners, "a logit")
        labels = torch.tensor([token for item in items for token in item.label_ids], device=device)
        return float(F.cross_entropy(logits, labels, reduction="none").double().sum())

    # The batches come in no fixed order, which does not change an exact sum.
    costs = in_batches(model, [len(item.encoded) for item in masked], forward, options)
    nats = fsum(cost for _, cost in costs)
    return ClozeCost(words, sum(len(item.positions) for item in masked), nats)


def _masked(
    tokenizer: Tokenizer,
    beside: Sequence[Tokenizer],
    texts: Sequence[str],
    seed: int,
    max_length: int | None,
) -> Iterator[_MaskedText]:
    """The stretches in which something is masked, of one text after the other in random order."""
    rng = RandomStream(seed, "cloze cost")
    every = [tokenizer, *beside]
    # One more is left for the space that some tokenizers put before a text.
    frame = len(tokenizer.encode([""])[0]) + 1
    room = LONGEST if max_length is None else min(LONGEST, max_length - frame)
    for number in rng.stream("order").permutation(0, len(texts)).tolist():
        text = texts[number]
        stretches = list(_stretches(text, room))
        parts = [text[words[0].begin : words[-1].end] for words in stretches]
        source_locations = [f"a part of text {number + 1:,}"] * len(parts)
        encoded = [
            one.encode(
                parts,
                offsets=True,
                max_length=max_length,
                source_locations=source_locations,
                advice="leave it out",
            )
            for one in every
        ]
        count = stretches[-1][-1].number + 1 if stretches else 0
        hide = (rng.uniform(0, number, count)[0] < FRACTION).tolist()
        for words, *ways in zip(stretches, *encoded, strict=True):
            units = [unit for unit in _units(words, ways, every) if hide[words[unit.first].number]]
            positions = [position for unit in units for position in unit.positions]
            if positions:
                ids = list(ways[0].ids)
                labels = [ids[position] for position in positions]
                for position in positions:
                    assert tokenizer.mask_id is not None
                    ids[position] = tokenizer.mask_id
                shown = dataclasses.replace(ways[0], ids=ids)
                masked_words = sum(unit.words for unit in units)
                yield _MaskedText(number, shown, masked_words, positions, labels)


def _stretches(text: str, room: int) -> Iterator[list[_Word]]:
    """Runs of words of which no tokenizer makes more than `room` tokens; longer words end them."""
    run: list[_Word] = []
    held = 0
    for number, (begin, end) in enumerate(words_of(text)):
        size = _max_tokens(text[begin:end])
        between = _max_tokens(text[run[-1].end : begin]) if run else 0
        if run and held + between + size > room:
            yield run
            run, held, between = [], 0, 0
        if size <= room:
            run.append(_Word(number, begin, end))
            held += between + size
    if run:
        yield run


def _max_tokens(text: str) -> int:
    """The maximum number of tokens of a text: its bytes, also after decomposing characters."""
    if text.isascii():
        return len(text)
    apart = unicodedata.normalize("NFKD", text)
    return max(len(text.encode()), len(apart.encode()))


class _Unit(NamedTuple):
    """Words that share no token with others, and the positions of their tokens."""

    first: int
    words: int
    positions: list[int]


def _units(
    words: Sequence[_Word], ways: Sequence[Encoded], tokenizers: Sequence[Tokenizer]
) -> Iterator[_Unit]:
    """The units of a stretch that all tokenizers can represent; positions are of the first one."""
    touched = [_touched(words, encoded) for encoded in ways]
    held = {
        border for pieces in touched for first, last in pieces for border in range(first + 1, last)
    }
    borders = [border for border in range(len(words) + 1) if border not in held]
    unit_of = [
        unit for unit, (first, last) in enumerate(pairwise(borders)) for _ in range(first, last)
    ]
    positions: list[list[list[int]]] = [[[] for _ in borders[1:]] for _ in ways]
    for mine, pieces in zip(positions, touched, strict=True):
        for position, (first, last) in enumerate(pieces):
            if first < last:
                mine[unit_of[first]].append(position)
    for unit, (first, last) in enumerate(pairwise(borders)):
        if all(
            _writes(tokenizer, encoded, mine[unit])
            for tokenizer, encoded, mine in zip(tokenizers, ways, positions, strict=True)
        ):
            yield _Unit(first, last - first, positions[0][unit])


def _touched(words: Sequence[_Word], encoded: Encoded) -> list[tuple[int, int]]:
    """For each token the range of words it has characters of."""
    assert encoded.offsets is not None
    start = words[0].begin
    begins = [word.begin - start for word in words]
    ends = [word.end - start for word in words]
    return [(bisect_right(ends, begin), bisect_left(begins, end)) for begin, end in encoded.offsets]


def _writes(tokenizer: Tokenizer, encoded: Encoded, positions: Sequence[int]) -> bool:
    never = (tokenizer.unknown_id, tokenizer.mask_id)
    return bool(positions) and all(encoded.ids[position] not in never for position in positions)
