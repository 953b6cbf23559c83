"""Disentangled attention: content and relative position score each other.

Paper: He, Liu, Gao, Chen 2021 (DeBERTa); its second version has distances in logarithmic buckets.
The idea: beside how a query fits a key, a score holds how the query fits the key's distance
(content to position, c2p) and how the key fits the query's distance (position to content, p2c). One
table of distances serves all layers; each layer projects it.
Where paper and code differ: the paper measures the distance of p2c from the key, the released code
from the query, as for c2p; checkpoints follow the code. The code of the first version uses only
the middle rows of the table for short texts, which are the only ones their distances reach. The
code of the second clamps distances before they are put into buckets, Hugging Face's only after;
the two differ beyond the farthest distance.
Trap: scores are divided by sqrt(D * (1 + terms)), all three terms alike. Attention holds that
scale, and this scheme follows it.
Used by: DeBERTa.

Shapes: R rows of the table, W width, H heads, D head width; B texts, Lq queries, Lk keys, T
distances.
"""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from clozeworks.core.attention.attend import Relate
from clozeworks.core.context import ForwardContext
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.layout import Group
from clozeworks.core.ops.relative_scores import falling, is_even, products_by_place, rising
from clozeworks.core.positions import PositionModule, PositionSpec, SharedPositionSpec
from clozeworks.spec import spec

Term = Literal["c2p", "p2c"]
# What projects the table, and its projected rows; None where a term is absent.
RowProjection = nn.Module | None
RowVectors = Tensor | None


@spec
class DistanceTable(SharedPositionSpec):
    """One vector per distance, for all layers."""

    paper: ClassVar[str] = "He et al. 2021"

    count: int
    """Rows: twice the span."""
    norm: NormSpec | None = None
    """Over each row (the second version)."""

    def build(self, width: int) -> "DistanceTableModule":
        """Makes the module."""
        norm = self.norm.build(width) if self.norm else nn.Identity()
        return DistanceTableModule(nn.Embedding(self.count, width), norm)


