"""Questions about a context: the layout of SQuAD 1.1 and 2.0 (also CMRC and DRCD), and flat rows.

An answer that does not stand where the file says is moved, if its text stands in the context
exactly once; otherwise nobody knows which place was meant, and the row is bad.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.tables import Table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column
from clozeworks.data.labelled.items import AnswerSpan, QuestionItem

_SHORT = 40


def is_squad(value: object) -> bool:
    """Whether a JSON document has the layout of SQuAD."""
    articles = value.get("data") if isinstance(value, dict) else value
    first = articles[0] if isinstance(articles, list) and articles else None
    return isinstance(first, dict) and isinstance(first.get("paragraphs"), list)


def read_squad(value: Any, origin: str, bad: BadRows) -> list[QuestionItem]:
    """Reads articles of paragraphs of questions.

    Args:
        value: The JSON document.
        origin: The file, for messages.
        bad: Told about questions that cannot be used.
    """
    items = []
    for place, _, paragraph, question in squad_questions(value, origin):
        if not isinstance(question, dict):
            bad.add(place, f"this is {json_type(question)}; it must be an object; fix it")
            continue
        item = _item(
            question.get("question"),
            paragraph.get("context"),
            question.get("answers"),
            None,
            question.get("is_impossible"),
            str(question.get("id", "")),
            place,
            bad,
        )
        if item is not None:
            items.append(item)
    return items


def squad_questions(value: Any, origin: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Walks over a document with the layout of SQuAD.

    Args:
        value: The JSON document.
        origin: The file, for messages.

    Yields:
        The place, the article, the paragraph and each question; None for a question where the
        layout is another one.
    """
    number = 0
    for article in value["data"] if isinstance(value, dict) else value:
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        for paragraph in paragraphs if isinstance(paragraphs, list) else [None]:
            asked = paragraph.get("qas") if isinstance(paragraph, dict) else None
            for question in asked if isinstance(asked, list) else [None]:
                number += 1
                name = str(question.get("id", "")) if isinstance(question, dict) else ""
                place = f"{origin}, question {number:,}" + (f" (id {name})" if name else "")
                yield place, article, paragraph, question


def question_rows(table: Table, columns: Sequence[Column], bad: BadRows) -> list[QuestionItem]:
    """Makes items of rows that hold a question and its context each."""
    place = {column.role: column.number - 1 for column in columns}
    items = []
    for number, cells in table.rows:
        cell = {role: cells[at] for role, at in place.items()}
        impossible = cell.get("impossible")
        if isinstance(impossible, str):
            impossible = impossible.strip().lower() in ("1", "true", "yes")
        item = _item(
            cell.get("question"),
            cell.get("context"),
            cell.get("answers"),
            cell.get("start"),
            impossible,
            "" if cell.get("id") is None else str(cell["id"]),
            table.place(number),
            bad,
        )
        if item is not None:
            items.append(item)
    return items


def _item(
    question: object,
    context: object,
    answers: object,
    start: object,
    impossible: object,
    name: str,
    place: str,
    bad: BadRows,
) -> QuestionItem | None:
    for what, text in (("question", question), ("context", context)):
        if wrong := wrong_text(text, what):
            bad.add(place, wrong)
            return None
    assert isinstance(question, str) and isinstance(context, str)
    try:
        stated = _answers(answers, start)
        if stated and impossible:
            raise ValueError(
                "the question is marked as impossible and has an answer; take one of them out"
            )
        spans = tuple(_span(context, text, begin, place, bad) for text, begin in stated or ())
    except ValueError as error:
        bad.add(place, str(error))
        return None
    # Several people often gave the same answer.
    unique = tuple(dict.fromkeys(spans))
    none = bool(impossible) or (stated is not None and not stated)
    return QuestionItem(question, context, unique, none, name, place)


def wrong_text(text: object, what: str) -> str:
    """Says why a text cannot be used; empty if it can."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return f"the {what} is empty; give it one"
    if not isinstance(text, str):
        return f"the {what} is {json_type(text)}; it must be a string; correct it"
    if surrogate := lone_surrogate(text):
        return (
            f"the {what} holds the lone surrogate {surrogate}, half a character; write the whole "
            "character"
        )
    return ""


def _answers(answers: object, start: object) -> list[tuple[str, int | None]] | None:
    """Texts and places as the file states them; None if it does not state any."""
    if answers is None:
        return None
    if isinstance(answers, str):
        if not answers:
            return []
        return [(answers, _place(start))]
    if isinstance(answers, dict):  # lists side by side, as columnar formats have them
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, str):
            return [(texts, _place(starts))]
        if not isinstance(texts, list) or (starts is not None and len(starts) != len(texts)):
            raise ValueError("the answers have no list of texts and of as many places; fix them")
        return [
            (_text(text), _place(begin))
            for text, begin in zip(texts, starts or [None] * len(texts), strict=True)
        ]
    if not isinstance(answers, list):
        raise ValueError(f"the answers are {json_type(answers)}; write a list of answers")
    stated: list[tuple[str, int | None]] = []
    for answer in answers:
        if isinstance(answer, dict):
            stated.append((_text(answer.get("text")), _place(answer.get("answer_start"))))
        else:
            stated.append((_text(answer), _place(start if len(answers) == 1 else None)))
    return stated


def _text(answer: object) -> str:
    if not isinstance(answer, str):
        raise ValueError(f"an answer is {json_type(answer)}; it must be a string; correct it")
    return answer


def _place(start: object) -> int | None:
    if start is None or start == "":
        return None
    if isinstance(start, list) and len(start) == 1:
        return _place(start[0])
    if isinstance(start, bool) or not isinstance(start, int | str) or not _is_whole(str(start)):
        raise ValueError(f"the place of an answer is {start!r}; it must be a whole number; fix it")
    return int(start)


def _is_whole(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()


def _span(context: str, answer: str, begin: int | None, place: str, bad: BadRows) -> AnswerSpan:
    shown = repr(answer if len(answer) <= _SHORT else answer[:_SHORT] + "…")
    if not answer.strip():
        raise ValueError("an answer is empty; write it, or leave it out")
    if begin is not None and begin >= 0 and context.startswith(answer, begin):
        return AnswerSpan(answer, begin)
    first = context.find(answer)
    if first >= 0 and context.find(answer, first + 1) < 0:
        if begin is not None:
            bad.repair(
                place, f"the answer {shown} stood at {first:,}, not at {begin:,}; it was moved"
            )
        return AnswerSpan(answer, first)
    if first < 0:
        raise ValueError(f"the answer {shown} does not stand in the context; copy it from there")
    said = "there is no place for it" if begin is None else f"not at {begin:,}"
    raise ValueError(
        f"the answer {shown} stands in the context more than once, and {said}; correct answer_start"
    )
