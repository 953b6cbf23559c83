"""Next-sentence prediction: does the second text follow the first?

Paper: Devlin et al. 2019 (BERT).
Data: documents of sentences, as pairs: half of the second texts (a little more, see
`NextSentencePairs`) come from another document.
Masks and predicts: masks nothing; predicts the label of each pair, 0 if the second text follows, 1
if it is random.
Loss: -log p(label) from the pooler's vector of the first token, summed over pairs.
Relations: alone it trains nothing useful; add it to `MaskedLM`. The random texts can be told by
topic alone: Lan et al. 2020 report that a model trained this way is at chance on order (52.0 %), so
prefer `SentenceOrder` for text that must cohere; Liu et al. 2019 leave both out and lose nothing.
It is what trains BERT's pooler.
Example: `Sum(parts=(MaskedLM.bert(), NextSentence()))` is BERT.

Shapes: B pairs.
"""

from collections.abc import Collection
from typing import ClassVar

from torch import Tensor

from clozeworks.core.loss import LossTerms
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.pairs import NextSentencePairs
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import spec

HEAD = "next_sentence"


class PairLabels(Objective):
    """Slot: predicts the label of each pair of texts, from the pooler's vector."""

    is_slot: ClassVar[bool] = True

    def head_name(self, available: Collection[str]) -> str:
        """The head that predicts the label."""
        return HEAD

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """The targets are the labels of the examples.

        Raises:
            SettingError: If the examples have no labels.
        """
        if builder.clean.labels is None:
            raise SettingError(
                f"examples of {self.name}",
                Stated("of a kind without labels"),
                "it must pair texts",
                "use one of: next_sentence_pairs, sentence_order_pairs",
            )
        builder.targets[self.name] = {ANSWERS: builder.clean.labels}

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The head, and the pooler it reads."""
        return frozenset({"pooler", self.head_name(available)})

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The cross-entropy of two logits for each pair."""
        head = model.head(self.head_name(model.blueprint.heads))
        x = head.read(hidden_states, tensors.layout)
        return {self.name: head.loss(x, tensors.targets[self.name][ANSWERS])}


@spec
class NextSentence(PairLabels):
    """Predicts whether the second text follows the first."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    examples: ExamplesSpec | None = NextSentencePairs(length=128)
    """Pairs with labels; None means whatever others need."""
