"""Questions about a context: the item, the layout of SQuAD 1.1 and 2.0 (also CMRC and DRCD), rows.

An answer that does not stand where the file says is moved, if its text stands in the context
exactly once; otherwise nobody knows which one was meant. A question of which no answer can be found
is bad. Where at least one is found, the others still count when an answer is scored: what people
wrote is right even if the context words it otherwise.

The original files of CMRC 2018 are read as well: a list of paragraphs, whose answers have no
positions. An answer is taken where it first stands.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from clozeworks.data.augment.changing import TextEditor
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes, read_lines
from clozeworks.data.files.tables import (
    TABLE_SUFFIXES,
    document_lines,
    json_document,
    one_object_per_line,
)
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import NO_LABELS, Item, Role, wrong_text
from clozeworks.data.labelled.reading import FileItems, Reading
from clozeworks.data.labelled.written_rows import ChosenRows, WrittenFile, json_line
from clozeworks.wording import shortened

_SHORT = 40
_WHOLE = re.compile("-?[0-9]{1,15}")
_FAR = 10**15  # no context is as long, and Python refuses to print much longer numbers

# Characters of a question's id that a message shows.
_LONGEST_ID = 80
# What is told of a layout.
_ABOUT_LAYOUT = {
    "SQuAD": "The layout is SQuAD's.",
    "CMRC 2018": "The layout is that of CMRC 2018, which states no positions: an answer is taken "
    "where it first stands.",
}


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """An answer as it stands in its context."""

    text: str
    begin: int
    """Its first character in the context."""

    @property
    def end(self) -> int:
        """The end in the context."""
        return self.begin + len(self.text)


@dataclass(frozen=True, slots=True)
class QuestionItem(Item):
    """A question and the context its answer stands in."""

    question: str
    context: str
    """Where the answer stands."""
    answers: tuple[AnswerSpan, ...] = field(default=())
    """The answers that count as right; empty if there is none, or if it is not known."""
    impossible: bool = False
    """Whether the context is known to hold no answer."""
    id: str = ""
    """What the file calls it."""
    source_location: str = ""
    unlocated: tuple[str, ...] = ()
    """Further answers that count as right, whose place in the context is not known."""

    command: ClassVar[str] = "answer"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("question", ("question", "query")),
        Role("context", ("context", "passage", "paragraph", "document")),
        Role("answers", ("answers", "answer", "answer_text"), required=False),
        Role("start", ("answer_start", "start"), required=False),
        Role("impossible", ("is_impossible", "impossible"), required=False),
        Role("id", ("id", "qid", "question_id"), required=False),
    )
    text_names: ClassVar[tuple[str, ...]] = ("question", "context")
    unit: ClassVar[str] = "question"
    asked_unit: ClassVar[str] = "question"
    asked_roles: ClassVar[tuple[str, ...]] = ("question", "context", "id")
    asked_suffixes: ClassVar[tuple[str, ...]] = TABLE_SUFFIXES
    shares_text: ClassVar[bool] = True
    label_role: ClassVar[str] = "answers"
    label_kinds: ClassVar[Mapping[str, str]] = {"answers": "answers", NO_LABELS: "no labels"}
    example: ClassVar[tuple[str, ...]] = ("a question?", "a context that holds the answer")

    @property
    def gold(self) -> tuple[tuple[AnswerSpan | str, ...], bool] | None:
        """The answers, and whether there is none; None if neither is known."""
        answers: tuple[AnswerSpan | str, ...] = (*self.answers, *self.unlocated)
        return (answers, self.impossible) if answers or self.impossible else None

    @property
    def gold_texts(self) -> tuple[str, ...]:
        """The texts of all answers that count as right."""
        return (*(answer.text for answer in self.answers), *self.unlocated)

    @property
    def gold_state(self) -> str:
        """Whether the question has an answer."""
        if self.answers:
            return "answered"
        return "without an answer" if self.impossible else "not known"

    @property
    def shared_text(self) -> str | None:
        """The context, which many questions share."""
        return self.context

    def difference(self, other: Self, where: str) -> str:
        """That the other has other answers."""
        return f"other answers in {where}"

    def inputs(self) -> dict[str, Any]:
        """The question and its context."""
        named = {"id": self.id} if self.id else {}
        return {**named, "question": self.question, "context": self.context}

    def echo(self) -> dict[str, Any]:
        """The question; many share a long context."""
        return {name: value for name, value in self.inputs().items() if name != "context"}

    def gold_json(self) -> Any:
        """The answers and where they begin, if that is known."""
        located = [{"text": each.text, "answer_start": each.begin} for each in self.answers]
        return [*located, *({"text": text} for text in self.unlocated)]

    def to_dict(self) -> dict[str, Any]:
        """Question, context and answers, as rows have them."""
        if self.gold is None:
            return self.inputs()
        impossible = {"is_impossible": True} if self.impossible else {}
        return {**self.inputs(), "answers": self.gold_json(), **impossible}

    def augmented(self, editor: TextEditor) -> Self:
        """With another question and context; the answers stay as they are."""
        held = [(answer.begin, answer.end) for answer in self.answers]
        context, spans = editor.text_with_spans(self.context, held, "context")
        answers = tuple(
            AnswerSpan(answer.text, begin)
            for answer, (begin, _) in zip(self.answers, spans, strict=True)
        )
        question = editor.text(self.question, "question")
        return replace(self, question=question, context=context, answers=answers)

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> "QuestionItem":
        """A row that holds a question and its context."""
        question, context, impossible = (
            row.get("question"),
            row.get("context"),
            row.get("impossible"),
        )
        if wrong := wrong_text(question, "question") or wrong_text(context, "context"):
            raise ValueError(wrong)
        assert isinstance(question, str) and isinstance(context, str)
        if isinstance(impossible, str):
            impossible = impossible.strip().lower() in ("1", "true", "yes")
        stated = _answers(row.get("answers"), row.get("start"))
        if stated and impossible:
            raise ValueError(
                "the question is marked as impossible and has an answer; take one of them out"
            )
        spans, unlocated = _located(context, stated or [], source_location, bad)
        none = bool(impossible) or stated == []
        name = "" if row.get("id") is None else str(row["id"])
        return cls(question, context, spans, none, name, source_location, unlocated)

    @classmethod
    def read_file(cls, path: Path, suffix: str, reading: Reading, bad: BadRows) -> FileItems | None:
        """A document with the layout of SQuAD, or of CMRC 2018."""
        document = _document(path, suffix, reading, bad.notes)
        if document is None:
            return None
        reading.refuse_columns(f"{printable(path)} has the layout of {_layout(document)}")
        items = read_squad(document, printable(path), bad)
        return FileItems(items, layout=_ABOUT_LAYOUT[_layout(document)])

    @classmethod
    def written_file(
        cls, path: Path, suffix: str, reading: Reading, source_locations: Collection[str]
    ) -> WrittenFile | None:
        """A document with the layout of SQuAD or of CMRC 2018, as it was written."""
        document = _document(path, suffix, reading, FileNotes())
        return None if document is None else _written_squad(document, printable(path))


def _document(path: Path, suffix: str, file_format: FileFormat, notes: FileNotes) -> Any:
    """A file with the layout of SQuAD or of CMRC 2018; None if it has another one."""
    if suffix != ".json":
        return None
    lines = read_lines(path, file_format, notes=notes)
    held = document_lines(lines, printable(path))
    if one_object_per_line(held):
        return None
    value = json_document(held, printable(path))
    return value if _layout(value) else None


def _layout(value: Any) -> str:
    """Whose layout a document has, by its first article; empty if it is another one."""
    articles = value.get("data") if isinstance(value, dict) else value
    first = articles[0] if isinstance(articles, list) and articles else None
    if not isinstance(first, dict):
        return ""
    if _is_cmrc_paragraph(first):
        return "CMRC 2018"
    return "SQuAD" if isinstance(first.get("paragraphs"), list) else ""


def _is_cmrc_paragraph(value: Any) -> bool:
    return isinstance(value, dict) and "context_text" in value and "qas" in value


def _paragraphs(article: Any) -> list[Any]:
    """The paragraphs of an article; those of CMRC 2018 stand alone."""
    if _is_cmrc_paragraph(article):
        return [article]
    paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
    return paragraphs if isinstance(paragraphs, list) else [None]


def _in_squad_words(question: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
    """A question of CMRC 2018 as SQuAD has it, its answers where they first stand."""
    answers = question.get("answers")
    if isinstance(answers, list) and isinstance(context, str):
        answers = [
            {"text": each, "answer_start": context.find(each)} if isinstance(each, str) else each
            for each in answers
        ]
    names = {"question": question.get("query_text"), "id": question.get("query_id")}
    return {**names, "answers": answers}


def read_squad(value: Any, origin: str, bad: BadRows) -> list[QuestionItem]:
    """Reads articles of paragraphs of questions; `bad` collects those that cannot be used."""
    items = []
    for source_location, _, paragraph, question in squad_questions(value, origin):
        name = "context_text" if _is_cmrc_paragraph(paragraph) else "context"
        context = paragraph.get(name) if isinstance(paragraph, dict) else None
        if bad.notes.skips(source_location, [question, context]):
            continue
        if not isinstance(question, dict):
            bad.add(source_location, f"this is {json_type(question)}; it must be an object; fix it")
            continue
        if _is_cmrc_paragraph(paragraph):
            question = _in_squad_words(question, context)
        row = {
            **{name: question.get(name) for name in ("question", "answers", "id")},
            "context": context,
            "impossible": question.get("is_impossible"),
        }
        try:
            items.append(QuestionItem.from_row(row, source_location, bad))
        except ValueError as error:
            bad.add(source_location, str(error))
    return items


def squad_questions(value: Any, origin: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Walks over a document with the layout of SQuAD or of CMRC 2018.

    Yields:
        The location, the article, the paragraph and each question; None for a question where the
        layout is another one.
    """
    number = 0
    for article in value["data"] if isinstance(value, dict) else value:
        for paragraph in _paragraphs(article):
            asked = paragraph.get("qas") if isinstance(paragraph, dict) else None
            for question in asked if isinstance(asked, list) else [None]:
                number += 1
                key = "query_id" if _is_cmrc_paragraph(paragraph) else "id"
                name = str(question.get(key, "")) if isinstance(question, dict) else ""
                named = f" (id {shortened(name, _LONGEST_ID)})" if name else ""
                yield f"{origin}, question {number:,}{named}", article, paragraph, question


