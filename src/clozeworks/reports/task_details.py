"""What a report shows of the answers: tables and charts by task, and mistakes in context.

Shapes: n items, C labels.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from clozeworks.data.labelled.oddities import texts_of
from clozeworks.reports.finetune_charts import (
    MOST_CELLS,
    calibration_chart,
    confusion_chart,
    scatter_chart,
)
from clozeworks.reports.mistakes import Mistake, Mistakes, mistakes
from clozeworks.reports.page import paragraph, table
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.known_labels import KnownLabels, known_labels
from clozeworks.tasks.labels import number_of
from clozeworks.tasks.metrics.calibration import calibration_bins
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.wording import counted

MOST_ROWS = 200
_LONGEST = 160
# Written texts that are shown.
_SHOWN = 10


def details(task: Any, items: Sequence[Any], answers: Sequence[Any], measured: Measured) -> str:
    """Tables and charts of a task.

    Args:
        task: The task.
        items: The dev set.
        answers: What the best model says of it.
        measured: How good that is.
    """
    if isinstance(task, Tag):
        known = known_labels(task, items, answers)
        return _charts(*_square(known)) + _labels(known)
    if isinstance(task, Answer):
        return _answered(task, items, answers, measured)
    if isinstance(task, TextToText):
        return _written(items, answers, measured)
    assert isinstance(task, Classify)
    pairs = list(zip(items, answers, strict=True))
    if task.problem == "number":
        gold = [number_of(item.label, item.place) for item in items]
        said = [number_of(answer.label, "the answer") for answer in answers]
        return _charts(scatter_chart(gold, said))
    known = known_labels(task, items, answers)
    if task.problem == "several":
        return _labels(known)
    right = [task.labels[int(task.right(item))] == answer.label for item, answer in pairs]
    sure = np.array([answer.score for _, answer in pairs], np.float64)
    bins = calibration_bins(np.array(right), sure)
    rows = [
        [
            f"{each.low:.2f} to {each.high:.2f}",
            f"{each.count:,}",
            f"{each.confidence:.1%}",
            f"{each.accuracy:.1%}",
        ]
        for each in bins
        if each.count
    ]
    return "".join(
        (
            _charts(*_square(known), calibration_chart(bins)),
            _labels(known),
            table(["how sure", "answers", "mean", "right"], rows, "numbers"),
        )
    )


def _answered(
    task: Answer, items: Sequence[Any], answers: Sequence[Any], measured: Measured
) -> str:
    values = measured.values
    groups = [
        ("answerable", sum(bool(item.answers) for item in items), "answerable_"),
        ("impossible", sum(not item.answers for item in items), "impossible_"),
    ]
    rows = [
        [name, f"{count:,}", f"{values[f'{key}exact_match']:.3f}", f"{values[f'{key}f1']:.3f}"]
        for name, count, key in groups
        if f"{key}f1" in values
    ]
    if not rows:
        return ""
    silent = sum(not answer.text for answer in answers)
    said = (
        f"No answer is given where “no answer” is ahead by more than {task.threshold:g} points; it "
        f"was given to {silent:,} of {counted(len(answers), 'question')}."
    )
    if values.get("best_f1", 0.0) > measured.value:
        said += (
            f" On this dev set a threshold of {values['best_f1_threshold']:.4g} would be best: F1 "
            f"{values['best_f1']:.3f}. Chosen here, it would flatter here."
        )
    return table(["questions", "count", "exact match", "F1"], rows, "numbers") + paragraph(said)


def _written(items: Sequence[Any], answers: Sequence[Any], measured: Measured) -> str:
    """What decides in each of several tasks, and some texts beside their targets."""
    parts = []
    tasks = [item.task for item in items]
    if len(set(tasks)) > 1:
        values = [name.rpartition(" ") for name in measured.values if " " in name]
        rows = [
            [task, name, f"{measured.values[f'{task} {name}']:.3f}", f"{tasks.count(task):,}"]
            for task, _, name in values
        ]
        parts.append(table(["task", "", "value", "items"], rows, "numbers"))
    chosen = np.linspace(0, len(items) - 1, min(_SHOWN, len(items))).astype(int).tolist()
    rows = [
        [
            _short(texts_of(items[place])[0]),
            _short(items[place].target or ""),
            _short(answers[place].text),
        ]
        for place in chosen
    ]
    return "".join([*parts, table(["source", "target", "written"], rows, "examples")])


def _square(known: KnownLabels) -> list[str]:
    if not 0 < len(known.confusion) <= MOST_CELLS:
        return []
    return [confusion_chart([each.label for each in known.labels], known.confusion)]


def _charts(*drawn: str) -> str:
    return f'<div class="charts">{"".join(drawn)}</div>' if drawn else ""


def _labels(known: KnownLabels) -> str:
    scores = known.labels
    rows = [
        [
            each.label,
            f"{each.precision:.3f}",
            f"{each.recall:.3f}",
            f"{each.f1:.3f}",
            f"{each.support:,}",
        ]
        for each in scores[:MOST_ROWS]
    ]
    more = len(scores) - MOST_ROWS
    rest = paragraph(f"And {more:,} more.", "quiet") if more > 0 else ""
    return table([known.what, "precision", "recall", "F1", "count"], rows, "numbers") + rest


def mistakes_section(task: Any, items: Sequence[Any], answers: Sequence[Any]) -> str:
    """How many mistakes of each kind there are, and the worst of them in context."""
    found = mistakes(task, items, answers)
    if not found.total:
        return paragraph("Every item of the dev set is right.")
    is_number = isinstance(task, Classify) and task.problem == "number"
    parts = [_kinds(found), paragraph(_order(found, is_number), "quiet")]
    if isinstance(task, Answer) or (isinstance(task, Tag) and task.rules.begins):
        parts.append(
            '<p class="quiet"><mark class="gold">right</mark> '
            '<mark class="said">said by the model</mark> '
            '<mark class="gold said">both</mark></p>'
        )
    parts += [
        '<ol class="mistakes">',
        *(_mistake(each, is_number) for each in found.worst),
        "</ol>",
    ]
    return "".join(parts)


def _kinds(found: Mistakes) -> str:
    rows = [[kind, f"{count:,}"] for kind, count in list(found.kinds.items())[:20]]
    return table(["kind", "how many"], rows, "numbers")


def _order(found: Mistakes, is_number: bool) -> str:
    what = "the largest errors" if is_number else "those the model was surest of"
    if len(found.worst) == found.total:
        return f"All {found.total:,}, {'largest' if is_number else 'surest'} first."
    return f"Shown are {len(found.worst):,} of {found.total:,}: {what}, kinds taking turns."


def _mistake(each: Mistake, is_number: bool) -> str:
    weight = f"off by {each.weight:.4g}" if is_number else f"{each.weight:.1%} sure"
    texts = "".join(f"<blockquote>{text.html()}</blockquote>" for text in each.texts)
    return (
        f'<li><p class="verdict">right: <b class="gold">{escape(_short(each.gold))}</b>, '
        f'said: <b class="said">{escape(_short(each.said))}</b></p>'
        f'<p class="quiet">{escape(each.kind)}, {weight}; {escape(each.place)}</p>{texts}</li>'
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
