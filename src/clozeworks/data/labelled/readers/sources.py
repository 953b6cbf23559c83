"""Texts with the texts to write for them: two columns, an instruction with an input, or a chat.

A chat is a list of objects with a role and a content, as published sets write them: `role` and
`content`, or `from` and `value`. A column that holds what is to be said next (`chosen` of a set of
preferences) is the last turn of its chat.
"""

from collections.abc import Sequence
from typing import Any

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.tables import Table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column
from clozeworks.data.labelled.items import ASSISTANT, ChatItem, Item, SourceItem, Turn
from clozeworks.data.labelled.readers.squad import wrong_text

# What published sets call those who speak.
ROLES = {"human": "user", "gpt": ASSISTANT, "bot": ASSISTANT, "model": ASSISTANT}
_KEYS = (("role", "content"), ("from", "value"))


def source_rows(
    table: Table, columns: Sequence[Column], bad: BadRows
) -> list[SourceItem | ChatItem]:
    """Takes sources and targets out of rows; those that cannot be used are bad.

    Args:
        table: The table.
        columns: What its columns are.
        bad: Told about rows that cannot be used.
    """
    numbers = {column.role: column.number for column in columns}
    items: list[SourceItem | ChatItem] = []
    for number, cells in table.rows:
        row = {role: cells[place - 1] for role, place in numbers.items()}
        place = table.place(number)
        try:
            items.append(_chat(row, place) if "messages" in row else _written(row, place))
        except ValueError as error:
            bad.add(place, str(error))
    return items


def with_targets(items: Sequence[Item], bad: BadRows) -> list[Item]:
    """The items that have a target, if any has one; those without are bad then."""
    written = [item for item in items if isinstance(item, SourceItem | ChatItem)]
    bare = [item for item in written if item.target is None]
    if len(bare) == len(items):
        return list(items)
    for item in bare:
        if isinstance(item, ChatItem):
            lacks = "the assistant does not speak last, and other rows have a target; let it speak"
        else:
            lacks = "it has no target, and other rows have one; give it one"
        bad.add(item.place, lacks)
    lacking = set(map(id, bare))
    return [item for item in items if id(item) not in lacking]


def _written(row: dict[str, Any], place: str) -> SourceItem | ChatItem:
    source, target, more = row.get("source"), row.get("target"), row.get("input")
    if isinstance(target, list | dict):  # what was said next, or the whole chat
        before = () if isinstance(target, list) and len(target) > 1 else (_text(source, "source"),)
        turns = (*(Turn("user", text) for text in before), *_turns(target, "target"))
        return ChatItem(turns, _name(row), place)
    text = _text(source, "source")
    if isinstance(more, str) and more.strip():
        text = f"{text}\n{_text(more, 'input')}"
    prefix = row.get("prefix")
    return SourceItem(
        source=text,
        target=None if target is None else _text(target, "target"),
        task=_name(row),
        prefix=None if prefix is None else _text(prefix, "prefix", may_be_empty=True),
        place=place,
    )


def _chat(row: dict[str, Any], place: str) -> ChatItem:
    turns = _turns(row["messages"], "messages")
    following = row.get("target")
    if isinstance(following, str):
        turns += (Turn(ASSISTANT, _text(following, "target")),)
    elif following is not None:
        turns += _turns(following, "target")
    return ChatItem(turns, _name(row), place)


def _turns(value: Any, what: str) -> tuple[Turn, ...]:
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list | tuple) or not listed:
        said = "empty" if isinstance(listed, list | tuple) else json_type(value)
        raise ValueError(
            f"the {what} are {said}; they must be a list of objects with role and content; fix it"
        )
    return tuple(_turn(each, number) for number, each in enumerate(listed, start=1))


def _turn(value: Any, number: int) -> Turn:
    for who, words in _KEYS:
        if isinstance(value, dict) and isinstance(value.get(who), str) and words in value:
            role = value[who].strip().casefold()
            return Turn(ROLES.get(role, role), _text(value[words], f"content of turn {number}"))
    raise ValueError(
        f"turn {number} is {json_type(value)} without role and content; it must have both; fix it"
    )


def _name(row: dict[str, Any]) -> str:
    return str(row.get("task") or "").strip()


def _text(value: Any, what: str, *, may_be_empty: bool = False) -> str:
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int | float):  # a number is a text to write like any other
        value = str(value)
    if may_be_empty and isinstance(value, str) and not lone_surrogate(value):
        return value
    if wrong := wrong_text(value, what):
        raise ValueError(wrong)
    text: str = value
    return text
