"""How likely texts are: the probability of each token given all tokens before it.

Paper: Jelinek et al. 1977 (perplexity); Radford et al. 2019 (long texts by windows).
The idea: the log probabilities of the tokens add up to that of the text. Texts longer than a
model's positions are read through windows; each scores the tokens that no window before it holds,
and every token of a later window sees at least `overlap` tokens before it.
What is scored: of a text all tokens but those that the tokenizer puts around it, and but the first
one where no token precedes it (GPT-2). Of a continuation every token with a character of it, so
that it does not matter on which side of the boundary a space is written. Of an encoder-decoder's
output the end token, too.
Neighbouring continuations of one prompt, such as labels, share one pass: the tokens that all of
them begin with are read once.
Trap: perplexity is taken over tokens; a mean of the perplexities of texts or batches is something
else.

Shapes: n target tokens, V vocabulary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from math import exp, fsum, inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clozeworks.core.attention.kv_cache import PrefixCache
from clozeworks.core.context import AttentionSource
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import check_finite
from clozeworks.text.tokenizer.tokenizer import Encoded, Tokenizer
from clozeworks.text.valid import check_texts, location_of
from clozeworks.text.windows import sliding_windows

HEAD = "vocabulary"
# Tokens whose logits are in memory at a time: one number for every entry of the vocabulary each.
SLICE = 256
# Continuations that share one pass over a prompt: each attends to a copy of its keys and values.
TOGETHER = 16


@dataclass(frozen=True)
class Scored:
    """How likely a text is, or a continuation of a text."""

    tokens: list[str]
    """The tokens that were scored."""
    logprobs: list[float]
    """The natural logarithm of the probability of each."""
    windows: int = 1
    """How many windows the text was read through."""
    unread: int = 0
    """How many of the first tokens of its prompt no window had room for."""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Scored":
        """The same from its fields as JSON holds them."""
        return cls(
            list(record["tokens"]), list(record["logprobs"]), record["windows"], record["unread"]
        )

    @property
    def total(self) -> float:
        """The log probability of all tokens together."""
        return fsum(self.logprobs)

    @property
    def count(self) -> int:
        """How many tokens were scored."""
        return len(self.logprobs)

    @property
    def perplexity(self) -> float:
        """The perplexity: among how many equally likely tokens the model would be as unsure."""
        return perplexity([self])


def perplexity(scored: Sequence[Scored]) -> float:
    """The perplexity over all tokens of some texts; infinite if it is too large for a number.

    Args:
        scored: The texts, with at least one token in all.
    """
    return perplexity_of(fsum(text.total for text in scored), sum(text.count for text in scored))


def perplexity_of(total: float, count: int) -> float:
    """The perplexity of so many tokens with so much log probability in all."""
    try:
        return exp(-total / count)
    except OverflowError:
        return inf


class _Window(NamedTuple):
    """Tokens that are read, and the first position that is scored."""

    item: int
    ids: list[int]
    first: int
    begin: int = 0
    """Where the window begins in its text."""
    prompt: list[int] | None = None
    """What an encoder reads; `ids` are then the decoder start token and the output."""

    @property
    def targets(self) -> list[int]:
        """The tokens that are scored."""
        return self.ids[self.first :]


class _Group(NamedTuple):
    """Windows on one prompt, and how many of their first tokens are equal and read once."""

    windows: Sequence[_Window]
    shared: int

    @property
    def prompt(self) -> list[int]:
        return self.windows[0].prompt or []

    @property
    def endings(self) -> list[list[int]]:
        return [window.ids[self.shared :] for window in self.windows]

    @property
    def cost(self) -> int:
        return len(self.prompt) + self.shared + sum(map(len, self.endings))


def score_texts(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    max_length: int | None,
    overlap: int | None = None,
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Scored]:
    """Scores texts with a decoder.

    Args:
        model: A decoder with a vocabulary head.
        tokenizer: Its tokenizer.
        texts: The texts.
        max_length: The maximum number of tokens of a window; None without a limit.
        overlap: Tokens that a window shares with the one before; half a window if not given.
        source_locations: Where each text came from, for messages.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: If a text has no token that can be scored.
        SettingError: If the overlap does not fit into a window.
    """
    check_texts("text", texts)
    windows: list[_Window] = []
    for number, text in enumerate(tokenizer.encode(texts)):
        ids, first = _opened(text)
        first = max(first, 1)
        if first >= len(ids):
            raise InputError(
                f"{location_of(number, source_locations)} has no token with another before it, so "
                f"nothing can be scored; use a longer text."
            )
        windows += _windows(number, ids, first, max_length, overlap)
    groups = [_Group([window], 0) for window in windows]
    return _scored(model, tokenizer, groups, len(texts), source_locations, options)


def score_continuations(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    max_length: int | None,
    start: int | None = None,
    overlap: int | None = None,
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Scored]:
    """Scores texts as continuations of others, or, with an encoder-decoder, as outputs for them.

    Continuations include the white space before them. Of a prompt longer than `max_length` the end
    is read, and the tokens before it are counted as unread. `start` is the decoder start token of
    an encoder-decoder; the other arguments are those of `score_texts`.

    Raises:
        InputError: If a continuation has no tokens, or if no token precedes it.
        SettingError: If the overlap does not fit into a window.
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
                f"the continuation of {location_of(number, source_locations)} is {text!r}; it must "
                f"have at least one word; add one."
            )
    windows: list[_Window] = []
    if model.decoder is not None:
        assert start is not None, "an output begins with a start token"
        sources = tokenizer.encode(
            prompts, max_length=max_length, source_locations=source_locations, advice="shorten it"
        )
        outputs = tokenizer.encode(continuations)
        windows = [
            _Window(number, [start, *output.ids], 1, prompt=source.ids)
            for number, (source, output) in enumerate(zip(sources, outputs, strict=True))
        ]
    else:
        joined = [before + after for before, after in zip(prompts, continuations, strict=True)]
        encoded = tokenizer.encode(joined, offsets=True)
        for number, (prompt, whole) in enumerate(zip(prompts, encoded, strict=True)):
            ids, opened = _opened(whole)
            assert whole.offsets is not None
            ends = [end for _, end in whole.offsets[: len(ids)]]
            after = (n for n in range(opened, len(ids)) if ends[n] > len(prompt))
            first = next(after, len(ids))
            if not 0 < first < len(ids):
                raise InputError(
                    f"the prompt of {location_of(number, source_locations)} is {prompt!r:.60}; a "
                    f"continuation needs a token before it; add a prompt."
                )
            windows += _windows(number, ids, first, max_length, overlap)
    groups = list(_grouped(windows, prompts))
    return _scored(model, tokenizer, groups, len(prompts), source_locations, options)


