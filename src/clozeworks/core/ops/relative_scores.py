"""Scores by distance: what each query says of each distance, laid out by query and key.

Paper: Dai et al. 2019 (Transformer-XL) for the shift.
The idea: a score that depends on a query and on how far away a key stands is one product with a
table of all distances, (Lq, T). Row i of it, begun one column earlier than row i - 1, is the row of
scores by key: a view, where gathering by index would cost more than the product.
Used by: DeBERTa, XLNet.

Shapes: B texts, H heads, Lq queries, Lk keys, T distances, D head width.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clozeworks.core.context import ForwardContext
from clozeworks.core.layout import Group


def falling(group: Group) -> Tensor:
    """Query minus key position, for products by query: Lk - 1 down to -Lq, (Lq + Lk,).

    The last entry is there for the shape and is never shown.
    """
    reach = group.keys.length - 1
    return group.once("falling distances", lambda: reach - _steps(group))


def rising(group: Group) -> Tensor:
    """Query minus key position, for products by key: 1 - Lq up to Lk, (Lq + Lk,).

    The last entry is there for the shape and is never shown.
    """
    reach = group.queries.length - 1
    return group.once("rising distances", lambda: _steps(group) - reach)


def _steps(group: Group) -> Tensor:
    return torch.arange(group.queries.length + group.keys.length, device=group.device)


def is_even(group: Group, context: ForwardContext) -> bool:
    """Whether the queries of all texts are the last of their keys, all after equally many."""
    if context.source is not None and context.source.positions is not None:
        return False
    ahead = group.keys.length - group.queries.length
    return group.once(
        "even queries", lambda: all(keys - queries == ahead for queries, keys in group.lengths)
    )


def skewed(products: Tensor, columns: int) -> Tensor:
    """Products by distance, (B, H, L, L + columns), to products by place, (B, H, L, columns).

    Entry [i, j] is products[i, L - 1 - i + j].
    """
    length = products.shape[-2]
    wide = products.shape[-1] - 1
    flat = products.flatten(-2).narrow(-1, length - 1, length * wide)
    return flat.view(*flat.shape[:-1], length, wide)[..., :columns]


def products_by_place(x: Tensor, table: Tensor, columns: int) -> Tensor:
    """Rows (B, H, L, D) and vectors by distance (L + columns, H, D) to products by place.

    Entry [i, j] is row i times vector L - 1 - i + j, (B, H, L, columns): what `skewed` makes of all
    products, without keeping those it leaves out.
    """
    products: Tensor = _ProductsByPlace.apply(x, table, columns)  # type: ignore[no-untyped-call]
    return products


# Rows that share a product: of the vectors that a block of rows is multiplied with, as many go
# unused as there are rows in it, so long texts are cut.
_BLOCK = 128


class _ProductsByPlace(torch.autograd.Function):
    """The shift by hand: its gradient by torch is several passes over all distances."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, columns: int) -> Tensor:
        ctx.save_for_backward(x, table)
        pieces = []
        for rows, vectors in _blocks(x.shape[2], columns):
            flat = _flat(x, rows)  # (H, B * m, D)
            made = flat @ table[vectors].permute(1, 2, 0)  # (H, B * m, m + columns)
            pieces.append(skewed(_by_text(made, len(x)), columns))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, table = ctx.saved_tensors
        count, heads, length, _ = x.shape
        columns = gradient.shape[-1]
        of_table = torch.zeros_like(table)
        of_x = []
        for rows, vectors in _blocks(length, columns):
            flat = _flat(x, rows)
            made = gradient.new_zeros(heads, flat.shape[1], vectors.stop - vectors.start)
            skewed(_by_text(made, count), columns).copy_(gradient[:, :, rows])
            of_x.append(_by_text(made @ table[vectors].transpose(0, 1), count))
            of_table[vectors] += (made.transpose(1, 2) @ flat).transpose(0, 1)
        return of_x[0] if len(of_x) == 1 else torch.cat(of_x, dim=2), of_table, None


def _blocks(length: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Rows, and the vectors they are multiplied with."""
    size = length if length < 2 * _BLOCK else _BLOCK
    for begin in range(0, length, size):
        end = min(begin + size, length)
        yield slice(begin, end), slice(length - end, length - begin + columns)


def _flat(x: Tensor, rows: slice) -> Tensor:
    """Some rows of all texts as one matrix for each head, (H, B * m, D)."""
    chosen = x[:, :, rows].transpose(0, 1)
    return chosen.reshape(len(chosen), -1, x.shape[-1])


def _by_text(flat: Tensor, count: int) -> Tensor:
    """One matrix for each head (H, B * m, n) as rows of texts, (B, H, m, n)."""
    return flat.view(len(flat), count, -1, flat.shape[-1]).transpose(0, 1)
