"""How well each label, tag or type of entity is known: what an evaluation shows beside its values.

Shapes: n items or words, C labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.tasks.classify import Classify
from clozeworks.tasks.metrics.labels import LabelScores, confusion, per_label
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.entities import entities_of, entity_counts, scores_by_type


@dataclass(frozen=True)
class KnownLabels:
    """Scores of each label.

    Attributes:
        what: What a label is called: label, tag or type.
        labels: Precision, recall and F1 of each; none for numbers and answers.
        confusion: How often each label was taken for each other one, (right, given); empty where it
            makes no sense.
    """

    what: str = "label"
    labels: tuple[LabelScores, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()


def known_labels(task: Any, items: Sequence[Any], answers: Sequence[Any]) -> KnownLabels:
    """How well each label of a task is known.

    Args:
        task: The task.
        items: Labelled items.
        answers: What the model said.
    """
    if isinstance(task, Tag):
        return _tagged(task, items, answers)
    if not isinstance(task, Classify) or task.problem == "number":
        return KnownLabels()
    right = np.array([task.right(item) for item in items])
    if task.problem == "several":
        given = np.array([[label in answer.label for label in task.labels] for answer in answers])
        return KnownLabels(labels=per_label(right > 0.5, given, task.labels))
    said = np.array([task.labels.index(str(answer.label)) for answer in answers])
    return _numbered(right, said, task.labels, "label")


def _numbered(
    right: NDArray[Any], said: NDArray[Any], labels: Sequence[str], what: str
) -> KnownLabels:
    table = confusion(right, said, labels).tolist()
    return KnownLabels(what, per_label(right, said, labels), tuple(map(tuple, table)))


def _tagged(task: Tag, items: Sequence[Any], answers: Sequence[Any]) -> KnownLabels:
    both = [item.tags for item in items], [answer.tags for answer in answers]
    if not task.rules.begins:
        number = {label: place for place, label in enumerate(task.labels)}
        right, said = (np.array([number[tag] for tags in each for tag in tags]) for each in both)
        return _numbered(right, said, task.labels, "tag")
    gold, found = (
        [entities_of(tags, task.rules, spelling=task.spelling) for tags in each] for each in both
    )
    scores = scores_by_type(entity_counts(gold, found)).items()
    return KnownLabels(
        "type",
        tuple(
            LabelScores(k, each.precision, each.recall, each.f1, each.gold) for k, each in scores
        ),
    )