def _answers(answers: object, start: object) -> list[tuple[str, int | None]] | None:
    """Texts and positions as the file states them; None if it does not state any."""
    if answers is None:
        return None
    if isinstance(answers, str):
        return [(answers, _begin(start))] if answers else []
    if isinstance(answers, dict):  # lists side by side, as columnar formats have them
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, str):
            return [(texts, _begin(starts))]
        if isinstance(texts, list):
            starts = [None] * len(texts) if starts is None else starts
            if isinstance(starts, list) and len(starts) == len(texts):
                return list(zip(map(_text, texts), map(_begin, starts), strict=True))
        raise ValueError("the answers have no list of texts and of as many positions; fix them")
    if not isinstance(answers, list):
        raise ValueError(f"the answers are {json_type(answers)}; write a list of answers")
    stated: list[tuple[str, int | None]] = []
    for answer in answers:
        if isinstance(answer, dict):
            stated.append((_text(answer.get("text")), _begin(answer.get("answer_start"))))
        else:
            stated.append((_text(answer), _begin(start if len(answers) == 1 else None)))
    return stated


def _text(answer: object) -> str:
    if not isinstance(answer, str):
        raise ValueError(f"an answer is {json_type(answer)}; it must be a string; correct it")
    return answer


def _begin(start: object) -> int | None:
    if isinstance(start, list) and len(start) == 1:
        start = start[0]
    if start is None or start == "":
        return None
    if isinstance(start, str) and _WHOLE.fullmatch(start.strip()):
        start = int(start)
    if not isinstance(start, int) or isinstance(start, bool) or abs(start) >= _FAR:
        shown = json_type(start) if isinstance(start, int | list | dict) else repr(start)
        shown = shown if len(shown) <= _SHORT else f"{shown[:_SHORT]}…"
        raise ValueError(f"the start of an answer is {shown}; it must be a whole number; fix it")
    return start


