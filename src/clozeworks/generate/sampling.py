"""Texts written one token at a time: the likeliest, or one drawn at random.

The idea: rows do not know of each other. Each draws with its own generator, and leaves as soon as
it ends, so a batch costs what its unfinished texts cost.
Paper: Gumbel 1954 for drawing: the highest score + noise is a draw from the softmax.

Shapes: n rows, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from clozeworks.core.ops.sampling import gumbel
from clozeworks.generate.history import History
from clozeworks.generate.logits_processors import LogitsProcessorSpec, applied
from clozeworks.generate.session import DecoderSession

Ended = Literal["end", "stop", "length"]
Alternatives = tuple[tuple[int, float], ...]
# Whether a text ends here, told by the number of its prompt and its written tokens.
StopTest = Callable[[int, list[int]], bool]


@dataclass(frozen=True)
class SampledToken:
    """One more token of a text."""

    row: int
    token: int
    log: float
    """The natural logarithm of the share that the model gave it, before any rule."""
    others: Alternatives = ()
    """The likeliest tokens and theirs, if asked for."""
    ended: Ended | None = None
    """Why the text ends with it, if it does."""


@dataclass
class Written:
    """A text that was written, as token numbers."""

    tokens: list[int] = field(default_factory=list)
    """What was written; the end token is the last one if there is one."""
    logs: list[float] = field(default_factory=list)
    others: list[Alternatives] = field(default_factory=list)
    ended: Ended | None = None
    """None if it was interrupted."""
    score: float = 0.0
    """The sum of the logs; in beam search what texts were ranked by."""

    def add(self, piece: SampledToken) -> None:
        """One more token."""
        self.tokens.append(piece.token)
        self.logs.append(piece.log)
        self.others.append(piece.others)
        self.ended = piece.ended
        self.score += piece.log


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a text ends."""

    max_new_tokens: int
    ends: tuple[int, ...] = ()
    stop: StopTest | None = None

    def reason(self, prompt: int, written: list[int]) -> Ended | None:
        """Why a text of a prompt ends with these tokens, if it does."""
        if written[-1] in self.ends:
            return "end"
        if self.stop is not None and self.stop(prompt, written):
            return "stop"
        return "length" if len(written) >= self.max_new_tokens else None


def write(
    reader: DecoderSession,
    given: Sequence[Sequence[int]],
    *,
    limits: Limits,
    rules: Sequence[LogitsProcessorSpec] = (),
    seeds: Sequence[Sequence[int]] | None = None,
    others: int = 0,
) -> Iterator[list[SampledToken]]:
    """Writes all texts, token by token.

    Args:
        reader: Says what comes next.
        given: What rules about repetition count as there already: the prompts of a decoder, the
            start of an encoder-decoder's answer.
        limits: When a text ends.
        rules: What changes scores before a token is chosen.
        seeds: For every prompt one for each text to be drawn; None takes the likeliest tokens.
        others: How many alternatives each token is shown with.

    Yields:
        The next token of every row that has not ended.
    """
    counts = [len(own) for own in seeds] if seeds is not None else [1] * len(given)
    origins = [prompt for prompt, count in enumerate(counts) for _ in range(count)]
    generators = None
    if seeds is not None:
        generators = [torch.Generator().manual_seed(seed) for own in seeds for seed in own]
    scores = reader.prefill()
    if origins != list(range(len(given))):
        reader.reorder(origins)
        reader.reorder_prompts(origins)
        scores = scores[origins]
    rows = list(range(len(origins)))
    history = History([given[prompt] for prompt in origins], limits.max_new_tokens, scores.device)
    while rows:
        logs = scores.log_softmax(dim=1)
        chosen = _chosen(applied(rules, scores, history, limits.ends), generators)
        history.add(chosen)
        pieces = _pieces(
            rows,
            chosen,
            logs,
            others,
            [limits.reason(origins[row], history.written_row(n)) for n, row in enumerate(rows)],
        )
        yield pieces
        staying = [position for position, piece in enumerate(pieces) if piece.ended is None]
        if not staying:
            return
        if len(staying) < len(rows):
            rows = [rows[position] for position in staying]
            chosen = chosen[staying]
            history.choose(staying)
            reader.reorder(staying)
            reader.reorder_prompts(staying)
            if generators is not None:
                generators = [generators[position] for position in staying]
        scores = reader.step(chosen)


def _chosen(scores: Tensor, generators: Sequence[torch.Generator] | None) -> Tensor:
    """The highest score of each row, or one drawn with the row's generator, (n,)."""
    if generators is not None:
        noise = gumbel([1] * len(scores), scores.shape[1], generators)
        scores = scores + noise.to(scores.device)
    return scores.argmax(dim=1)


def _pieces(
    rows: Sequence[int],
    chosen: Tensor,
    logs: Tensor,
    others: int,
    ended: Sequence[Ended | None],
) -> list[SampledToken]:
    own = logs.gather(1, chosen[:, None]).squeeze(1).tolist()
    shown: list[Alternatives] = [()] * len(rows)
    if others:
        values, tokens = logs.topk(min(others, logs.shape[1]), dim=1)
        shown = [
            tuple(zip(*pair, strict=True))
            for pair in zip(tokens.tolist(), values.tolist(), strict=True)
        ]
    return [
        SampledToken(row, token, log, alternatives, reason)
        for row, token, log, alternatives, reason in zip(
            rows, chosen.tolist(), own, shown, ended, strict=True
        )
    ]
