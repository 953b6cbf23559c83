"""A projection to a large vocabulary and its cross-entropy, in one step.

The idea: logits (one for every entry) are the largest tensor of a small model, and all anybody
wants of them is one number and its gradient. So logits, their softmax and their gradient are the
same memory, one after the other, and the memory is used again for the next batch. Computed a slice
of the vocabulary at a time, the product stays in the cache. Many tokens, as where every token is a
target, are done some at a time: the memory has a bound, whatever the batch.
Where it is used: on a CPU, for training and evaluation. Elsewhere the plain formula is as fast.

Shapes: n targets, E width of the table, V vocabulary.
"""

import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Entries of the vocabulary whose vectors are multiplied at once.
_SLICE = 1024
# Logits that exist at once; with 50,000 entries that is 671 tokens and 134 MB.
_LOGITS = 1 << 25
_held = threading.local()


def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """-log softmax(x @ weight.T + bias)[target], summed, and how many targets have the top logit.

    Args:
        x: Hidden states, (n, E).
        weight: The vectors of all entries, (V, E).
        bias: Added to the logits, (V,), if there is one.
        targets: The right entries, (n,).
    """
    types = {x.dtype, weight.dtype, *([] if bias is None else [bias.dtype])}
    if x.device.type == "cpu" and len(types) == 1 and x.dtype in (torch.float32, torch.float64):
        fused = _LinearCrossEntropy.apply(x, weight, bias, targets)  # type: ignore[no-untyped-call]
        total, correct = fused
        return total, correct
    logits = F.linear(x, weight, bias)
    # Trap: half precision has three digits; a sum over thousands of targets needs more.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, targets, reduction="sum"), count_correct(logits, targets)


def count_correct(logits: Tensor, targets: Tensor) -> Tensor:
    """How many targets have the highest logit, (n, C) and (n,) to a number."""
    with torch.no_grad():
        return (logits.argmax(dim=1) == targets).sum()


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Any:
        size = max(_LOGITS // len(weight), 1)
        wanted = any(ctx.needs_input_grad)
        losses, counts, of_x = [], [], []
        of_weight: Tensor | None = None
        of_bias: Tensor | None = None
        for begin in range(0, max(len(x), 1), size):
            rows, right = x[begin : begin + size], targets[begin : begin + size]
            loss, count, log_probabilities = _chunk(rows, weight, bias, right)
            losses.append(loss)
            counts.append(count)
            if wanted:
                # In the memory that the next tokens will overwrite.
                grad = log_probabilities.exp_()
                grad[torch.arange(len(right)), right] -= 1
                of_x.append(grad @ weight)
                of_weight = grad.T @ rows if of_weight is None else of_weight.addmm_(grad.T, rows)
                if bias is not None:
                    summed = grad.sum(dim=0)
                    of_bias = summed if of_bias is None else of_bias.add_(summed)
        correct = torch.stack(counts).sum()
        ctx.mark_non_differentiable(correct)
        if wanted:
            ctx.grads = (torch.cat(of_x), of_weight, of_bias)
        return torch.cat(losses).sum(), correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_total: Tensor, of_correct: Tensor) -> Any:
        assert ctx.grads is not None, "a gradient is taken once; call it again for another"
        grads = [None if grad is None else grad.mul_(of_total) for grad in ctx.grads]
        ctx.grads = None
        return (*grads, None)


def _chunk(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses of some tokens (n,), how many were right, and all log-probabilities (n, V)."""
    logits = _logits(x, weight, bias)  # (n, V)
    rows = torch.arange(len(targets))
    of_targets = logits[rows, targets]
    # Of rows whose target has the highest logit, another entry may have it, too.
    best = (of_targets == logits.amax(dim=1)).nonzero().squeeze(1) if len(targets) else rows
    correct = count_correct(logits[best], targets[best])
    log_probabilities = torch.log_softmax(logits, dim=1, out=logits)
    return -log_probabilities[rows, targets], correct, log_probabilities


def _logits(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    logits = _memory(len(x), len(weight), x.dtype)
    for begin in range(0, len(weight), _SLICE):
        part = slice(begin, begin + _SLICE)
        if bias is None:
            torch.mm(x, weight[part].T, out=logits[:, part])
        else:
            torch.addmm(bias[part], x, weight[part].T, out=logits[:, part])
    return logits


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
