"""An entry drawn from a large vocabulary, each as often as its softmax says.

Paper: Gumbel 1954: the entry with the highest score + noise, with noise -log(-log(u)), is a draw
from the softmax of the scores.
The idea: each text has a seed of its own, so what is drawn for it depends on nothing but its scores
and that seed: neither on its neighbours nor on how a batch is cut.
Trap: looking up one random number among the summed shares needs less noise, but where scores differ
in their last digit (as in a batch that is cut differently) one draw in a few thousand becomes
another entry. The highest of noisy scores changes only where two are equal to all digits.

Shapes: n tokens, E width of the table, V vocabulary, B texts.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def drawn_entries(
    x: Tensor, weight: Tensor, bias: Tensor, counts: Sequence[int], seeds: Sequence[int]
) -> Tensor:
    """Draws from softmax(x @ weight.T + bias) for each token, (n,); has no gradient.

    Args:
        x: What the decoder reads, text by text, (n, E).
        weight: The vectors of all entries, (V, E).
        bias: Added to the scores, (V,).
        counts: Tokens of each text, (B,).
        seeds: One for each text, (B,).
    """
    found = []
    with torch.no_grad():
        for text, seed in zip(torch.split(x, list(counts)), seeds, strict=True):
            # Text by text, so that scores of a whole batch are never held at once.
            scores = F.linear(text, weight, bias)
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            noise = gumbel(len(text), len(weight), seed).to(scores.device, scores.dtype)
            found.append((scores + noise).argmax(dim=1))
    return torch.cat(found)


def gumbel(rows: int, columns: int, seed: int) -> Tensor:
    """Gumbel noise in float32, (rows, columns): a function of the seed and the shape."""
    # Drawn on the CPU whatever the device, so that a seed means the same everywhere. Two values
    # need one random number of 64 bits, which takes a fraction of the time of torch's own.
    generator = torch.Generator().manual_seed(seed)
    words = torch.empty(-(-rows * columns // 2), dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    halves = words.view(torch.int32)[: rows * columns].view(rows, columns)
    # High noise comes from shares near 0, where float32 is finest; hence 1 - u, and never 0.
    shares = halves.bitwise_and_(0x7FFFFFFF).to(torch.float32).add_(0.5).mul_(2.0**-31)
    return shares.neg_().log1p_().neg_().log_().neg_()
