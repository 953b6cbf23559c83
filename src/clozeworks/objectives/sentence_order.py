"""Sentence-order prediction: do the two texts stand in their order?

Paper: Lan et al. 2020 (ALBERT).
Data: documents of sentences, as pairs of neighbouring stretches, half of them swapped.
Masks and predicts: masks nothing; predicts the label of each pair, 0 in order, 1 swapped.
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

from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.pairs import SentenceOrderPairs
from clozeworks.objectives.next_sentence import PairLabels
from clozeworks.spec import spec

HEAD = "sentence_order"


@spec
class SentenceOrder(PairLabels):
    """Predicts which of two texts comes first."""

    paper: ClassVar[str] = "Lan et al. 2020"

    examples: ExamplesSpec | None = SentenceOrderPairs(length=512)
    """Pairs with labels; None means whatever others need."""

    def head_name(self, available: Collection[str]) -> str:
        """The head of its own, or that of next-sentence prediction."""
        return HEAD if HEAD in available else super().head_name(available)
