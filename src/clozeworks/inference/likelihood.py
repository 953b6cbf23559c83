"""How likely texts are: the share a model gives each token, told all before it.

Paper: Jelinek et al. 1977 (perplexity); Radford et al. 2019 (long texts by windows).
The idea: the logs of the shares add up to that of the text. Texts longer than a model's positions
are read through windows; each asks for tokens that no window before it asked for, and every token
of a later window sees at least `overlap` tokens before it.
What is asked: of a text all tokens but those that the tokenizer puts around it, and but the first
one where nothing stands before it (GPT-2). Of a continuation every token with a character of it, so
that it does not matter on which side of the border a space is written. Of an encoder-decoder's
answer the end, too.
Continuations of one prompt that follow each other, such as labels, are asked together: the tokens
that all of them begin with are read once.
Trap: perplexity is taken over tokens; a mean of the perplexities of texts or batches is something
else.

Shapes: n asked tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from math import exp, fsum, inf
from typing import NamedTuple

import torch
from torch import Tensor

from clozeworks.core.attention.prefix_cache import PrefixCache
from clozeworks.core.context import AttentionSource
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import BatchOptions, device_of, in_order
from clozeworks.inference.packing import check_finite
from clozeworks.text.tokenizer.tokenizer import Encoded, Tokenizer
from clozeworks.text.valid import check_texts, place_of
from clozeworks.text.windows import sliding_windows

HEAD = "vocabulary"
# Tokens whose scores are in memory at a time: one number for every entry of the vocabulary each.
SLICE = 256
# Continuations that share the reading of a prompt: each looks at a copy of its keys and values.
TOGETHER = 16


@dataclass(frozen=True)
class Scored:
    """How likely a text is, or what follows a text.

    Attributes:
        tokens: The pieces that were asked for.
        logs: The natural logarithm of each one's share.
        windows: How many windows it was read through.
        unread: Tokens of its prompt that no window had room for, the first ones.
    """

    tokens: list[str]
    logs: list[float]
    windows: int = 1
    unread: int = 0

    @property
    def total(self) -> float:
        """The logarithm of the probability of all tokens together."""
        return fsum(self.logs)

    @property
    def count(self) -> int:
        """How many tokens were asked for."""
        return len(self.logs)

    @property
    def perplexity(self) -> float:
        """Among how many equally likely tokens the model would be as unsure."""
        return perplexity([self])


def perplexity(scored: Sequence[Scored]) -> float:
    """The perplexity over all tokens of some texts; infinite if it is too large for a number.

    Args:
        scored: The texts; at least one token among them.
    """
    mean = fsum(text.total for text in scored) / sum(text.count for text in scored)
    try:
        return exp(-mean)
    except OverflowError:
        return inf


class _Window(NamedTuple):
    """Tokens that are read, and from which place on they are asked for."""

    item: int
    ids: list[int]
    asked: int
    begin: int = 0
    """Where it begins in its text."""
    prompt: list[int] | None = None
    """What an encoder reads; `ids` are then the start and the answer."""


class _Group(NamedTuple):
    """Windows on one prompt, and how many tokens of them are alike and read once."""

    windows: Sequence[_Window]
    shared: int

    @property
    def prompt(self) -> list[int]:
        return self.windows[0].prompt or []

    @property
    def beginning(self) -> list[int]:
        return self.windows[0].ids[: self.shared]

    @property
    def endings(self) -> list[list[int]]:
        return [window.ids[self.shared :] for window in self.windows]

    @property
    def weight(self) -> int:
        return len(self.prompt) + self.shared + sum(map(len, self.endings))


def score_texts(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    room: int | None,
    overlap: int | None = None,
    places: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Scored]:
    """How likely texts are to a decoder.

    Args:
        model: A decoder with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: The texts.
        room: The most tokens it takes; None without a limit.
        overlap: Tokens that a window has in common with the one before; half of the room if not
            given.
        places: Where each text came from, for messages.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: A text has no token that can be asked for.
    """
    check_texts("text", texts)
    windows: list[_Window] = []
    encoded = tokenizer.encode(texts)
    for number, text in enumerate(encoded):
        ids, first = _opened(text)
        first = max(first, 1)
        if first >= len(ids):
            raise InputError(
                f"{place_of(number, places)} has no token with another before it, so nothing can "
                f"be asked; give a longer text."
            )
        windows += _cut(number, ids, first, room, overlap)
    groups = [_Group([window], 0) for window in windows]
    return _scored(model, tokenizer, groups, len(texts), places, options)


def score_continuations(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    room: int | None,
    start: int | None = None,
    overlap: int | None = None,
    places: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Scored]:
    """How likely it is that a text follows another; of an encoder-decoder, that it is the answer.

    Args:
        model: A decoder or encoder-decoder with a vocabulary head.
        tokenizer: Its tokenizer.
        prompts: What is given.
        continuations: What follows each, white space between them included.
        room: The most tokens it takes; None without a limit. Of a longer prompt the end is read,
            and what is not is counted.
        start: What the answers of an encoder-decoder begin with.
        overlap: Tokens that a window has in common with the one before; half of the room if not
            given.
        places: Where each prompt came from, for messages.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: A continuation has no tokens, or nothing stands before it.
    """
    check_texts("prompt", prompts)
    check_texts("continuation", continuations)
    if len(prompts) != len(continuations):
        raise InputError(
            f"continuations has {len(continuations):,} texts and prompts has {len(prompts):,}; "
            f"each prompt needs one; give lists of equal length."
        )
    for number, text in enumerate(continuations):
        if not text.strip():
            raise InputError(
                f"the continuation of {place_of(number, places)} is {text!r}; it must have a word; "
                f"give it one."
            )
    windows: list[_Window] = []
    if model.decoder is not None:
        assert start is not None, "an answer begins with a start token"
        shorter = "shorten it"
        read = tokenizer.encode(prompts, max_length=room, places=places, advice=shorter)
        answers = tokenizer.encode(continuations)
        for number, (given, answer) in enumerate(zip(read, answers, strict=True)):
            windows.append(_Window(number, [start, *answer.ids], 1, prompt=given.ids))
    else:
        joined = [before + after for before, after in zip(prompts, continuations, strict=True)]
        encoded = tokenizer.encode(joined, offsets=True)
        for number, (prompt, whole) in enumerate(zip(prompts, encoded, strict=True)):
            ids, opened = _opened(whole)
            assert whole.offsets is not None
            ends = [end for _, end in whole.offsets[: len(ids)]]
            own = (place for place in range(opened, len(ids)) if ends[place] > len(prompt))
            first = next(own, len(ids))
            if not 0 < first < len(ids):
                raise InputError(
                    f"the prompt of {place_of(number, places)} is {prompt!r:.60}; a continuation "
                    f"needs a token before it; give a prompt."
                )
            windows += _cut(number, ids, first, room, overlap)
    groups = list(_grouped(windows, prompts))
    return _scored(model, tokenizer, groups, len(prompts), places, options)


def _opened(text: Encoded) -> tuple[list[int], int]:
    """The tokens up to the last of the text, and where the text begins."""
    own = [place for place, special in enumerate(text.special) if not special]
    return (text.ids[: own[-1] + 1], own[0]) if own else ([], 0)


def _cut(
    item: int, ids: list[int], first: int, room: int | None, overlap: int | None
) -> Iterator[_Window]:
    """Windows that each judge the tokens no window before them holds."""
    room = max(len(ids), 2) if room is None else room
    overlap = room // 2 if overlap is None else overlap
    if not 1 <= overlap < room:
        raise SettingError(
            f"overlap is {overlap:,}; it must be at least 1 and below {room:,}, the tokens of a "
            f"window; change it."
        )
    for begin, asked, end in sliding_windows(len(ids), room, overlap, first=first, full=True):
        yield _Window(item, ids[begin:end], asked - begin, begin)


def _grouped(windows: Sequence[_Window], prompts: Sequence[str]) -> Iterator[_Group]:
    """Neighbours on the same part of one prompt."""
    for _, found in groupby(windows, lambda window: (prompts[window.item], window.begin)):
        several = list(found)
        for first in range(0, len(several), TOGETHER):
            own = several[first : first + TOGETHER]
            if len(own) == 1:
                yield _Group(own, 0)
                continue
            # Trap: the border of a label may join with the prompt to another token, so what is
            # alike is found out. The token before the first asked one is read with the label.
            columns = zip(*(window.ids for window in own), strict=False)
            alike = len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
            yield _Group(own, min(alike, min(window.asked for window in own) - 1))


def _scored(
    model: Model,
    tokenizer: Tokenizer,
    groups: Sequence[_Group],
    count: int,
    places: Sequence[str] | None,
    options: BatchOptions | None,
) -> list[Scored]:
    device = device_of(model)

    def forward(batch: list[int]) -> list[list[list[float]]]:
        chosen = [groups[number] for number in batch]
        hidden, layout = _read(model, chosen, device)
        own = [window for group in chosen for window in group.windows]
        sizes = [len(window.ids) - window.asked for window in own]
        ends = [start + length for start, length in zip(layout.starts, layout.lengths, strict=True)]
        before = [
            place - 1
            for end, size in zip(ends, sizes, strict=True)
            for place in range(end - size, end)
        ]
        answers = torch.tensor([token for window in own for token in window.ids[window.asked :]])
        logs = token_logs(model, hidden[torch.tensor(before, device=device)], answers.to(device))
        owners = [window.item for window in own for _ in window.ids[window.asked :]]
        check_finite(model, logs[:, None], owners, "the score", places)
        pieces = (piece.tolist() for piece in torch.split(logs.cpu(), sizes))
        return [[next(pieces) for _ in group.windows] for group in chosen]

    found = in_order(model, [group.weight for group in groups], forward, options)
    results = [Scored([], [], 0) for _ in range(count)]
    for group, several in zip(groups, found, strict=True):
        for window, shares in zip(group.windows, several, strict=True):
            before = results[window.item]
            pieces = [tokenizer.token_of(token) for token in window.ids[window.asked :]]
            results[window.item] = Scored(
                before.tokens + pieces,
                before.logs + shares,
                before.windows + 1,
                before.unread if before.windows else window.begin,
            )
    return results


def _read(model: Model, groups: Sequence[_Group], device: torch.device) -> tuple[Tensor, Layout]:
    """The vectors of all endings, each knowing all tokens up to it, (N, W); and their layout."""
    ids, layout = _packed([ending for group in groups for ending in group.endings], device)
    branches = PrefixCache([len(group.windows) for group in groups])
    if model.decoder is not None:
        prompts, given = _packed([group.prompt for group in groups], device)
        source = AttentionSource(model(prompts, given), given)
        return model.decode(ids, layout, source, cache=branches), layout
    if not any(group.shared for group in groups):
        return model(ids, layout), layout
    beginnings, shared = _packed([group.beginning for group in groups], device)
    model(beginnings, shared, cache=branches)
    layout = branches.following(layout.lengths)
    return model(ids, layout, cache=branches), layout


def _packed(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Layout]:
    layout = Layout([len(text) for text in texts])
    return torch.tensor([token for text in texts for token in text], device=device), layout


def token_logs(model: Model, x: Tensor, answers: Tensor) -> Tensor:
    """The log of the share of each answer (n,), from vectors that know all before it (n, W)."""
    logs = []
    for begin in range(0, len(x), SLICE):
        part = slice(begin, begin + SLICE)
        scores: Tensor = model.heads[HEAD](x[part])
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        given = scores.gather(1, answers[part, None]).squeeze(1)
        logs.append(given - scores.logsumexp(dim=1))
    return torch.cat(logs)
