"""How likely each token of a prompt is after those before it, and which ones are likelier.

The idea: one pass over a prompt says what a decoder expects in every place; its last place says how
the prompt would go on.

Shapes: N tokens of a batch, n tokens of a slice, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.errors import UnsupportedError
from clozeworks.generate.sampling import Alternatives
from clozeworks.inference.likelihood import HEAD, SLICE
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import check_finite


@dataclass(frozen=True)
class TokenChance:
    """How likely a token is in its place."""

    token: int
    log: float | None
    """The natural logarithm of its probability; None of a first token, which nothing precedes."""
    others: Alternatives = ()
    """The likeliest tokens in its place and theirs, the likeliest first."""


@dataclass(frozen=True)
class PromptChances:
    """What a decoder says of the tokens of a prompt."""

    tokens: list[TokenChance]
    following: TokenChance
    """The likeliest token after them."""


def prompt_logprobs(
    model: Model,
    prompts: Sequence[Sequence[int]],
    *,
    others: int,
    entries: int,
    options: BatchOptions | None = None,
) -> list[PromptChances]:
    """Says of every token of every prompt how likely it is.

    Args:
        model: A decoder with a vocabulary head.
        prompts: Token ids, at least one each, and no more than the model has positions for.
        others: How many alternatives each token is shown with.
        entries: How many entries the tokenizer has; a model may have more, which stand for nothing.
        options: Batch size, progress, cancellation.

    Raises:
        UnsupportedError: If the model is not a decoder.
    """
    if model.decoder is not None or not model.blueprint.can_generate:
        raise UnsupportedError(
            "the tokens of a prompt have no likelihood with this model; only a decoder such as "
            "GPT-2 or LLaMA reads them one after the other; leave out logprobs or echo."
        )
    device = device_of(model)

    def forward(batch: list[Sequence[int]]) -> list[PromptChances]:
        layout = Layout([len(ids) for ids in batch])
        read = torch.tensor([*chain.from_iterable(batch)], device=device)
        states = model(read, layout)
        # Behind each token stands the next one; behind the last, whatever is likeliest.
        targets = torch.tensor([token for ids in batch for token in (*ids[1:], -1)], device=device)
        owners = [number for number, ids in enumerate(batch) for _ in ids]
        check_finite(model, states, owners, "a hidden state")
        chances = _chances(model, states, targets, min(others, entries), entries)
        found = []
        for ids in batch:
            own = [next(chances) for _ in ids]
            found.append(PromptChances([TokenChance(ids[0], None), *own[:-1]], own[-1]))
        return found

    computation = Computation(("prompt logprobs", others, entries), forward)
    return compute_in_order(model, prompts, [*map(len, prompts)], computation, options)


def _chances(
    model: Model, states: Tensor, targets: Tensor, others: int, entries: int
) -> Iterator[TokenChance]:
    """The chance of each target (N,), of -1 the likeliest token's, after hidden states (N, W)."""
    for begin in range(0, len(states), SLICE):
        part = slice(begin, begin + SLICE)
        logits: Tensor = model.heads[HEAD](states[part])
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logs = logits.log_softmax(dim=1)[:, :entries]  # (n, V)
        values, tokens = logs.topk(max(others, 1), dim=1)
        chosen = torch.where(targets[part] < 0, tokens[:, 0], targets[part])
        # Trap: clients compare a token's number with the highest one; both are of one tensor.
        own = logs.gather(1, chosen[:, None]).squeeze(1)
        columns = (chosen.tolist(), own.tolist(), tokens.tolist(), values.tolist())
        for token, log, likeliest, theirs in zip(*columns, strict=True):
            alternatives = tuple(zip(likeliest, theirs, strict=True))[:others]
            yield TokenChance(token, log, alternatives)
