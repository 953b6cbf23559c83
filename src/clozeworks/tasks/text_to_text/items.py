"""Texts with the texts to write for them: items, and rows of two columns, instructions or chats.

A chat is a list of objects with a role and a content, as published sets write them: `role` and
`content`, or `from` and `value`. A column that holds what is to be said next (`chosen` of a set of
preferences) is the last turn of its chat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.fields import json_type
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import NO_LABELS, Item, Role, wrong_text
from clozeworks.data.labelled.reading import Reading

ASSISTANT = "assistant"
# What is wrong with chats that have no target.
NO_TURN = (
    "them: in no chat the assistant speaks; give each a turn of the role assistant, or, "
    "if that stands in a column of its own, name it with --columns target=NAME."
)
_CHATS = ("messages", "conversations", "conversation")
_SOURCES = (
    *("source", "instruction", "prompt", "question", "document", "article", "dialogue", "input"),
    *("inputs", "text", "email_body", "email", "src", "query", "sentence", "原文", "问题", "输入"),
)
_TARGETS = (
    *("target", "targets", "output", "outputs", "completion", "response", "answer", "chosen"),
    *("summary", "highlights", "subject_line", "subject", "translation", "tgt"),
    *("译文", "回答", "输出", "摘要"),
)
# What published sets call those who speak.
ROLES = {"human": "user", "gpt": ASSISTANT, "bot": ASSISTANT, "model": ASSISTANT}
_KEYS = (("role", "content"), ("from", "value"))


class WritingItem(Item):
    """What a model that writes is asked: a source, or a chat."""

    __slots__ = ()

    task: str

    command: ClassVar[str] = "text-to-text"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("messages", _CHATS, required=False, suffices=True),
        Role("source", _SOURCES, holds="text", partner="target"),
        Role("input", ("input",), required=False),
        Role("target", _TARGETS, required=False, holds="text"),
        Role("prefix", ("prefix",), required=False),
        Role("task", ("task", "task_name"), required=False),
    )
    text_names: ClassVar[tuple[str, ...]] = ("source",)
    asked_roles: ClassVar[tuple[str, ...]] = ("messages", "source", "input", "prefix", "task")
    label_role: ClassVar[str] = "target"
    gold_word: ClassVar[str] = "targets"
    gold_text_name: ClassVar[str] = "target"
    labels_title: ClassVar[str] = "tasks"
    writes: ClassVar[bool] = True
    label_kinds: ClassVar[Mapping[str, str]] = {"targets": "texts to write", NO_LABELS: "no labels"}

    if TYPE_CHECKING:

        @property
        def source(self) -> str:
            """What is read, as one text."""

        @property
        def target(self) -> str | None:
            """What is to be written; None if it is not known."""

    @property
    def gold(self) -> str | None:
        """What is to be written; None if it is not known."""
        return self.target

    @property
    def labels(self) -> tuple[str, ...]:
        """The task it belongs to, where there are several."""
        return (self.task,) if self.task else ()

    @property
    def gold_texts(self) -> tuple[str, ...]:
        """What is to be written, where that is known."""
        return () if self.target is None else (self.target,)

    def difference(self, other: Self, where: str) -> str:
        """That the other has another target."""
        return f"another target in {where}"

    @classmethod
    def from_texts(cls, texts: Sequence[str], source_location: str = "") -> "SourceItem":
        """A source without a target."""
        return SourceItem(texts[0], source_location=source_location)

    @classmethod
    def from_row(
        cls, row: Mapping[str, Any], source_location: str, bad: BadRows
    ) -> "SourceItem | ChatItem":
        """A row with a source or with messages, and with or without a target."""
        return _chat(row, source_location) if "messages" in row else _written(row, source_location)

    @classmethod
    def settle(
        cls, items: Sequence[Item], reading: Reading, bad: BadRows
    ) -> tuple[Sequence[Item], str]:
        """The items that have a target, if any has one; those without are bad then.

        A chat that goes on after the assistant's last turn is cut there.
        """
        if reading.asks:
            return items, NO_LABELS
        items = [item.lesson() if isinstance(item, ChatItem) else item for item in items]
        bare = [item for item in items if item.gold is None]
        if len(bare) == len(items):
            return items, NO_LABELS
        for item in bare:
            bad.add(item.source_location, _lacking(item))
        return [item for item in items if item.gold is not None], "targets"

    @classmethod
    def missing_labels(cls, items: Sequence[Item]) -> str | None:
        """What chats lack in which the assistant does not speak."""
        return NO_TURN if are_chats(items) else None


@dataclass(frozen=True, slots=True)
class SourceItem(WritingItem):
    """A text, and the text a model is to write for it."""

    source: str
    """What the model reads."""
    target: str | None = None
    """What it is to write; None if it is not known."""
    task: str = ""
    """Which of several tasks it belongs to; empty if there is one only."""
    prefix: str | None = None
    """What stands before the source; None for what stands before all."""
    others: tuple[str, ...] = ()
    """Further texts that are as right as the target."""
    source_location: str = ""

    def asked(self) -> dict[str, Any]:
        """The source, with the task and the prefix if they are its own."""
        prefix = {} if self.prefix is None else {"prefix": self.prefix}
        return {**self.inputs(), **prefix}

    def inputs(self) -> dict[str, Any]:
        """The source, and the task where there are several."""
        named = {"task": self.task} if self.task else {}
        return {**named, "source": self.source}


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody says in a chat."""

    role: str
    """Who: system, user or assistant, or what else a template knows."""
    text: str


