"""What the logits of query-document pairs cost: one file per published loss.

A loss sees the logits of pairs and what is known of each (`StepPairs`), in float32. If it compares
the documents of a query (`over_lists`), it sees all pairs of a step; else each pair costs by itself
and any part of a step may be computed alone.

| the rows hold | the usual loss |
|---|---|
| pairs with 0 or 1; pairs with hard negatives | `BinaryCrossEntropy` |
| pairs with a number or a teacher's score | `LogitMSE` |
| pairs with hard negatives and a teacher's scores | `LogitMarginMSE` |
| lists of documents with a label each | `LambdaLoss` |

Shapes: B pairs, Q lists, D documents of the longest list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.spec import Slot
from clozeworks.tasks.labels.activation import CrossEncoderActivation


@dataclass(frozen=True)
class StepPairs:
    """What is known of query-document pairs; the documents of a list follow each other."""

    places: Tensor
    """The number of the document in its list, (B,); 0 begins a list."""
    labels: Tensor
    """What is right for the pair, (B,)."""

    @classmethod
    def of(cls, known: Tensor) -> "StepPairs":
        """From place and label of each pair, (B, 2)."""
        places, labels = known.unbind(1)
        return cls(places.long(), labels.float())

    @property
    def lists(self) -> Tensor:
        """The list of each pair, (B,)."""
        return (self.places == 0).cumsum(0) - 1

    def table(self, values: Tensor, fill: float) -> Tensor:
        """A row for each list, (B,) to (Q, D); `fill` stands after the end of shorter ones."""
        lists = self.lists
        sizes = (int(lists.max()) + 1, int(self.places.max()) + 1) if len(lists) else (0, 0)
        return values.new_full(sizes, fill).index_put((lists, self.places), values)


class RerankLoss(Slot):
    """Slot: what the logits of query-document pairs cost."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.tasks.rerank.losses"
    takes: ClassVar[frozenset[str]] = frozenset()
    """The kinds of rows it can learn from."""
    over_lists: ClassVar[bool] = False
    """Whether it compares the documents of a query with each other."""
    activation: ClassVar[CrossEncoderActivation] = "identity"
    """What makes a score of a logit that was trained so."""

    def cost(self, logits: Tensor, pairs: StepPairs) -> LossTerm:
        """What logits cost, (B,) in float32."""
        raise NotImplementedError

    def settled(self, labels: Sequence[float]) -> "RerankLoss":
        """The same with what follows from the labels of all pairs to learn from.

        Raises:
            SettingError: If it cannot learn from them.
        """
        return self

    def in_words(self) -> str:
        """What was settled, in a clause; empty if there is nothing to say."""
        return ""


def summed(costs: Tensor) -> LossTerm:
    """The cost of every target, added up; nothing is right or wrong."""
    return LossTerm(costs.sum(), len(costs))
