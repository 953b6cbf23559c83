"""Scores of pairs: how well texts answer a query, by a model that reads both at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clozeworks.tasks.compare import Compare

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel

# From a query and texts to a score for each text.
ScorePairs = Callable[[str, Sequence[str]], list[float]]


def pair_scores(model: "LanguageModel") -> ScorePairs:
    """Scores pairs with a model that compares two texts.

    The score is the number that the model gives a pair, or else the probability of its last label:
    by custom "1", "relevant" or "entailment" comes after its opposite.

    Raises:
        UnsupportedError: If the model compares no texts.
    """
    task = model.task_for(Compare)

    def scores(query: str, texts: Sequence[str]) -> list[float]:
        found = model.predict([(query, text) for text in texts], task)
        if task.problem == "number":
            return [float(each.label) for each in found]
        return [each.scores[task.labels[-1]] for each in found]

    return scores
