"""An entry drawn from a large vocabulary, each as often as its softmax says.

Paper: Gumbel 1954: the entry with the highest logit + noise, with noise -log(-log(u)), is a draw
from the softmax of the logits.
The idea: each text has a seed of its own, so what is drawn for it depends on nothing but its logits
and that seed: neither on its neighbours nor on how a batch is cut.
Trap: looking up one random number among summed probabilities needs less noise, but where logits
differ in their last digit (as in a batch that is cut differently) one draw in a few thousand
becomes another entry. The highest of noisy logits changes only where two are equal to all digits.

Shapes: n tokens, E width of the table, V vocabulary, B texts.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Entries of the vocabulary that are computed at once: what belongs to them stays in the cache.
_SLICE = 1024


def drawn_entries(
    x: Tensor, weight: Tensor, bias: Tensor | None, counts: Sequence[int], seeds: Sequence[int]
) -> Tensor:
    """Draws from softmax(x @ weight.T + bias) for each token, (n,); has no gradient.

    Args:
        x: What the decoder reads, text by text, (n, E).
        weight: The vectors of all entries, (V, E).
        bias: Added to the logits, (V,), if there is one.
        counts: Tokens of each text, (B,).
        seeds: One for each text, (B,).
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    with torch.no_grad():
        entries = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        best = torch.full((len(x),), -torch.inf, device=x.device)
        for begin in range(0, len(weight), _SLICE):
            part = slice(begin, begin + _SLICE)
            logits = F.linear(x, weight[part], None if bias is None else bias[part])
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            noise = gumbel(counts, logits.shape[1], generators).to(logits.device)
            highest, position = (logits + noise).max(dim=1)
            entries = torch.where(highest > best, position + begin, entries)
            best = torch.maximum(highest, best)
    return entries


def gumbel(counts: Sequence[int], columns: int, generators: Sequence[torch.Generator]) -> Tensor:
    """Gumbel noise in float32, (n, columns), the rows of each text from its own generator.

    Generators are on the CPU, so that a seed means the same on every device.
    """
    # Two values need one random number of 64 bits, which takes a fraction of the time of torch's
    # own exponential numbers.
    pairs = -(-columns // 2)
    words = torch.empty(sum(counts), pairs, dtype=torch.int64)
    for rows, generator in zip(torch.split(words, list(counts)), generators, strict=True):
        rows.random_(-(2**63), None, generator=generator)
    halves = words.view(torch.int32)[:, :columns]
    # High noise comes from numbers near 0, where float32 is finest; hence 1 - u, and never 0.
    uniforms = halves.bitwise_and(0x7FFFFFFF).to(torch.float32).add_(0.5).mul_(2.0**-31)
    return uniforms.neg_().log1p_().neg_().log_().neg_()
