"""Fill gaps: rank the vocabulary for every mask in a text (`fill_spans.py` writes into gaps).

Special tokens are left out of the ranking; scores are still shares of the whole vocabulary.
Gaps of one text are guessed at the same time, each with the others still open; the scores of two
gaps are therefore not those of a joint guess. A text that is too long is read through windows, and
each gap is guessed where it has most context.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import BatchOptions, device_of, in_order
from clozeworks.inference.packing import check_finite, pack
from clozeworks.tasks.spans.windows import TokenWindow, Windows, asking, by_item, read_windows
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class FillCandidate:
    """One candidate for a gap."""

    word: str
    """As a person would write it; several words where a gap takes more than one token."""
    token: str
    """As it stands in the vocabulary; several tokens have spaces between them."""
    score: float
    """The probability the model gives it: among the whole vocabulary, or, where a gap takes more
    than one token, among all that could be written there."""


@dataclass(frozen=True)
class Filled:
    """A text and the guesses for each of its gaps, best first.

    Where a decoder wrote them, the best answer's come first, then what others have there.
    """

    text: str
    gaps: list[list[FillCandidate]]
    best: str
    """The text with the best guess in every gap."""

    def __str__(self) -> str:
        lines = [self.best]
        for number, guesses in enumerate(self.gaps, start=1):
            words = ", ".join(f"{guess.word} {guess.score:.3f}" for guess in guesses)
            lines.append(f"  gap {number}: {words}" if len(self.gaps) > 1 else f"  {words}")
        return "\n".join(lines)


def fill(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    top: int = 5,
    words: Sequence[str] | None = None,
    max_length: int | None = None,
    options: BatchOptions | None = None,
) -> list[Filled]:
    """Ranks candidates for every gap of every text.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: Texts with `[MASK]` or the model's own mask token.
        top: How many guesses per gap.
        words: If given, only these are ranked; each must be one token of the vocabulary. Special
            tokens are ranked only if they are named here.
        max_length: The most tokens the model takes.
        options: Batch size, progress, cancellation.
    """
    if top < 1:
        raise SettingError(f"top is {top}; it must be at least 1.")
    # Rows of the table without a token, at its end or between, have nothing to show; a special
    # token is never the missing word.
    known = tokenizer.vocabulary().values()
    every = torch.tensor([number for number in known if number not in tokenizer.special_ids])
    candidates = every if words is None else _allowed(tokenizer, words)
    device = device_of(model)
    marked = [tokenizer.mark_gaps(text) for text in texts]
    windows = _windows(tokenizer, marked, texts, _most(model, max_length))

    def forward(batch: list[int]) -> list[list[list[FillCandidate]]]:
        own = [windows[number] for number in batch]
        packed = pack([window.encoded for window in own], device)
        starts = packed.layout.starts
        asked = [start + window.wanted for start, window in zip(starts, own, strict=True)]
        where = torch.from_numpy(np.concatenate(asked)).to(device)
        scores = packed.word_scores(model, where)
        shares = scores.float().softmax(dim=-1).cpu()
        owners = [window.item for window in own for _ in range(len(window.wanted))]
        check_finite(model, shares, owners, "a score")
        ranked = iter(_ranked(tokenizer, shares, top, candidates))
        return [[next(ranked) for _ in window.wanted] for window in own]

    ranked = in_order(model, [len(window) for window in windows], forward, options)
    guesses: list[dict[tuple[int, int], list[FillCandidate]]] = [{} for _ in texts]
    for window, gaps in zip(windows, ranked, strict=True):
        for place, candidate in zip(window.wanted.tolist(), gaps, strict=True):
            assert window.encoded.offsets is not None
            guesses[window.item][window.encoded.offsets[place]] = candidate
    filled = []
    for number, text in enumerate(texts):
        spans = sorted(guesses[number])
        found = [guesses[number][span] for span in spans]
        filled.append(Filled(text, found, _best(tokenizer, marked[number], spans, found)))
    return filled


def _most(model: Model, most: int | None) -> int | None:
    """The most tokens of a window, which a mask decoder's places may limit further."""
    decoder = model.blueprint.heads.get(DECODER)
    if not isinstance(decoder, MaskDecoder):
        return most
    return decoder.count if most is None else min(most, decoder.count)


def _windows(
    tokenizer: Tokenizer, marked: Sequence[str], texts: Sequence[str], most: int | None
) -> list[TokenWindow]:
    """Windows with gaps; each gap is asked where it has most context.

    Raises:
        InputError: A text has no gap.
    """
    every = read_windows(tokenizer, marked, windows=Windows(), most=most, offsets=True)
    found = []
    for own in by_item(every):
        ids = np.zeros(max(window.first + window.count for window in own), np.int64)
        for window in own:
            ids[window.first : window.first + window.count] = window.encoded.ids[window.moving]
        gaps = np.flatnonzero(ids == tokenizer.mask_id)
        if not len(gaps):
            text = texts[own[0].item]
            shown = text if len(text) <= 40 else text[:39] + "…"
            raise InputError(
                f"text {own[0].item + 1:,} ({shown!r}) has no gap; write [MASK] where a word is "
                "missing."
            )
        found += [window for window in asking(own, gaps) if len(window.wanted)]
    return found


def _allowed(tokenizer: Tokenizer, words: Sequence[str]) -> Tensor:
    if not words:
        raise SettingError("words is empty; name at least one word, or leave it out.")
    ids = []
    for word in words:
        found = tokenizer.single_id(word)
        if found is None:
            pieces = " ".join(tokenizer.vocabulary_pieces(word))
            raise InputError(
                f"the word {word!r} is not one token of this model (it would be: {pieces}); a gap "
                f"takes one token; choose words from the vocabulary."
            )
        ids.append(found)
    return torch.tensor(list(dict.fromkeys(ids)))


def _ranked(
    tokenizer: Tokenizer, shares: Tensor, top: int, candidates: Tensor
) -> list[list[FillCandidate]]:
    values, places = shares[:, candidates].topk(min(top, len(candidates)), dim=-1)
    return [
        [
            FillCandidate(_word(tokenizer, token), tokenizer.token_of(token), share)
            for token, share in zip(candidates[row].tolist(), value.tolist(), strict=True)
        ]
        for row, value in zip(places, values, strict=True)
    ]


def _word(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.decode([token], skip_special=False).strip()


def _best(
    tokenizer: Tokenizer,
    marked: str,
    spans: Sequence[tuple[int, int]],
    gaps: Sequence[list[FillCandidate]],
) -> str:
    """The text with the best guess in every gap, spaced as the tokenizer writes it."""
    best, done = "", 0
    for (begin, end), guesses in zip(spans, gaps, strict=True):
        best = joined(tokenizer, best + marked[done:begin], guesses[0])
        done = end
    return best + marked[done:]


def joined(tokenizer: Tokenizer, before: str, guess: FillCandidate) -> str:
    """A text and a guess behind it, spaced as the tokenizer writes it.

    Args:
        tokenizer: The model's.
        before: What stands before the gap.
        guess: What stands in it.
    """
    if guess.token.startswith("##"):  # WordPiece: it continues the word before the gap
        return before.rstrip(" ") + guess.word.removeprefix("##")
    if tokenizer.kind == "wordpiece":
        return before + guess.word
    # Byte-level and Unigram pieces carry the space before them, or its absence.
    space = " " if guess.token[:1] in ("Ġ", "▁") and before.strip() else ""
    return before.rstrip(" ") + space + guess.word
