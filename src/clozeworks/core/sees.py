"""Who sees whom inside attention.

The idea: what a query may look at is a rule about positions, computed per group of rows when it is
needed; no L x L tensor is ever shipped by data code. The rules have no weights, so the spec is the
rule itself.

Shapes: B texts of a group, Lq queries, Lk keys.
"""

from typing import ClassVar

from torch import Tensor

from clozeworks.core.layout import Group
from clozeworks.core.spec import Slot, spec


class SeesSpec(Slot):
    """Slot: which keys a query may look at."""

    is_slot: ClassVar[bool] = True

    def allowed(self, group: Group) -> Tensor | None:
        """True where a query sees a key, (B or 1, Lq, Lk); None when it sees all."""
        raise NotImplementedError


@spec
class Everything(SeesSpec):
    """Every token of the same text: BERT and all encoders."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    def allowed(self, group: Group) -> Tensor | None:
        """No restriction."""
        return None


@spec
class Past(SeesSpec):
    """The token itself and those before it: GPT, LLaMA and every decoder."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    def allowed(self, group: Group) -> Tensor | None:
        """Keys at or before the query."""
        return group.key_positions()[:, None, :] <= group.query_positions()[:, :, None]


@spec
class Window(SeesSpec):
    """Tokens at most `reach` places away, on both sides: local attention."""

    paper: ClassVar[str] = "Beltagy et al. 2020"

    reach: int

    def allowed(self, group: Group) -> Tensor | None:
        """Keys within reach of the query; all of them where no text is longer than the reach."""
        if max(group.queries.length, group.keys.length) <= self.reach + 1:
            return None
        distance = group.key_positions()[:, None, :] - group.query_positions()[:, :, None]
        return distance.abs() <= self.reach
