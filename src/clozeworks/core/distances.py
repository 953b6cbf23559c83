"""Scores by distance: what each query says of each distance, laid out by query and key.

Paper: Dai et al. 2019 (Transformer-XL) for the shift.
The idea: a score that depends on a query and on how far away a key stands is one product with a
table of all distances, (Lq, T). Row i of it, begun one place earlier than row i - 1, is the row of
scores by key: a view, where gathering by index would cost more than the product.
Used by: DeBERTa, XLNet.

Shapes: B texts, H heads, Lq queries, Lk keys, T distances, D head width.
"""

import torch
from torch import Tensor

from clozeworks.core.flow import Flow
from clozeworks.core.layout import Group


def falling(group: Group) -> Tensor:
    """Query place minus key place, for products by query: Lk - 1 down to -Lq, (Lq + Lk,).

    The last entry is there for the shape and is never shown.
    """
    reach = group.keys.length - 1
    tensor: Tensor = group.once("falling distances", lambda: reach - _steps(group))
    return tensor


def rising(group: Group) -> Tensor:
    """Query place minus key place, for products by key: 1 - Lq up to Lk, (Lq + Lk,).

    The last entry is there for the shape and is never shown.
    """
    reach = group.queries.length - 1
    tensor: Tensor = group.once("rising distances", lambda: _steps(group) - reach)
    return tensor


def _steps(group: Group) -> Tensor:
    return torch.arange(group.queries.length + group.keys.length, device=group.device)


def is_even(group: Group, flow: Flow) -> bool:
    """Whether the queries of all texts are the last of their keys, all after equally many."""
    if flow.source is not None and flow.source.places is not None:
        return False
    ahead = {keys - queries for queries, keys in group.lengths}
    return ahead == {group.keys.length - group.queries.length}


def skewed(products: Tensor, columns: int) -> Tensor:
    """Products by distance, (B, H, L, L + columns), to products by place, (B, H, L, columns).

    Entry [i, j] is products[i, L - 1 - i + j].
    """
    length = products.shape[-2]
    wide = products.shape[-1] - 1
    flat = products.flatten(-2).narrow(-1, length - 1, length * wide)
    return flat.view(*flat.shape[:-1], length, wide)[..., :columns]
