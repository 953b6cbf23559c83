"""What a model got wrong: every mistake with its kind, and the ones it was surest of to look at.

The mistakes a model is surest of say most: about wrong labels in the data, about what it cannot
see, about what nobody taught it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clozeworks.data.labelled.items import QuestionItem, WordsItem
from clozeworks.data.labelled.oddities import texts_of
from clozeworks.tasks.answer import Answer, Answered
from clozeworks.tasks.classify import Classified, Classify
from clozeworks.tasks.details import (
    GOLD,
    MOST_MISTAKES,
    PREDICTED,
    Mark,
    Mistake,
    Mistakes,
    marked,
    worst_mistakes,
)
from clozeworks.tasks.labels import number_of
from clozeworks.tasks.metrics.answers import cmrc_exact, cmrc_f1, squad_exact, squad_f1_or_none
from clozeworks.tasks.metrics.written import likeness
from clozeworks.tasks.tag import Tag, Tagged
from clozeworks.tasks.tagging.entities import entities_of
from clozeworks.tasks.tagging.tags import EntitySpan
from clozeworks.tasks.text_to_text.task import Composed, TextToText

NONE = "no answer"


def mistakes(
    task: Any, items: Sequence[Any], answers: Sequence[Any], most: int = MOST_MISTAKES
) -> Mistakes:
    """What a model got wrong.

    Args:
        task: The task.
        items: Labelled items.
        answers: What the model says of them.
        most: How many are kept to look at.
    """
    pairs = zip(items, answers, strict=True)
    if isinstance(task, Tag):
        found = _tagged(task, pairs) if task.rules.begins else _words(pairs)
    elif isinstance(task, Answer):
        found = _answered(task, pairs)
    elif isinstance(task, TextToText):
        found = _written(task, pairs)
    else:
        assert isinstance(task, Classify)
        found = _numbers(pairs) if task.problem == "number" else _classified(task, pairs)
    return worst_mistakes(list(found), most)


def _classified(task: Classify, pairs: Iterable[tuple[Any, Classified]]) -> Iterator[Mistake]:
    for item, answer in pairs:
        right, said = _names(item.label), _names(answer.label)
        if set(right) == set(said):
            continue
        if task.problem == "one":
            assert answer.score is not None
            kind, weight = f"{said[0]} instead of {right[0]}", answer.score
        else:
            kind = _of_several(set(right), set(said))
            weight = max(abs(answer.scores[label] - (label in right)) for label in task.labels)
        texts = tuple(map(marked, texts_of(item)))
        yield Mistake(item.place, kind, _list(right), _list(said), weight, _sure(weight), texts)


def _names(label: Any) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _of_several(right: set[str], said: set[str]) -> str:
    if right < said:
        return "labels too many"
    return "labels missing" if said < right else "other labels"


def _numbers(pairs: Iterable[tuple[Any, Classified]]) -> Iterator[Mistake]:
    for item, answer in pairs:
        right, said = number_of(item.label, item.place), number_of(answer.label, "the answer")
        if right == said:
            continue
        kind = "too high" if said > right else "too low"
        texts = tuple(map(marked, texts_of(item)))
        off = abs(said - right)
        yield Mistake(
            item.place, kind, f"{right:.4g}", f"{said:.4g}", off, f"off by {off:.4g}", texts
        )


def _words(pairs: Iterable[tuple[WordsItem, Tagged]]) -> Iterator[Mistake]:
    for item, answer in pairs:
        for number, (right, said) in enumerate(zip(item.tags or (), answer.tags, strict=True)):
            if right != said:
                text = marked(item.text, [Mark(*item.spans[number], PREDICTED, said)])
                kind, sure = f"{said} instead of {right}", answer.scores[number]
                yield Mistake(item.place, kind, right, said, sure, _sure(sure), (text,))


def _tagged(task: Tag, pairs: Iterable[tuple[WordsItem, Tagged]]) -> Iterator[Mistake]:
    for item, answer in pairs:
        right = entities_of(item.tags or (), task.rules, spelling=task.spelling)
        said = entities_of(answer.tags, task.rules, spelling=task.spelling)
        for kind, due, given in entity_errors(right, said):
            marks, words = [], set[int]()
            for entity, role in ((due, GOLD), (given, PREDICTED)):
                if entity is not None:
                    begin = item.spans[entity.begin_word][0]
                    end = item.spans[entity.end_word - 1][1]
                    marks.append(Mark(begin, end, role, entity.type))
                    words.update(range(entity.begin_word, entity.end_word))
            sure = sum(answer.scores[word] for word in words) / len(words)
            yield Mistake(
                item.place,
                kind,
                _described(item, due),
                _described(item, given),
                sure,
                _sure(sure),
                (marked(item.text, marks),),
            )


def _described(item: WordsItem, entity: EntitySpan | None) -> str:
    if entity is None:
        return "nothing"
    begin, end = item.spans[entity.begin_word][0], item.spans[entity.end_word - 1][1]
    return f"{entity.type}: {item.text[begin:end]}"


def entity_errors(
    right: Sequence[EntitySpan], said: Sequence[EntitySpan]
) -> list[tuple[str, EntitySpan | None, EntitySpan | None]]:
    """What is wrong with the entities of a sentence; each entity stands in one error at most.

    Args:
        right: The entities that are there.
        said: Those that were found.

    Returns:
        The kind of each error, the entity that is there, and the one that was found.
    """
    due = [entity for entity in right if entity not in said]
    given = [entity for entity in said if entity not in right]
    found: list[tuple[str, EntitySpan | None, EntitySpan | None]] = []
    for kind, same_words, same_type in (
        ("wrong type", True, False),
        ("wrong border", False, True),
        ("wrong type and border", False, False),
    ):
        for entity in list(due):
            for other in given:
                fits = entity[1:] == other[1:] if same_words else _overlap(entity, other)
                if fits and (not same_type or entity.type == other.type):
                    found.append((kind, entity, other))
                    due.remove(entity)
                    given.remove(other)
                    break
    found += [("missed", entity, None) for entity in due]
    return found + [("invented", None, entity) for entity in given]


def _overlap(one: EntitySpan, other: EntitySpan) -> bool:
    return one.begin_word < other.end_word and other.begin_word < one.end_word


def _answered(task: Answer, pairs: Iterable[tuple[QuestionItem, Answered]]) -> Iterator[Mistake]:
    exact, f1 = (cmrc_exact, cmrc_f1) if task.rule == "cmrc" else (squad_exact, squad_f1_or_none)
    for item, answer in pairs:
        texts = [each.text for each in item.answers] or [""]
        if max(exact(text, answer.text) for text in texts) == 1:
            continue
        if not item.answers:
            kind = "answered where nothing is right"
        elif not answer.text:
            kind = "no answer where there is one"
        else:
            shared = max(f1(text, answer.text) for text in texts)
            kind = "too much or too little" if shared else "something else"
        marks = [Mark(each.begin, each.end, GOLD) for each in item.answers]
        if answer.begin is not None and answer.end is not None:
            marks.append(Mark(answer.begin, answer.end, PREDICTED))
        yield Mistake(
            item.place,
            kind,
            " | ".join(dict.fromkeys(each.text for each in item.answers)) or NONE,
            answer.text or NONE,
            answer.score,
            _sure(answer.score),
            (marked(item.question), marked(item.context, marks)),
        )


def _written(task: TextToText, pairs: Iterable[tuple[Any, Composed]]) -> Iterator[Mistake]:
    for item, answer in pairs:
        asked = task.as_asked(item)
        right = [asked.target or "", *getattr(asked, "others", ())]
        if answer.text.strip() in (text.strip() for text in right):
            continue
        form = task.format_for(asked)
        if form is not None and form.words:
            kind = (
                "no word of the format"
                if answer.label is None
                else f"{answer.label} instead of {right[0]}"
            )
        elif not answer.ended:
            kind = "no end"
        else:
            alike = max(likeness(text, answer.text) for text in right)
            kind = "mostly right" if alike >= 0.5 else "partly right" if alike else "nothing right"
        texts, sure = (marked(task.text_of(asked)),), answer.score
        yield Mistake(item.place, kind, " | ".join(right), answer.text, sure, _sure(sure), texts)


def _sure(confidence: float) -> str:
    return f"{confidence:.1%} confident"
