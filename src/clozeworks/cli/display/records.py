"""Answers as JSON can hold them: one object per item, with everything that is known about it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.answer import Answered
    from clozeworks.tasks.classify import Classified
    from clozeworks.tasks.tag import Tagged
    from clozeworks.tasks.text_to_text.task import Composed

Record = dict[str, Any]


def record_of(item: "Item", answer: Any, top: int | None = None) -> Record:
    """An item and what a model says of it.

    Args:
        item: The item. The context of a question is left out: many questions share a long one.
        answer: The answer.
        top: How many scores of labels, or candidates for an answer, are kept; all if not given.
    """
    from clozeworks.data.labelled.items import (
        ChatItem,
        PairItem,
        QuestionItem,
        SourceItem,
        WordsItem,
    )
    from clozeworks.reports.predictions import source_of
    from clozeworks.tasks.text_to_text.task import Composed

    place = {"place": item.place} if item.place else {}
    if isinstance(item, QuestionItem):
        asked = {"id": item.id} if item.id else {}
        return {**asked, "question": item.question, **_answered(answer, top), **place}
    if isinstance(item, WordsItem):
        return {"text": item.text, **_tagged(answer), **place}
    if isinstance(item, PairItem):
        texts = {"first": item.first, "second": item.second}
        return {**texts, **_classified(answer, top), **place}
    if isinstance(item, SourceItem | ChatItem):
        return {**source_of(item), **_written(answer), **place}
    if isinstance(answer, Composed):  # a text that a format wrote as a source
        return {"source": item.text, **_written(answer), **place}
    return {"text": item.text, **_classified(answer, top), **place}


def best_scores(scores: Mapping[str, float], top: int | None) -> dict[str, float]:
    """The labels with the highest scores, highest first."""
    return dict(sorted(scores.items(), key=lambda each: -each[1])[:top])


def _classified(answer: "Classified", top: int | None) -> Record:
    label = list(answer.label) if isinstance(answer.label, tuple) else answer.label
    found: Record = {"label": label}
    if answer.score is not None:  # a number has none
        found |= {"score": answer.score, "scores": best_scores(answer.scores, top)}
    return {**found, "windows": answer.windows}


def _written(answer: "Composed") -> Record:
    found: Record = {"text": answer.text, "score": answer.score, "ended": answer.ended}
    if answer.label != answer.text:
        found["label"] = answer.label
    return {**found, "cut": True} if answer.cut else found


def _tagged(answer: "Tagged") -> Record:
    return {
        "entities": [dict(vars(entity)) for entity in answer.entities],
        "words": list(answer.words),
        "spans": list(answer.spans),
        "tags": list(answer.tags),
        "scores": list(answer.scores),
        "windows": answer.windows,
    }


def _answered(answer: "Answered", top: int | None) -> Record:
    found: Record = {
        "answer": answer.text,
        "begin": answer.begin,
        "end": answer.end,
        "score": answer.score,
        "candidates": [dict(vars(each)) for each in answer.candidates[:top]],
    }
    if answer.lead is not None:
        found["lead"] = answer.lead
    return {**found, "windows": answer.windows}
