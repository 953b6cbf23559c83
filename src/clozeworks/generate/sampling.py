"""Texts generated one token at a time: the likeliest, or one sampled.

The idea: rows do not know of each other. Each draws with its own generator, and leaves as soon as
it ends, so a batch costs what its unfinished texts cost.
Paper: Gumbel 1954 for sampling: the highest logit + noise is a draw from the softmax.

Shapes: n rows, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from clozeworks.core.ops.sampling import gumbel
from clozeworks.generate.logits_processors import History, LogitsProcessorSpec, applied
from clozeworks.generate.session import DecoderSession

FinishReason = Literal["end", "stop", "length"]
Alternatives = tuple[tuple[int, float], ...]
# Whether a text ends here, from the index of its prompt and its generated tokens.
StopTest = Callable[[int, list[int]], bool]


@dataclass(frozen=True)
class SampledToken:
    """One more token of a text."""

    row: int
    token: int
    log: float
    """The natural logarithm of its probability, before any rule."""
    others: Alternatives = ()
    """The likeliest tokens and theirs, if requested."""
    finish_reason: FinishReason | None = None
    """Why the text ends with it, if it does."""


@dataclass
class Written:
    """A generated text, as token ids."""

    tokens: list[int] = field(default_factory=list)
    """The generated tokens; the end token, if there is one, is the last."""
    logs: list[float] = field(default_factory=list)
    others: list[Alternatives] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    """None if it was interrupted."""
    score: float = 0.0
    """The sum of the logs; in beam search what texts were ranked by."""

    def add(self, sampled: SampledToken) -> None:
        """One more token."""
        self.tokens.append(sampled.token)
        self.logs.append(sampled.log)
        self.others.append(sampled.others)
        self.finish_reason = sampled.finish_reason
        self.score += sampled.log


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a text ends."""

    max_new_tokens: int
    ends: tuple[int, ...] = ()
    stop: StopTest | None = None

    def reason(self, prompt: int, written: list[int]) -> FinishReason | None:
        """Why a text of a prompt ends with these tokens, if it does."""
        if written[-1] in self.ends:
            return "end"
        if self.stop is not None and self.stop(prompt, written):
            return "stop"
        return "length" if len(written) >= self.max_new_tokens else None


def write(
    session: DecoderSession,
    prompt_ids: Sequence[Sequence[int]],
    *,
    limits: Limits,
    rules: Sequence[LogitsProcessorSpec] = (),
    seeds: Sequence[Sequence[int]] | None = None,
    others: int = 0,
) -> Iterator[list[SampledToken]]:
    """Generates all texts, token by token.

    Args:
        session: Computes the logits of the next token.
        prompt_ids: The tokens before each text, for rules about repetition: the prompt of a
            decoder, the start token of an encoder-decoder.
        limits: When a text ends.
        rules: What changes logits before a token is chosen.
        seeds: For every prompt one for each text to be sampled; None takes the likeliest tokens.
        others: How many alternatives each token is shown with.

    Yields:
        The next token of every row that has not ended.
    """
    counts = [len(own) for own in seeds] if seeds is not None else [1] * len(prompt_ids)
    origins = [prompt for prompt, count in enumerate(counts) for _ in range(count)]
    generators = None
    if seeds is not None:
        generators = [torch.Generator().manual_seed(seed) for own in seeds for seed in own]
    logits = session.prefill()
    if origins != list(range(len(prompt_ids))):
        session.reorder(origins)
        session.reorder_prompts(origins)
        logits = logits[origins]
    rows = list(range(len(origins)))
    prompts = [prompt_ids[prompt] for prompt in origins]
    history = History(prompts, limits.max_new_tokens, logits.device)
    while rows:
        logs = logits.log_softmax(dim=1)
        chosen = _chosen(applied(rules, logits, history, limits.ends), generators)
        history.add(chosen)
        reasons = [
            limits.reason(origins[row], history.written_row(n)) for n, row in enumerate(rows)
        ]
        yield _sampled(rows, chosen, logs, others, reasons)
        staying = [position for position, reason in enumerate(reasons) if reason is None]
        if not staying:
            return
        if len(staying) < len(rows):
            rows = [rows[position] for position in staying]
            chosen = chosen[staying]
            history.choose(staying)
            session.reorder(staying)
            session.reorder_prompts(staying)
            if generators is not None:
                generators = [generators[position] for position in staying]
        logits = session.step(chosen)


def _chosen(logits: Tensor, generators: Sequence[torch.Generator] | None) -> Tensor:
    """The highest logit of each row, or one drawn with the row's generator, (n,)."""
    if generators is not None:
        noise = gumbel([1] * len(logits), logits.shape[1], generators)
        logits = logits + noise.to(logits.device)
    return logits.argmax(dim=1)


def _sampled(
    rows: Sequence[int],
    chosen: Tensor,
    logs: Tensor,
    others: int,
    reasons: Sequence[FinishReason | None],
) -> list[SampledToken]:
    own = logs.gather(1, chosen[:, None]).squeeze(1).tolist()
    alternatives: list[Alternatives] = [()] * len(rows)
    if others:
        values, tokens = logs.topk(min(others, logs.shape[1]), dim=1)
        pairs = zip(tokens.tolist(), values.tolist(), strict=True)
        alternatives = [tuple(zip(*pair, strict=True)) for pair in pairs]
    columns = zip(rows, chosen.tolist(), own, alternatives, reasons, strict=True)
    return [SampledToken(*values) for values in columns]
