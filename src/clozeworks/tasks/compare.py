"""Two texts: entailment, paraphrase, similarity.

Paper: Devlin et al. 2019 (`[CLS] A [SEP] B [SEP]`, a projection of the pooled first token).
Data: pairs of texts, each with a label, a set of labels, or a number.
Hides and asks: hides nothing; asks each pair for its label.
Loss: as `Classify`.
Relations: `Classify` for one text. If the two do not fit, the longer one is read through windows
and the shorter one stands in each of them. To compare very many texts with each other, vectors
(`embed`) are cheaper.
Example: `Compare(labels=("entailment", "neutral", "contradiction"))`, for similarity
`{kind = "compare", labels = ["similarity"], problem = "number"}`.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from clozeworks.data.labelled.items import ItemLocations
from clozeworks.spec import spec
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.spans.windows import TokenWindow, read_windows
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class Compare(Classify):
    """Says how two texts are related."""

    def windows_of(
        self, items: Sequence[Any], tokenizer: Tokenizer, most: int | None
    ) -> list[TokenWindow]:
        """The tokens of pairs."""
        return read_windows(
            tokenizer,
            [item.first for item in items],
            [item.second for item in items],
            windows=self.windows,
            most=most,
            moves="longer",
            places=ItemLocations(items, "pair"),
        )


def as_compare(task: Classify) -> Compare:
    """The same task for two texts; a published folder cannot say for how many it is."""
    if isinstance(task, Compare):
        return task
    return Compare(**{each.name: getattr(task, each.name) for each in fields(task)})
