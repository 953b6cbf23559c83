"""`predictions.jsonl`: each item of the dev set, what is right for it, and what the model says."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clozeworks.data.labelled.items import (
    ChatItem,
    Item,
    PairItem,
    QuestionItem,
    SourceItem,
    WordsItem,
)
from clozeworks.storage.atomic import atomic_file
from clozeworks.tasks.answer import Answered
from clozeworks.tasks.classify import Classified
from clozeworks.tasks.tag import Tagged
from clozeworks.tasks.text_to_text.task import Composed

FILE = "predictions.jsonl"
# Candidates for an answer that are kept of each.
_CANDIDATES = 5


def write_predictions(path: Path, items: Sequence[Item], answers: Sequence[Any]) -> None:
    """Writes a line for each item: `item`, `gold` and `answer`.

    Raises:
        OutputError: The file cannot be written.
    """
    with atomic_file(path, "w") as file:
        for item, answer in zip(items, answers, strict=True):
            line = {"item": _asked(item), "gold": gold_of(item), "answer": _said(answer)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _asked(item: Item) -> Mapping[str, Any]:
    place = {"place": item.place} if item.place else {}
    if isinstance(item, QuestionItem):
        known = {"id": item.id} if item.id else {}
        return {**place, **known, "question": item.question, "context": item.context}
    if isinstance(item, WordsItem):
        return {**place, "text": item.text, "words": list(item.words)}
    if isinstance(item, PairItem):
        return {**place, "first": item.first, "second": item.second}
    if isinstance(item, SourceItem | ChatItem):
        return {**place, **source_of(item)}
    return {**place, "text": item.text}


def source_of(item: SourceItem | ChatItem) -> dict[str, Any]:
    """What a model that writes is asked, as JSON can hold it."""
    task = {"task": item.task} if item.task else {}
    if isinstance(item, ChatItem):
        return {**task, "messages": [{"role": t.role, "content": t.text} for t in item.asked]}
    return {**task, "source": item.source}


def gold_of(item: Item) -> Any:
    """What is right for an item, as JSON can hold it."""
    if isinstance(item, QuestionItem):
        return [{"text": each.text, "begin": each.begin} for each in item.answers]
    if isinstance(item, WordsItem):
        return list(item.tags or ())
    if isinstance(item, SourceItem | ChatItem):
        return item.target
    return list(item.label) if isinstance(item.label, tuple) else item.label


def _said(answer: Any) -> Mapping[str, Any]:
    if isinstance(answer, Tagged):
        return {
            "tags": answer.tags,
            "scores": answer.scores,
            "entities": [vars(entity) for entity in answer.entities],
            "windows": answer.windows,
        }
    if isinstance(answer, Answered):
        candidates = [vars(each) for each in answer.candidates[:_CANDIDATES]]
        return {**vars(answer), "candidates": candidates}
    assert isinstance(answer, Classified | Composed)
    return vars(answer)
