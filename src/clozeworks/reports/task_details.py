"""What there is to show of predictions: tables and charts by task, as plain data.

Shapes: n items, C labels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from clozeworks.data.labelled.oddities import texts_of
from clozeworks.reports.render import shorten
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.details import (
    CalibrationCurve,
    ConfusionMatrix,
    Detail,
    DetailTable,
    DetailText,
    ScatterPlot,
)
from clozeworks.tasks.known_labels import KnownLabels, known_labels
from clozeworks.tasks.labels import number_of
from clozeworks.tasks.metrics.calibration import calibration_bins
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.wording import counted

MOST_ROWS = 200
# Written texts that are shown.
_SHOWN = 10


def details(
    task: Any, items: Sequence[Any], answers: Sequence[Any], measured: Measured
) -> list[Detail]:
    """Tables and charts of a task.

    Args:
        task: The task.
        items: The dev set.
        answers: What the best model says of it.
        measured: How good that is.
    """
    if isinstance(task, Tag):
        known = known_labels(task, items, answers)
        return [*_square(known), *_labels(known)]
    if isinstance(task, Answer):
        return _answered(task, items, answers, measured)
    if isinstance(task, TextToText):
        return _written(items, answers, measured)
    assert isinstance(task, Classify)
    pairs = list(zip(items, answers, strict=True))
    if task.problem == "number":
        gold = tuple(number_of(item.label, item.place) for item in items)
        said = tuple(number_of(answer.label, "the answer") for answer in answers)
        return [ScatterPlot(gold, said)]
    known = known_labels(task, items, answers)
    if task.problem == "several":
        return _labels(known)
    right = [task.labels[int(task.right(item))] == answer.label for item, answer in pairs]
    sure = np.array([answer.score for _, answer in pairs], np.float64)
    bins = calibration_bins(np.array(right), sure)
    rows = [
        (
            f"{each.low:.2f} to {each.high:.2f}",
            f"{each.count:,}",
            f"{each.confidence:.1%}",
            f"{each.accuracy:.1%}",
        )
        for each in bins
        if each.count
    ]
    columns = ("confidence", "predictions", "mean confidence", "accuracy")
    return [
        *_square(known),
        CalibrationCurve(bins),
        *_labels(known),
        DetailTable(columns, tuple(rows)),
    ]


def _answered(
    task: Answer, items: Sequence[Any], answers: Sequence[Any], measured: Measured
) -> list[Detail]:
    values = measured.values
    groups = [
        ("answerable", sum(bool(item.answers) for item in items), "answerable_"),
        ("impossible", sum(not item.answers for item in items), "impossible_"),
    ]
    rows = [
        (name, f"{count:,}", f"{values[f'{key}exact_match']:.3f}", f"{values[f'{key}f1']:.3f}")
        for name, count, key in groups
        if f"{key}f1" in values
    ]
    if not rows:
        return []
    silent = sum(not answer.text for answer in answers)
    said = (
        f"The model gives no answer where “no answer” leads by more than {task.threshold:g} "
        f"points; this was so for {silent:,} of {counted(len(answers), 'question')}."
    )
    if values.get("best_f1", 0.0) > measured.value:
        said += (
            f" On this dev set a threshold of {values['best_f1_threshold']:.4g} would be best: F1 "
            f"{values['best_f1']:.3f}; that value is optimistic, because the threshold was chosen "
            "on the same items."
        )
    columns = ("questions", "count", "exact match", "F1")
    return [DetailTable(columns, tuple(rows)), DetailText(said)]


def _written(items: Sequence[Any], answers: Sequence[Any], measured: Measured) -> list[Detail]:
    """What decides in each of several tasks, and some texts beside their targets."""
    parts: list[Detail] = []
    tasks = [item.task for item in items]
    if len(set(tasks)) > 1:
        values = [name.rpartition(" ") for name in measured.values if " " in name]
        rows = [
            (task, name, f"{measured.values[f'{task} {name}']:.3f}", f"{tasks.count(task):,}")
            for task, _, name in values
        ]
        parts.append(DetailTable(("task", "metric", "value", "items"), tuple(rows)))
    chosen = np.linspace(0, len(items) - 1, min(_SHOWN, len(items))).astype(int).tolist()
    shown = [
        (
            shorten(texts_of(items[place])[0]),
            shorten(items[place].target or ""),
            shorten(answers[place].text),
        )
        for place in chosen
    ]
    return [*parts, DetailTable(("source", "target", "predicted"), tuple(shown), numbers=False)]


def _square(known: KnownLabels) -> list[Detail]:
    if not known.confusion:
        return []
    return [ConfusionMatrix(tuple(each.label for each in known.labels), known.confusion)]


def _labels(known: KnownLabels) -> list[Detail]:
    scores = known.labels
    rows = [
        (
            each.label,
            f"{each.precision:.3f}",
            f"{each.recall:.3f}",
            f"{each.f1:.3f}",
            f"{each.support:,}",
        )
        for each in scores[:MOST_ROWS]
    ]
    more = len(scores) - MOST_ROWS
    columns = (known.what, "precision", "recall", "F1", "count")
    rest = [DetailText(f"And {more:,} more.")] if more > 0 else []
    return [DetailTable(columns, tuple(rows)), *rest]