@dataclass(frozen=True, slots=True)
class ChatItem(WritingItem):
    """A chat in which a model is to write what the assistant says."""

    turns: tuple[Turn, ...]
    """What was said, in order."""
    task: str = ""
    """Which of several tasks it belongs to; empty if there is one only."""
    source_location: str = ""

    @property
    def target(self) -> str | None:
        """What the assistant says last; None if somebody else speaks last."""
        return self.turns[-1].text if self.turns[-1].role == ASSISTANT else None

    @property
    def prompt(self) -> tuple[Turn, ...]:
        """The turns before that."""
        return self.turns if self.target is None else self.turns[:-1]

    @property
    def source(self) -> str:
        """The same as one text for people."""
        return "\n".join(f"{turn.role}: {turn.text}" for turn in self.prompt)

    def lesson(self) -> "ChatItem":
        """The chat up to the last turn of the assistant; itself if there is none."""
        spoken = [number for number, turn in enumerate(self.turns, 1) if turn.role == ASSISTANT]
        return replace(self, turns=self.turns[: spoken[-1]]) if spoken else self

    def asked(self) -> dict[str, Any]:
        """All that was said, and the task where there are several."""
        return {**self.inputs(), "messages": messages(self.turns)}

    def inputs(self) -> dict[str, Any]:
        """What was said, and the task where there are several."""
        named = {"task": self.task} if self.task else {}
        return {**named, "messages": messages(self.prompt)}


def is_chat(data: Any) -> bool:
    """Whether this is a chat: a list of turns, each a dict with a role and a content."""
    return (
        isinstance(data, list | tuple)
        and bool(data)
        and all(
            isinstance(turn, Mapping) and any(turn.keys() >= {*keys} for keys in _KEYS)
            for turn in data
        )
    )


def messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Turns as templates and JSON take them."""
    return [{"role": turn.role, "content": turn.text} for turn in turns]


# What is read and written: a source with its target, or a chat.
Writable = SourceItem | ChatItem


def are_chats(items: Sequence[Any]) -> bool:
    """Whether there are items, and all of them are chats."""
    return bool(items) and all(isinstance(item, ChatItem) for item in items)


def _lacking(item: Item) -> str:
    if isinstance(item, ChatItem):
        return "the assistant says nothing, and other rows have a target; let it speak"
    return "it has no target, and other rows have one; give it one"


def _written(row: Mapping[str, Any], source_location: str) -> SourceItem | ChatItem:
    source, target, more = row.get("source"), row.get("target"), row.get("input")
    if isinstance(target, list | dict):  # what was said next, or the whole chat
        before = () if isinstance(target, list) and len(target) > 1 else (_text(source, "source"),)
        turns = (*(Turn("user", text) for text in before), *_turns(target, "target"))
        return ChatItem(turns, _name(row), source_location)
    text = _text(source, "source")
    if isinstance(more, str) and more.strip():
        text = f"{text}\n{_text(more, 'input')}"
    prefix = row.get("prefix")
    return SourceItem(
        source=text,
        target=None if target is None else _text(target, "target"),
        task=_name(row),
        prefix=None if prefix is None else _text(prefix, "prefix", may_be_empty=True),
        source_location=source_location,
    )


def _chat(row: Mapping[str, Any], source_location: str) -> ChatItem:
    turns = _turns(row["messages"], "messages")
    following = row.get("target")
    if isinstance(following, str):
        turns += (Turn(ASSISTANT, _text(following, "target")),)
    elif following is not None:
        turns += _turns(following, "target")
    return ChatItem(turns, _name(row), source_location)


def _turns(value: Any, what: str) -> tuple[Turn, ...]:
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list | tuple) or not listed:
        kind = "empty" if isinstance(listed, list | tuple) else json_type(value)
        raise ValueError(
            f"the {what} are {kind}; they must be a list of objects with role and content; fix it"
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


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("task") or "").strip()


def _text(value: Any, what: str, *, may_be_empty: bool = False) -> str:
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int | float):  # a number is a text to write like any other
        value = str(value)
    empty = may_be_empty and isinstance(value, str) and not lone_surrogate(value)
    if wrong := "" if empty else wrong_text(value, what):
        raise ValueError(wrong)
    return str(value)
