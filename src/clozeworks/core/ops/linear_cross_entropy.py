"""The cost of naming the right entry of a large vocabulary.

The idea: scores (one for every entry) are the largest tensor of a small model, and all anybody
wants of them is one number and its gradient. So scores, their softmax and their gradient are the
same memory, one after the other, and the memory is used again for the next batch. Computed a slice
of the vocabulary at a time, the product stays in the cache. Many tokens, as where every token is
asked for, are done some at a time: the memory has a bound, whatever the batch.
Where it is used: on a CPU, for training and evaluation. Elsewhere the plain formula is as fast.

Shapes: n asked tokens, E width of the table, V vocabulary.
"""

import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Entries of the vocabulary whose vectors are multiplied at once.
_SLICE = 1024
# Scores that exist at once; with 50,000 entries that is 671 tokens and 134 MB.
_SCORES = 1 << 25
_held = threading.local()


def named(x: Tensor, weight: Tensor, bias: Tensor | None, answers: Tensor) -> tuple[Tensor, Tensor]:
    """-log softmax(x @ weight.T + bias)[answer], summed, and how many answers scored highest.

    Args:
        x: The asked tokens, (n, E).
        weight: The vectors of all entries, (V, E).
        bias: Added to the scores, (V,), if there is one.
        answers: The right entries, (n,).

    Returns:
        A number with a gradient, and a number.
    """
    types = {x.dtype, weight.dtype, *([] if bias is None else [bias.dtype])}
    if x.device.type == "cpu" and len(types) == 1 and x.dtype in (torch.float32, torch.float64):
        total, right = _Named.apply(x, weight, bias, answers)  # type: ignore[no-untyped-call]
        return total, right
    scores = F.linear(x, weight, bias)
    # Trap: half precision has three digits; a sum over thousands of questions needs more.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return F.cross_entropy(scores, answers, reduction="sum"), right_answers(scores, answers)


def right_answers(scores: Tensor, answers: Tensor) -> Tensor:
    """How many answers have the highest score, (n, C) and (n,) to a number."""
    with torch.no_grad():
        return (scores.argmax(dim=1) == answers).sum()


class _Named(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, answers: Tensor) -> Any:
        size = max(_SCORES // len(weight), 1)
        wanted = any(ctx.needs_input_grad)
        costs, rights, of_x = [], [], []
        of_weight: Tensor | None = None
        of_bias: Tensor | None = None
        for begin in range(0, max(len(x), 1), size):
            part, asked = x[begin : begin + size], answers[begin : begin + size]
            cost, right, shares = _of_some(part, weight, bias, asked)
            costs.append(cost)
            rights.append(right)
            if wanted:
                grad = shares.exp_()  # in the memory that the next tokens will overwrite
                grad[torch.arange(len(asked)), asked] -= 1
                of_x.append(grad @ weight)
                of_weight = grad.T @ part if of_weight is None else of_weight.addmm_(grad.T, part)
                if bias is not None:
                    own = grad.sum(dim=0)
                    of_bias = own if of_bias is None else of_bias.add_(own)
        right = torch.stack(rights).sum()
        ctx.mark_non_differentiable(right)
        if wanted:
            ctx.grads = (torch.cat(of_x), of_weight, of_bias)
        return torch.cat(costs).sum(), right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_total: Tensor, of_right: Tensor) -> Any:
        assert ctx.grads is not None, "a gradient is taken once; call named again for another"
        grads = [None if grad is None else grad.mul_(of_total) for grad in ctx.grads]
        ctx.grads = None
        return (*grads, None)


def _of_some(
    x: Tensor, weight: Tensor, bias: Tensor | None, answers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The costs of some tokens (n,), how many were right, and all log shares (n, V)."""
    scores = _scores(x, weight, bias)  # (n, V)
    rows = torch.arange(len(answers))
    given = scores[rows, answers]
    # Of rows whose answer has the highest score, another entry may have it, too.
    best = (given == scores.amax(dim=1)).nonzero().squeeze(1) if len(answers) else rows
    right = right_answers(scores[best], answers[best])
    shares = torch.log_softmax(scores, dim=1, out=scores)
    return -shares[rows, answers], right, shares


def _scores(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scores = _memory(len(x), len(weight), x.dtype)
    for begin in range(0, len(weight), _SLICE):
        part = slice(begin, begin + _SLICE)
        if bias is None:
            torch.mm(x, weight[part].T, out=scores[:, part])
        else:
            torch.addmm(bias[part], x, weight[part].T, out=scores[:, part])
    return scores


def _memory(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Memory of this thread, whatever it holds; the next call gets the same.

    Fresh memory would be had from the system and cleared page by page, which takes a fifth of the
    time of all that is done with it.
    """
    held: Tensor | None = getattr(_held, "memory", None)
    if held is None or held.dtype != dtype or held.numel() < rows * columns:
        with torch.inference_mode(False):
            held = _held.memory = torch.empty(rows * columns, dtype=dtype)
    return held[: rows * columns].view(rows, columns)
