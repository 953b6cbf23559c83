"""Scores of all labels, as dialects ask for them: probabilities, or what the head computed.

Shapes: C labels.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clozeworks.checkpoints.tasks import AnyTask
from clozeworks.errors import InputError
from clozeworks.inference.predict import window_logits
from clozeworks.language_model import LanguageModel
from clozeworks.serve.models import ServedModel
from clozeworks.tasks.classify import Classify, softmax
from clozeworks.tasks.spans.windows import by_item

CLASSIFY = Classify.item_type.command
Transform = Literal["sigmoid", "softmax", "none"]


def label_scores(
    served: ServedModel,
    ability: str,
    rows: Sequence[Any],
    transform: Transform | None = None,
    *,
    may_cut: bool = False,
) -> list[dict[str, float]]:
    """The score of every label for every row, the highest first.

    Args:
        served: A model that can do it.
        ability: Whether rows are texts (`CLASSIFY`) or pairs (`COMPARE`).
        rows: Texts, or tuples of two texts.
        transform: What is done to the logits; what the model was trained for if not given.
        may_cut: Whether rows may be cut, where the model was trained to read a part of them.

    Raises:
        InputError: If a row was cut and may not be.
    """
    model, task = served.language_model(), served.tasks[ability]
    if transform is None:
        found = model.predict(list(rows), task)
        _refuse_cut([each.truncated for each in found], may_cut=may_cut)
        each_scores = [each.scores or {_labels(task)[0]: float(each.label)} for each in found]
    else:
        logits, cut = row_logits(model, task, rows)
        _refuse_cut(cut, may_cut=may_cut)
        changed = _TRANSFORMS[transform](logits)
        each_scores = [dict(zip(_labels(task), row, strict=True)) for row in changed.tolist()]
    return [dict(sorted(scores.items(), key=lambda each: -each[1])) for scores in each_scores]


def row_logits(
    model: LanguageModel, task: AnyTask, rows: Sequence[Any]
) -> tuple[NDArray[np.float64], list[bool]]:
    """The logit of each label for each row, (rows, C), and which rows were cut.

    Of a row that is read through several windows it is the mean.
    """
    items = [task.as_asked(task.from_input(each)) for each in task.items_from(list(rows))]
    windows = task.windows_of(items, model.tokenizer, model.max_length)
    logits = iter(window_logits(task, model.model, windows))
    several = by_item(windows)
    means = [
        np.stack([next(logits) for _ in own]).astype(np.float64).mean(axis=0) for own in several
    ]
    return np.stack(means), [any(window.dropped for window in own) for own in several]


def _refuse_cut(cut: Sequence[bool], *, may_cut: bool) -> None:
    if any(cut) and not may_cut:
        raise InputError(
            f"text {list(cut).index(True) + 1:,} is longer than the model was trained to read; "
            "shorten it, or allow it to be cut with truncate = true."
        )


def _labels(task: AnyTask) -> tuple[str, ...]:
    labels: tuple[str, ...] = task.head_labels or ()
    return labels


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    chances: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits, -700, None)))
    return chances


_TRANSFORMS = {"none": lambda logits: logits, "softmax": softmax, "sigmoid": _sigmoid}
