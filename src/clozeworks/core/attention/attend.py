"""Scaled dot-product attention on packed tokens: the only code that sees rows.

Paper: Vaswani et al. 2017.
The idea: every query takes the mean of the values, weighted by how well it fits their keys. Texts
of equal length are viewed as rows, nearly equal ones are padded here and nowhere else, and each
group is one kernel call, so a batch of mixed lengths costs what its real tokens cost.
Used by: every family.

Shapes: N queries, M keys, H heads, D head width; in a group B texts, Lq queries, Lk keys each.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks.core.attention.masks import Full, MaskSpec
from clozeworks.core.layers.dropout import current_generator, dropped
from clozeworks.core.layout import Group, Layout
from clozeworks.errors import InputError
from clozeworks.runtime.memory import available
from clozeworks.wording import size_in_words

# Bytes of scores from which on memory is checked, and the fraction of it that they may take.
_LARGE = 1 << 30
_SHARE = 0.5


class Relate(Protocol):
    """A position scheme inside attention: it may turn q and k, and may return a bias.

    The bias is added to the scores after they were scaled.
    """

    def __call__(self, q: Tensor, k: Tensor, group: Group) -> tuple[Tensor, Tensor, Tensor | None]:
        """Takes rows (B, H, Lq, D) and (B, H, Lk, D); the bias broadcasts to (B, H, Lq, Lk)."""
        ...


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    queries: Layout,
    keys: Layout,
    mask: MaskSpec | None = None,
    relate: Relate | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """Scaled dot-product attention, text by text.

    Args:
        q: Packed queries, (N, H, D).
        k: Packed keys, (M, H, D); with fewer heads, as many queries in turn share one.
        v: Packed values, as many heads.
        queries: Where the texts of q begin and end.
        keys: The same for k and v; the same texts in the same order, lengths may differ.
        mask: Which keys a query may attend to; everything in its text if not given. A query that
            may attend to nothing gets zeros.
        relate: How positions enter; not at all if not given.
        scale: What scores are multiplied by; 1 / sqrt(D) if not given.
        dropout: The probability that an attention weight is dropped.
        weights: If given, one (H, Lq, Lk) tensor of attention weights per text is appended.

    Returns:
        The mixed values, packed as the queries are, (N, H, D).
    """
    plan = queries.plan(keys, q.device)
    pieces = []
    weights_of: dict[int, Tensor] = {}
    rule = mask or Full()
    k, v = shared_heads(k, q.shape[1]), shared_heads(v, q.shape[1])
    by_hand = bool(dropout) and current_generator() is not None
    for group in plan.groups:
        q_rows, k_rows, v_rows = group.queries.take(q), group.keys.take(k), group.keys.take(v)
        bias = None
        if relate is not None:
            _check_memory(q_rows, k_rows)
            q_rows, k_rows, bias = relate(q_rows, k_rows, group)
        causal = bias is None and weights is None and not by_hand and rule.is_causal(group)
        allowed = None if causal else merged(bias, _allowed(group, rule))
        if weights is not None:
            weights_of.update(_weights(group, q_rows, k_rows, allowed, scale))
        if by_hand:
            mixed = _softmax(q_rows, k_rows, allowed, scale, dropout) @ v_rows
        else:
            mixed = F.scaled_dot_product_attention(
                q_rows,
                k_rows,
                v_rows,
                attn_mask=allowed,
                dropout_p=dropout,
                is_causal=causal,
                scale=scale,
            )  # (B, H, Lq, D)
        pieces.append(group.queries.put(mixed))
    if weights is not None:
        empty = q.new_zeros(q.shape[1], 0, 0)
        weights.extend(weights_of.get(text, empty) for text in range(len(queries)))
    return plan.join(pieces) if pieces else q.new_zeros(0, q.shape[1], v.shape[2])


def _check_memory(q: Tensor, k: Tensor) -> None:
    """Complains where a score for every pair of positions would fill the memory."""
    size = q.shape[1] * q.shape[2] * k.shape[2] * q.element_size()
    if size < _LARGE:
        return
    have = available(q.device)
    if have is not None and size > have * _SHARE:
        raise InputError(
            f"a text has {k.shape[2]:,} tokens; scores of all pairs of positions take "
            f"{size_in_words(size)} in each layer, and {size_in_words(have)} are available; "
            f"shorten it, or cut it into several."
        )


def _allowed(group: Group, mask: MaskSpec) -> Tensor | None:
    """Which keys count for which query, (B or 1, 1, Lq or 1, Lk); None when all do."""

    def make() -> Tensor | None:
        allowed = mask.allowed(group)  # (B or 1, Lq, Lk)
        real = group.real_keys()  # (B, Lk)
        if real is not None:
            allowed = real[:, None] if allowed is None else allowed & real[:, None]
        return None if allowed is None else allowed[:, None]

    return group.once(("allowed", mask), make)


def shared_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values (M, K, …), each repeated for the query heads that share it, (M, H, …)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def merged(bias: Tensor | None, allowed: Tensor | None) -> Tensor | None:
    """One mask for the kernel: boolean without a bias, additive with one."""
    if bias is None or allowed is None:
        return allowed if bias is None else bias
    return bias.masked_fill(~allowed, float("-inf"))


def _softmax(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None, dropout: float = 0.0
) -> Tensor:
    """The attention weights themselves, (B, H, Lq, Lk), some of them dropped."""
    scores = q * (q.shape[-1] ** -0.5 if scale is None else scale) @ k.transpose(-1, -2)
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    weights_of = scores.softmax(dim=-1)
    if mask is not None:
        weights_of = weights_of.nan_to_num(0.0)  # a query that may attend to nothing gets nothing
    return dropped(weights_of, dropout) if dropout else weights_of


def _weights(
    group: Group, q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None
) -> dict[int, Tensor]:
    """The attention weights per text, without dropout."""
    weights_of = _softmax(q, k, mask, scale)
    return {
        text: weights_of[row, :, :query_length, :key_length]
        for row, (text, (query_length, key_length)) in enumerate(
            zip(group.texts, group.lengths, strict=True)
        )
    }
