"""Fill masks: rank the vocabulary for every mask in a text (`fill_spans.py` generates spans).

Special tokens are left out of the ranking; scores are still probabilities over the whole
vocabulary. Gaps of one text are predicted at the same time, each with the others still masked; the
scores of two gaps are therefore not those of a joint prediction. A text that is too long is read
through windows, and each gap is predicted where it has most context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import check_finite, pack
from clozeworks.spec import PositiveInt, check
from clozeworks.tasks.spans.windows import TokenWindow, Windows, asking, by_item, read_windows
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.valid import location_of
from clozeworks.wording import shortened


@dataclass(frozen=True)
class FillCandidate:
    """One candidate for a gap."""

    word: str
    """As a person would write it; several words where a gap takes more than one token."""
    token: str
    """Its entry in the vocabulary; several tokens are separated by spaces."""
    score: float
    """The probability the model assigns to it: among the whole vocabulary, or, where a gap takes
    more than one token, among everything that could be generated there."""


@dataclass(frozen=True)
class Filled:
    """A text and the candidates for each of its gaps, best first.

    Where a decoder generated them, those of the best output come first, then those of the others.
    """

    text: str
    gaps: list[list[FillCandidate]]
    best: str
    """The text with the best candidate in every gap."""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Filled":
        """The same from its fields as JSON holds them."""
        gaps = [[FillCandidate(**each) for each in several] for several in record["gaps"]]
        return cls(record["text"], gaps, record["best"])

    def __str__(self) -> str:
        lines = [self.best]
        for number, candidates in enumerate(self.gaps, start=1):
            words = ", ".join(f"{each.word} {each.score:.3f}" for each in candidates)
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
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Filled]:
    """Ranks candidates for every gap of every text.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: Texts with `[MASK]` or the model's own mask token.
        top: How many candidates per gap.
        words: If given, only these are ranked; each must be one token of the vocabulary. Special
            tokens are ranked only if they are named here.
        max_length: The maximum number of tokens the model takes.
        source_locations: Where each text came from, for messages.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: If a text has no gap, or if a word is not one token.
        SettingError: If `top` is below 1, or `words` is empty.
    """
    check("top", top, PositiveInt)
    # Rows of the embedding table without a token have nothing to show; a special token is never
    # the missing word.
    known = tokenizer.vocabulary().values()
    every = torch.tensor([number for number in known if number not in tokenizer.special_ids])
    candidates = every if words is None else _allowed(tokenizer, words)
    device = device_of(model)
    marked = [tokenizer.mark_gaps(text) for text in texts]
    decoder = model.blueprint.heads.get(DECODER)
    if isinstance(decoder, MaskDecoder):  # its positions may limit windows further
        max_length = decoder.count if max_length is None else min(max_length, decoder.count)
    windows = _windows(tokenizer, marked, texts, max_length, source_locations)

    def forward(several: list[TokenWindow]) -> list[list[list[FillCandidate]]]:
        packed = pack([window.encoded for window in several], device)
        positions = packed.positions([window.wanted for window in several])
        logits = packed.vocabulary_logits(model, positions)
        probabilities = logits.float().softmax(dim=-1).cpu()
        owners = [window.item for window in several for _ in range(len(window.wanted))]
        check_finite(model, probabilities, owners, "a logit", source_locations)
        ranked = iter(_ranked(tokenizer, probabilities, top, candidates))
        return [[next(ranked) for _ in window.wanted] for window in several]

    computation = Computation(("fill", top, None if words is None else tuple(words)), forward)
    costs = [len(window) for window in windows]
    ranked = compute_in_order(model, windows, costs, computation, options)
    by_span: list[dict[tuple[int, int], list[FillCandidate]]] = [{} for _ in texts]
    for window, gaps in zip(windows, ranked, strict=True):
        for position, several in zip(window.wanted.tolist(), gaps, strict=True):
            assert window.encoded.offsets is not None
            by_span[window.item][window.encoded.offsets[position]] = several
    filled = []
    for text, own, marks in zip(texts, by_span, marked, strict=True):
        ordered = dict(sorted(own.items()))
        filled.append(Filled(text, [*ordered.values()], _best(tokenizer, marks, ordered)))
    return filled


def _windows(
    tokenizer: Tokenizer,
    marked: Sequence[str],
    texts: Sequence[str],
    max_length: int | None,
    source_locations: Sequence[str] | None,
) -> list[TokenWindow]:
    """Windows with gaps; each gap is predicted where it has most context.

    Raises:
        InputError: If a text has no gap.
    """
    every = read_windows(tokenizer, marked, windows=Windows(), max_length=max_length, offsets=True)
    with_gaps = []
    for windows in by_item(every):
        ids = np.zeros(max(window.first + window.count for window in windows), np.int64)
        for window in windows:
            ids[window.first : window.first + window.count] = window.encoded.ids[window.moving]
        gaps = np.flatnonzero(ids == tokenizer.mask_id)
        if not len(gaps):
            shown = shortened(texts[windows[0].item], 40)
            raise InputError(
                f"{location_of(windows[0].item, source_locations)} ({shown!r}) has no gap; write "
                "[MASK] where a word is missing."
            )
        with_gaps += [window for window in asking(windows, gaps) if len(window.wanted)]
    return with_gaps


def _allowed(tokenizer: Tokenizer, words: Sequence[str]) -> Tensor:
    if not words:
        raise SettingError("words", words, "name at least one word, or leave it out")
    if isinstance(words, str):
        raise SettingError("words", words, "it must be a list of words", f"write [{words!r}]")
    ids = []
    for word in words:
        token = tokenizer.single_id(word)
        if token is None:
            pieces = " ".join(tokenizer.vocabulary_pieces(word))
            raise InputError(
                f"the word {word!r} is not one token of this model (it would be: {pieces}); a gap "
                f"takes one token; choose words from the vocabulary."
            )
        ids.append(token)
    return torch.tensor(list(dict.fromkeys(ids)))


def _ranked(
    tokenizer: Tokenizer, probabilities: Tensor, top: int, candidates: Tensor
) -> list[list[FillCandidate]]:
    best, columns = probabilities[:, candidates].topk(min(top, len(candidates)), dim=-1)
    return [
        [
            FillCandidate(
                tokenizer.decode([token], skip_special=False).strip(),
                tokenizer.token_of(token),
                probability,
            )
            for token, probability in zip(candidates[row].tolist(), values.tolist(), strict=True)
        ]
        for row, values in zip(columns, best, strict=True)
    ]


def _best(
    tokenizer: Tokenizer, marked: str, gaps: Mapping[tuple[int, int], list[FillCandidate]]
) -> str:
    """The text with the best candidate in every gap, spaced as the tokenizer writes it."""
    best, done = "", 0
    for (begin, end), candidates in gaps.items():
        best = joined(tokenizer, best + marked[done:begin], candidates[0])
        done = end
    return best + marked[done:]


def texts_with(tokenizer: Tokenizer, filled: Filled) -> list[list[str]]:
    """For each gap the text with each candidate in it; other gaps stay."""
    marked, mask = tokenizer.mark_gaps(filled.text), tokenizer.special.mask or ""
    begin, found = 0, []
    for candidates in filled.gaps:
        place = marked.index(mask, begin)
        begin = place + len(mask)
        found.append(
            [joined(tokenizer, marked[:place], each) + marked[begin:] for each in candidates]
        )
    return found


def joined(tokenizer: Tokenizer, before: str, candidate: FillCandidate) -> str:
    """The text before a gap followed by a candidate, spaced as the tokenizer writes it."""
    if candidate.token.startswith("##"):  # WordPiece: it continues the word before the gap
        return before.rstrip(" ") + candidate.word.removeprefix("##")
    if tokenizer.kind == "wordpiece":
        return before + candidate.word
    # Byte-level and Unigram pieces carry the space before them, or its absence.
    space = " " if candidate.token[:1] in ("Ġ", "▁") and before.strip() else ""
    return before.rstrip(" ") + space + candidate.word