def _located(
    context: str, stated: list[tuple[str, int | None]], source_location: str, bad: BadRows
) -> tuple[tuple[AnswerSpan, ...], tuple[str, ...]]:
    """Where the answers stand, and those of which that is not known; each once.

    Raises:
        ValueError: If an answer is empty, or none is found.
    """
    spans: dict[AnswerSpan, None] = {}  # several people often gave the same answer
    unlocated: dict[str, str] = {}
    for answer, begin in stated:
        if not answer.strip():
            raise ValueError("an answer is empty; write it, or leave it out")
        place = _place(context, answer, begin)
        if isinstance(place, str):
            unlocated[answer] = place
            continue
        if begin is not None and begin != place:
            message = f"stood at {place:,}, not at {begin:,}; it was moved"
            bad.repair(source_location, f"the answer {_shown(answer)} {message}")
        spans[AnswerSpan(answer, place)] = None
    if unlocated and not spans:
        raise ValueError(next(iter(unlocated.values())))
    for answer in unlocated:
        message = "has no known place in the context; it counts for scoring, not for training"
        bad.repair(source_location, f"the answer {_shown(answer)} {message}")
    return tuple(spans), tuple(unlocated)


def _place(context: str, answer: str, begin: int | None) -> int | str:
    """Where an answer stands; or why that is not known, and what to do."""
    if begin is not None and begin >= 0 and context.startswith(answer, begin):
        return begin
    first = context.find(answer)
    if first < 0:
        return f"the answer {_shown(answer)} does not stand in the context; copy it from there"
    if context.find(answer, first + 1) < 0:
        return first
    where = "its start is not stated" if begin is None else f"not at {begin:,}"
    return (
        f"the answer {_shown(answer)} stands in the context more than once, and {where}; correct "
        "answer_start"
    )