def _opened(text: Encoded) -> tuple[list[int], int]:
    """The tokens up to the last one of the text, and the position of its first."""
    ordinary = [n for n, special in enumerate(text.special) if not special]
    return (text.ids[: ordinary[-1] + 1], ordinary[0]) if ordinary else ([], 0)


def _windows(
    item: int, ids: list[int], first: int, max_length: int | None, overlap: int | None
) -> Iterator[_Window]:
    """Windows that each score the tokens no window before them holds."""
    size = max(len(ids), 2) if max_length is None else max_length
    overlap = size // 2 if overlap is None else overlap
    if not 1 <= overlap < size:
        rule = f"it must be at least 1 and below {size:,}, the length of a window"
        raise SettingError("overlap", overlap, rule)
    for begin, judged, end in sliding_windows(len(ids), size, overlap, first=first, full=True):
        yield _Window(item, ids[begin:end], judged - begin, begin)


def _grouped(windows: Sequence[_Window], prompts: Sequence[str]) -> Iterator[_Group]:
    """Neighbours on the same part of one prompt."""
    for _, neighbours in groupby(windows, lambda window: (prompts[window.item], window.begin)):
        every = list(neighbours)
        for first in range(0, len(every), TOGETHER):
            several = every[first : first + TOGETHER]
            if len(several) == 1:
                yield _Group(several, 0)
                continue
            # Trap: the first characters of a label may merge with the prompt into another token,
            # so the common prefix is searched for. The token before the first target is read with
            # the label.
            columns = zip(*(window.ids for window in several), strict=False)
            equal = len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
            yield _Group(several, min(equal, min(window.first for window in several) - 1))


