"""Scores of pairs: how well texts answer a query, by a model that reads both at once.

A cross-encoder has a score for each pair. A model that was trained to compare two texts has one,
too: its number, or the probability of its last label, since by custom "1", "relevant" or
"entailment" comes after its opposite.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import Rerank

if TYPE_CHECKING:
    from clozeworks.language_model.task_methods import TaskMethods

# From a query and texts to a score for each text.
ScorePairs = Callable[[str, Sequence[str]], list[float]]


class PairScore(NamedTuple):
    """How well a text answers a query."""

    score: float
    """As the model folder says scores are made."""
    logit: float
    """What texts are ordered by: large logits have equal scores."""


def pair_scores(model: "TaskMethods") -> ScorePairs:
    """Scores pairs with a model that reads two texts together.

    Raises:
        UnsupportedError: If the model does not.
    """
    task = _task(model)

    def scores(query: str, texts: Sequence[str]) -> list[float]:
        return [each.score for each in scored_pairs(model, query, texts, task)]

    return scores


def scored_pairs(
    model: "TaskMethods",
    query: str,
    texts: Sequence[str],
    task: Compare | Rerank | None = None,
    **options: Any,
) -> list[PairScore]:
    """The score of each text; options are those of `predict`.

    Raises:
        UnsupportedError: If the model does not read two texts together.
    """
    task = task or _task(model)
    # Equal texts are read once: in two batches their scores might differ in the last digit.
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    found = model.predict([(query, text) for text in places], task, **options)
    if isinstance(task, Rerank):
        several = [PairScore(each.scores[0], each.logits[0]) for each in found]
    else:
        chances = [each.scores[task.labels[-1]] for each in found]
        several = [PairScore(each, each) for each in chances]
    return [several[places[text]] for text in texts]


def _task(model: "TaskMethods") -> Compare | Rerank:
    """What scores pairs: a choice between classes, or a number."""
    compare = None if model.task is None else model.task.suited_to(Compare)
    if isinstance(compare, Compare) and compare.problem != "number":
        return compare
    return model.task_for(Rerank)
