"""Sentence-order prediction: do the two texts stand in their order?

Paper: Lan et al. 2020 (ALBERT).
Data: documents of sentences, as pairs of neighbouring stretches, half of them swapped.
Hides and asks: hides nothing; asks each pair for its label, 0 in order, 1 swapped.
Loss: -log p(label) from the pooler's vector of the first token, summed over pairs.
Relations: harder than `NextSentence`, which topic alone can answer: the paper reports 86.5 % here
and 78.9 % on next sentences for a model trained on order, and 52.0 % here for one trained on next
sentences. Prefer it wherever pairs of texts matter; add it to `MaskedLM`. It uses the head
`sentence_order` if the model has one (ALBERT), else `next_sentence`, which has the same shape.
Example: `Sum(parts=(MaskedLM.albert(), SentenceOrder()))` is ALBERT.

Shapes: B pairs.
"""

from collections.abc import Collection
from typing import ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.pairs import SentenceOrderPairs
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.next_sentence import HEAD as SECOND_CHOICE
from clozeworks.objectives.next_sentence import ask_for_labels
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import spec

HEAD = "sentence_order"


@spec
class SentenceOrder(Objective):
    """Asks which of two texts comes first."""

    paper: ClassVar[str] = "Lan et al. 2020"

    examples: ExamplesSpec | None = SentenceOrderPairs(length=512)
    """Pairs with labels; None means whatever others need."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Asks for the labels."""
        ask_for_labels(builder, self.name)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """One of the heads, and the pooler it reads."""
        return frozenset({"pooler", _head(available)})

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """Two scores for each pair."""
        head = model.head(_head(model.blueprint.heads))
        x = head.read(hidden_states, tensors.layout)
        return {self.name: head.loss(x, tensors.targets[self.name][ANSWERS])}


def _head(available: Collection[str]) -> str:
    return HEAD if HEAD in available else SECOND_CHOICE
