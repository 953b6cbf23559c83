"""Next-sentence prediction: does the second text follow the first?

Paper: Devlin et al. 2019 (BERT).
Data: documents of sentences, as pairs: half of the second texts (a little more, see the
arrangement) come from another document.
Hides and asks: hides nothing; asks each pair for its label, 0 if the second text follows, 1 if it
is random.
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

from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.pairs import NextSentencePairs
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import spec

HEAD = "next_sentence"


@spec
class NextSentence(Objective):
    """Asks whether the second text follows the first."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    examples: ExamplesSpec | None = NextSentencePairs(length=128)
    """Pairs with labels; None means whatever others need."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Asks for the labels."""
        ask_for_labels(builder, self.name)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The head, and the pooler it reads."""
        return frozenset({"pooler", HEAD})

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """Two scores for each pair."""
        head = model.head(HEAD)
        x = head.read(hidden_states, tensors.layout)
        return {self.name: head.loss(x, tensors.targets[self.name][ANSWERS])}


def ask_for_labels(builder: BatchBuilder, name: str) -> None:
    """Asks each example for the label its arrangement gave it.

    Raises:
        SettingError: If the arrangement gives no labels.
    """
    if builder.clean.labels is None:
        raise SettingError(
            f"examples of {name}",
            Stated("one that gives no labels"),
            "it must pair texts",
            "use one of: next_sentence_pairs, sentence_order_pairs",
        )
    builder.targets[name] = {ANSWERS: builder.clean.labels}
