"""One vector per text, without weights of its own.

Paper: Reimers & Gurevych 2019 (mean, max, first); Muennighoff 2022 (position-weighted mean).
The idea: a sentence vector is a plain statistic of the token vectors. The special tokens count, as
they do in sentence-transformers; padding cannot, because there is none. A prompt at the beginning
of every text may be left out.
Where paper and code differ: "first" is the encoder's output at the first token, not BERT's pooler.
Used by: `embed` on every encoder.

Shapes: N tokens, B texts, W width, M modes.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from clozeworks.core.layout import Layout
from clozeworks.core.ops.segments import text_sums
from clozeworks.errors import SettingError, UnknownName

# Tokens (N, W), their layout, and how many tokens stood before each text: to a vector each, (B, W).
PoolingFunction = Callable[[Tensor, Layout, int], Tensor]


def _sizes(x: Tensor, layout: Layout) -> Tensor:
    return layout.sizes(x.device)[:, None].to(x.dtype).clamp(min=1e-9)  # (B, 1)


def _mean(x: Tensor, layout: Layout, before: int) -> Tensor:
    return text_sums(x, layout) / _sizes(x, layout)


def _mean_by_root(x: Tensor, layout: Layout, before: int) -> Tensor:
    return text_sums(x, layout) / _sizes(x, layout).sqrt()


def _weighted_mean(x: Tensor, layout: Layout, before: int) -> Tensor:
    # Compat: a prompt that is left out still moves the weights of what follows.
    weights = (layout.positions(x.device) + before + 1)[:, None].to(x.dtype)  # (N, 1)
    return text_sums(x * weights, layout) / text_sums(weights, layout).clamp(min=1e-9)


def _max(x: Tensor, layout: Layout, before: int) -> Tensor:
    highest: Tensor = torch.segment_reduce(x, "max", lengths=layout.sizes(x.device), axis=0)
    return highest


def _first(x: Tensor, layout: Layout, before: int) -> Tensor:
    return x[layout.first(x.device)]


def _last(x: Tensor, layout: Layout, before: int) -> Tensor:
    return x[layout.last(x.device)]


POOLINGS: dict[str, PoolingFunction] = {
    "first": _first,
    "mean": _mean,
    "max": _max,
    "mean_sqrt_length": _mean_by_root,
    "weighted_mean": _weighted_mean,
    "last": _last,
}


def check_modes(modes: Sequence[str], also: Sequence[str] = ()) -> None:
    """Complains about a pooling that does not exist, here or elsewhere."""
    if not modes:
        raise SettingError("pooling", (), f"name at least one of: {', '.join((*POOLINGS, *also))}")
    for mode in modes:
        if mode not in POOLINGS:
            raise UnknownName("pooling", mode, (*POOLINGS, *also))
    if len({*modes}) < len(modes):
        raise SettingError("pooling", tuple(modes), "each is taken once", "drop the repeated one")


def without_first(x: Tensor, layout: Layout, count: int) -> tuple[Tensor, Layout]:
    """Packed tokens (N, W) without so many at the beginning of every text; each must have more."""
    assert all(length > count for length in layout.lengths), "no tokens, no vector"
    if not count:
        return x, layout
    kept = x[layout.positions(x.device) >= count]
    return kept, Layout([length - count for length in layout.lengths])


def pool(x: Tensor, layout: Layout, modes: Sequence[str] = ("mean",), leave_out: int = 0) -> Tensor:
    """Packed tokens (N, W) to one vector per text (B, M * W), in float32 or wider.

    Several modes stand side by side in the order given. So many tokens at the beginning of every
    text are left out, and every text must have one more.
    """
    check_modes(modes)
    x, layout = without_first(x, layout, leave_out)
    # Trap: sums over long texts overflow or lose digits in half precision.
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return torch.cat([POOLINGS[mode](x, layout, leave_out) for mode in modes], dim=1)