def _scored(
    model: Model,
    tokenizer: Tokenizer,
    groups: Sequence[_Group],
    count: int,
    source_locations: Sequence[str] | None,
    options: BatchOptions | None,
) -> list[Scored]:
    device = device_of(model)

    def forward(chosen: list[_Group]) -> list[list[list[float]]]:
        hidden_states, layout = _read(model, chosen, device)
        windows = [window for group in chosen for window in group.windows]
        sizes = [len(window.targets) for window in windows]
        before = [
            position - 1
            for start, length, size in zip(layout.starts, layout.lengths, sizes, strict=True)
            for position in range(start + length - size, start + length)
        ]
        targets = torch.tensor([token for window in windows for token in window.targets])
        states = hidden_states[torch.tensor(before, device=device)]
        logprobs = token_logprobs(model, states, targets.to(device))
        owners = [window.item for window in windows for _ in window.targets]
        check_finite(model, logprobs[:, None], owners, "the score", source_locations)
        split = (part.tolist() for part in torch.split(logprobs.cpu(), sizes))
        return [[next(split) for _ in group.windows] for group in chosen]

    costs = [group.cost for group in groups]
    computation = Computation("likelihood", forward)
    scores = compute_in_order(model, groups, costs, computation, options)
    results = [Scored([], [], 0) for _ in range(count)]
    for group, several in zip(groups, scores, strict=True):
        for window, logprobs in zip(group.windows, several, strict=True):
            before = results[window.item]
            results[window.item] = Scored(
                [*before.tokens, *map(tokenizer.token_of, window.targets)],
                before.logprobs + logprobs,
                before.windows + 1,
                before.unread if before.windows else window.begin,
            )
    return results


def _read(model: Model, groups: Sequence[_Group], device: torch.device) -> tuple[Tensor, Layout]:
    """The hidden states of all endings, which attend to all tokens before them, (N, W)."""
    ids, layout = _packed([ending for group in groups for ending in group.endings], device)
    branches = PrefixCache([len(group.windows) for group in groups])
    if model.decoder is not None:
        prompts, prompt_layout = _packed([group.prompt for group in groups], device)
        source = AttentionSource(model(prompts, prompt_layout), prompt_layout)
        return model.decode(ids, layout, source, cache=branches), layout
    if not any(group.shared for group in groups):
        return model(ids, layout), layout
    beginnings, shared = _packed([group.windows[0].ids[: group.shared] for group in groups], device)
    model(beginnings, shared, cache=branches)
    layout = branches.following(layout.lengths)
    return model(ids, layout, cache=branches), layout


def _packed(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Layout]:
    layout = Layout([len(text) for text in texts])
    return torch.tensor([token for text in texts for token in text], device=device), layout


def token_logprobs(model: Model, hidden_states: Tensor, targets: Tensor) -> Tensor:
    """The log probability of each target (n,), from the hidden states before them (n, W)."""
    logprobs = []
    for begin in range(0, len(hidden_states), SLICE):
        part = slice(begin, begin + SLICE)
        logits: Tensor = model.heads[HEAD](hidden_states[part])
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        chosen = logits.gather(1, targets[part, None]).squeeze(1)
        logprobs.append(chosen - logits.logsumexp(dim=1))
    return torch.cat(logprobs)