class DistanceTableModule(nn.Module):
    """The table, normalised once per pass."""

    def __init__(self, table: nn.Embedding, norm: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.norm = norm

    def forward(self, context: ForwardContext) -> Tensor:
        """All rows, (R, W)."""
        # Trap: torch cannot count the operations of a module that is handed a parameter itself.
        rows: Tensor = self.norm(self.table.weight[:])
        return rows


@spec
class DistanceScores(PositionSpec):
    """Slot: scores by distance, whoever projects the table."""

    paper: ClassVar[str] = "He et al. 2021"
    is_slot: ClassVar[bool] = True

    span: int
    """Half of the table's rows: distances, or buckets of them, on each side."""
    farthest: int | None = None
    """Where distances are in logarithmic buckets, the one that falls into the last bucket."""
    terms: tuple[Term, ...] = ("c2p", "p2c")
    dropout: float = 0.0
    """The probability that a value of the table is dropped, in each layer in training."""


@spec
class Disentangled(DistanceScores):
    """Scores by distance, the table projected by matrices of their own."""

    key_bias: bool = True
    """Whether the projection to keys has a bias; the first version's has none."""

    def build(self, width: int, heads: int, head_width: int) -> "DisentangledModule":
        """Makes the module."""
        inner = heads * head_width
        return DisentangledModule(
            DistanceRows(self.span, self.farthest),
            key=nn.Linear(width, inner, bias=self.key_bias) if "c2p" in self.terms else None,
            query=nn.Linear(width, inner) if "p2c" in self.terms else None,
            dropout=self.dropout,
        )


@spec
class DisentangledShared(DistanceScores):
    """Scores by distance, the table projected by the attention's own matrices."""

    def build(self, width: int, heads: int, head_width: int) -> "DisentangledSharedModule":
        """Makes the module, which has no weights."""
        rows = DistanceRows(self.span, self.farthest)
        return DisentangledSharedModule(rows, self.terms, dropout=self.dropout)


class DistanceRows:
    """Which row of the table belongs to a distance."""

    def __init__(self, span: int, farthest: int | None) -> None:
        self.span = span
        self.farthest = farthest

    def reach(self, longest: int) -> int:
        """How many rows on each side of the middle texts of this length need."""
        steps = torch.tensor([max(longest, 1) - 1])
        return min(self.span, int(self._steps(steps)) + 1)

    def rows(self, distances: Tensor, reach: int) -> Tensor:
        """The row of each distance, among the middle 2 * reach rows of the table."""
        return (self._steps(distances) + reach).clamp(0, 2 * reach - 1)

    def _steps(self, distances: Tensor) -> Tensor:
        if self.farthest is None:
            return distances
        return buckets(distances, self.span, self.farthest)


def buckets(distances: Tensor, count: int, farthest: int) -> Tensor:
    """Near distances as they are, those beyond half of the buckets by their logarithm.

    Compat: in single precision, as checkpoints were trained; another rounding moves some of them.
    """
    middle = count // 2
    size = distances.abs().clamp(min=middle).float()
    fraction = torch.log(size / middle) / torch.log(torch.tensor((farthest - 1) / middle))
    far = (torch.ceil(fraction * (middle - 1)) + middle).long()
    return torch.where(distances.abs() <= middle, distances, far * distances.sign())


class DisentangledModule(PositionModule):
    """Projects the table and lays its scores out by query and key."""

    def __init__(
        self, distances: DistanceRows, *, key: RowProjection, query: RowProjection, dropout: float
    ) -> None:
        super().__init__()
        self.key = key
        self.query = query
        self.dropout = Dropout(dropout)
        self.distances = distances

    def projections(self, attention: Any) -> tuple[RowProjection, RowProjection]:
        """What makes keys and queries of the table's rows; None where a term is absent."""
        return self.key, self.query

    def forward(self, attention: Any, context: ForwardContext) -> Relate:
        """What `attend` calls for each group."""
        layout = context.layout if context.source is None else context.source.layout
        reach = layout.once(
            ("reach", self.distances.span, self.distances.farthest),
            lambda: self.distances.reach(layout.longest),
        )
        assert isinstance(context.shared, Tensor), "the tower shares a table of distances"
        middle = context.shared[self.distances.span - reach : self.distances.span + reach]
        middle = self.dropout(middle)  # (2 reach, W)
        # The table is small, and scaling it spares a pass over all scores.
        keys, queries = (
            None if project is None else self._scaled(project(middle), attention)
            for project in self.projections(attention)
        )  # (2 reach, H, D)

        def relate(q: Tensor, k: Tensor, group: Group) -> tuple[Tensor, Tensor, Tensor]:
            if is_even(group, context):
                terms = self._even(q, k, keys, queries, group, reach)
            else:
                at = context.query_positions(group)
                distances = at[:, :, None] - group.key_positions()[:, None]
                rows = self.distances.rows(distances, reach)[:, None]  # (B or 1, 1, Lq, Lk)
                rows = rows.expand(q.shape[0], q.shape[1], -1, -1)
                terms = _uneven(q, k, keys, queries, rows)
            return q, k, terms[0] if len(terms) == 1 else terms[0] + terms[1]

        return relate

    @staticmethod
    def _scaled(rows: Tensor, attention: Any) -> Tensor:
        """Projected rows (R, H * D) by head, multiplied as the attention's scores are."""
        by_head = rows.view(len(rows), attention.heads, -1)  # (R, H, D)
        scale: float | None = attention.scale
        return by_head * (by_head.shape[-1] ** -0.5 if scale is None else scale)

    def _even(
        self, q: Tensor, k: Tensor, keys: RowVectors, queries: RowVectors, group: Group, reach: int
    ) -> list[Tensor]:
        """Each term, (B, H, Lq, Lk): a product with all distances, and a shifted view of it."""
        terms = []
        if keys is not None:
            by_query = keys[self._rows(group, falling, reach)]  # (T, H, D)
            terms.append(products_by_place(q, by_query, group.keys.length))
        if queries is not None:
            by_key = queries[self._rows(group, rising, reach)]  # (T, H, D)
            terms.append(products_by_place(k, by_key, group.queries.length).transpose(-1, -2))
        return terms

    def _rows(self, group: Group, distances: Any, reach: int) -> Tensor:
        """The row of each distance, (T,)."""
        key = ("disentangled", distances, self.distances.span, self.distances.farthest, reach)
        return group.once(key, lambda: self.distances.rows(distances(group), reach))


class DisentangledSharedModule(DisentangledModule):
    """The same, with the attention's own projections."""

    def __init__(self, distances: DistanceRows, terms: tuple[Term, ...], *, dropout: float) -> None:
        super().__init__(distances, key=None, query=None, dropout=dropout)
        self.terms = terms

    def projections(self, attention: Any) -> tuple[RowProjection, RowProjection]:
        """Those of the attention, biases and all."""
        return (
            attention.key if "c2p" in self.terms else None,
            attention.query if "p2c" in self.terms else None,
        )


def _uneven(
    q: Tensor, k: Tensor, keys: RowVectors, queries: RowVectors, rows: Tensor
) -> list[Tensor]:
    """Each term where queries stand anywhere: a product with the table, and a gathering."""
    terms = []
    if keys is not None:
        terms.append(_products(q, keys).gather(-1, rows))
    if queries is not None:
        by_key = _products(k, queries).gather(-1, rows.transpose(-1, -2))
        terms.append(by_key.transpose(-1, -2))
    return terms


def _products(x: Tensor, table: Tensor) -> Tensor:
    """Rows (B, H, L, D) and vectors (T, H, D) to products (B, H, L, T).

    All texts are one matrix for each head, so that the vectors are never copied for each text.
    """
    count, heads, length, _ = x.shape
    flat = x.transpose(0, 1).reshape(heads, count * length, -1)  # (H, B * L, D)
    products = flat @ table.permute(1, 2, 0)  # (H, B * L, T)
    return products.view(heads, count, length, -1).transpose(0, 1)
