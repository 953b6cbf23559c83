"""Attention masks: who sees whom.

The idea: what a query may attend to is a rule about positions, computed per group of rows when
needed; no L x L tensor is ever shipped by data code. The rules have no weights, so the spec is the
rule itself.

Shapes: B texts of a group, Lq queries, Lk keys.
"""

from typing import ClassVar

from torch import Tensor

from clozeworks.core.layout import Group
from clozeworks.spec import PositiveInt, Slot, spec


class MaskSpec(Slot):
    """Slot: which keys a query may attend to."""

    is_slot: ClassVar[bool] = True

    def allowed(self, group: Group) -> Tensor | None:
        """True where a query sees a key, (B or 1, Lq, Lk); None when it sees all."""
        raise NotImplementedError

    def is_causal(self, group: Group) -> bool:
        """Whether it is exactly what kernels call causal, which they compute without a mask."""
        return False


@spec
class Full(MaskSpec):
    """Every token of the same text: BERT and all encoders."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    def allowed(self, group: Group) -> Tensor | None:
        """No restriction."""
        return None


@spec
class Causal(MaskSpec):
    """The token itself and those before it: GPT, LLaMA and every decoder."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    def allowed(self, group: Group) -> Tensor | None:
        """Keys at or before the query; all of them where the last token alone is a query."""
        if group.queries.length == 1:
            return None
        return group.key_positions()[:, None, :] <= group.query_positions()[:, :, None]

    def is_causal(self, group: Group) -> bool:
        """Yes, if every text has as many queries as keys: padding comes last and is not seen."""
        return all(queries == keys for queries, keys in group.lengths)


@spec
class SlidingWindow(Causal):
    """The token itself and the `length` - 1 before it: Mistral, and some layers of others."""

    paper: ClassVar[str] = "Beltagy et al. 2020"

    length: PositiveInt
    """How many tokens are seen."""

    def allowed(self, group: Group) -> Tensor | None:
        """Keys at or before the query that are near enough."""
        if group.keys.length <= self.length:
            return super().allowed(group)
        before = group.query_positions()[:, :, None] - group.key_positions()[:, None, :]
        return (before >= 0) & (before < self.length)

    def is_causal(self, group: Group) -> bool:
        """Only where no text is longer than the window."""
        return group.keys.length <= self.length and super().is_causal(group)


@spec
class Window(MaskSpec):
    """Tokens at most `reach` positions away, on both sides: local attention."""

    paper: ClassVar[str] = "Beltagy et al. 2020"

    reach: int

    def allowed(self, group: Group) -> Tensor | None:
        """Keys within reach of the query; all of them where no text is longer than the reach."""
        if max(group.queries.length, group.keys.length) <= self.reach + 1:
            return None
        distance = group.key_positions()[:, None, :] - group.query_positions()[:, :, None]
        return distance.abs() <= self.reach


class Permutation(MaskSpec):
    """A query of rank a sees the keys of rank b < a: any order of prediction, in one pass.

    It belongs to a pass and not to a blueprint: ranks are values of the tokens of a batch, and two
    orders are the same only if they are the same object. A permutation, halves that may not see
    each other, tokens all may see (a low rank) and a memory before them (a lower one) are ranks.
    """

    paper: ClassVar[str] = "Yang et al. 2019"
    is_slot: ClassVar[bool] = True  # no recipe can write it

    def __init__(self, queries: Tensor, keys: Tensor, *, itself: bool) -> None:
        """Takes the ranks of all queries (N,) and keys (M,).

        With `itself` a query also sees the key at its own position, whatever the ranks.
        """
        self.queries = queries
        self.keys = keys
        self.itself = itself

    def allowed(self, group: Group) -> Tensor:
        """Keys of a lower rank, (B, Lq, Lk)."""
        queries, keys = group.queries.take_values(self.queries), group.keys.take_values(self.keys)
        lower = keys[:, None, :] < queries[:, :, None]
        if not self.itself:
            return lower
        return lower | (group.key_positions()[:, None, :] == group.query_positions()[:, :, None])