def _shown(answer: str) -> str:
    return repr(answer if len(answer) <= _SHORT else answer[:_SHORT] + "…")


def _written_squad(value: Any, origin: str) -> WrittenFile:
    rest = {key: value[key] for key in value if key != "data"} if isinstance(value, dict) else None
    more = " as a list" if rest is None else f" with {json_line(rest).strip()}" if rest else ""
    shape = f"has the layout of {_layout(value)}{more}"
    file = WrittenFile(".json", shape, value, write=_squad_document)
    numbers: dict[int, int] = {}
    for source_location, article, _, question in squad_questions(value, origin):
        file.rows[source_location] = question
        if isinstance(article, dict):
            number = numbers.setdefault(id(article), len(numbers) + 1)
            file.add_title(source_location, article.get("title") or f"{origin}, article {number:,}")
    return file


def _squad_document(chosen: ChosenRows) -> bytes:
    taken = {id(question) for _, questions in chosen for question in questions}
    articles = []
    for file, _ in chosen:
        for article in file.head["data"] if isinstance(file.head, dict) else file.head:
            chosen_paragraphs = [
                {**paragraph, "qas": asked}
                for paragraph in _paragraphs(article)
                if isinstance(paragraph, dict) and isinstance(paragraph.get("qas"), list)
                if (asked := [each for each in paragraph["qas"] if id(each) in taken])
            ]
            if _is_cmrc_paragraph(article):
                articles += chosen_paragraphs
            elif chosen_paragraphs:
                articles.append({**article, "paragraphs": chosen_paragraphs})
    whole = chosen[0][0].head
    return json_line({**whole, "data": articles} if isinstance(whole, dict) else articles).encode()
