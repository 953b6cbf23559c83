"""What the data settles for a task that writes: what fits, and how long texts are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from clozeworks import config
from clozeworks.data.labelled.reading import Labelled
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.task import Prepared, StartingModel
from clozeworks.tasks.text_to_text.items import ChatItem
from clozeworks.tasks.text_to_text.rows import RowSettings
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.text.tokenizer.chat import PLAIN_TEMPLATE
from clozeworks.text.tokenizer.special import SENTINEL
from clozeworks.wording import counted


@dataclass(frozen=True)
class Looked:
    """What was found out about all items.

    Attributes:
        longest: Tokens of the longest target.
        cut: Items that are cut.
        chats: How many are chats.
        unwritable: How many targets hold what the tokenizer has no token for.
        named: How many targets name the gaps that their source shows as sentinels.
        unnamed: How many name none of these.
    """

    longest: int
    cut: int
    chats: int
    unwritable: int
    named: int
    unnamed: int


def look_through(task: TextToText, items: Sequence[Any], start: StartingModel) -> Looked:
    """Makes every row once, so that what is too long is said before anything is trained.

    Raises:
        InputError: An item is too long and may not be cut, or a chat cannot be written.
    """
    reading = RowSettings(start.tokenizer, task.lengths, start.max_length)
    unknown, end = start.tokenizer.unknown_id, start.tokenizer.last_id
    unknown = None if unknown == end else unknown  # of bytes everything can be written
    sentinels = {
        number for name, number in start.tokenizer.vocabulary().items() if SENTINEL.fullmatch(name)
    }
    longest = cut = chats = unwritable = named = unnamed = 0
    for item in items:
        row = task.row_of(item, reading)
        longest = max(longest, sum(row.asked))
        cut += row.cut
        chats += isinstance(item, ChatItem)
        unwritable += any(
            asked and token == unknown for token, asked in zip(row.ids, row.asked, strict=True)
        )
        if sentinels & set(row.ids):
            asked = {token for token, asked in zip(row.ids, row.asked, strict=True) if asked}
            named += bool(sentinels & asked)
            unnamed += not sentinels & asked
    return Looked(longest, cut, chats, unwritable, named, unnamed)


def usable(
    task: TextToText, items: Sequence[Any], start: StartingModel
) -> tuple[list[Any], list[str]]:
    """The items that fit, and a sentence about those that do not; they are left out.

    Raises:
        InputError: None fits.
    """
    reading = RowSettings(start.tokenizer, task.lengths, start.max_length)
    kept: list[Any] = []
    wrong: list[str] = []
    for item in items:
        try:
            task.row_of(item, reading)
        except InputError as error:
            wrong.append(str(error))
        else:
            kept.append(item)
    if not kept:
        raise InputError(f"no item is left; the first: {wrong[0]}")
    if not wrong:
        return kept, []
    amount = counted(len(wrong), "item does not fit and is", "items do not fit and are")
    return kept, [f"{amount} left out; the first: {wrong[0]}"]


def prepared(task: TextToText, train: Labelled, dev: Labelled, start: StartingModel) -> Prepared:
    """The task with the room that its targets need, and what a person should know.

    A tokenizer without a template for chats is to be given the plain one, so that the saved folder
    says how its chats are written.

    Raises:
        SettingError: If a setting has no effect on such items.
        InputError: If an item is too long and may not be cut, or a chat cannot be written.
    """
    items, judged, messages = train.items, dev.items, list[str]()
    if train.bad.skip:
        items, left_out = usable(task, items, start)
        judged, also = usable(task, judged, start)
        messages += [*left_out, *also]
    total = counted(len(items) + len(judged), "item")
    messages += _about_lengths(task, [*items, *judged])
    found, there = look_through(task, items, start), look_through(task, judged, start)
    if task.between is not None and found.chats < len(items):
        messages.append(
            f"Source and target stand in one row, {task.between!r} between them; what is read "
            "costs nothing."
        )
    if task.writing.max_new_tokens is None:
        longest = max(found.longest, there.longest)
        task = replace(task, writing=replace(task.writing, max_new_tokens=longest))
        tokens = counted(longest, "token")
        messages.append(f"Texts of up to {tokens} are written, as the longest target has.")
    if cut := found.cut + there.cut:
        messages.append(f"Too long, and cut at their end as asked: {cut:,} of {total}.")
    if lost := found.unwritable + there.unwritable:
        messages.append(
            f"Targets that hold what the tokenizer has no token for: {lost:,} of {total}; they can "
            "never be written to the letter."
        )
    if unnamed := found.unnamed + there.unnamed:
        messages.append(
            f"Sources that show gaps as <extra_id_0> and so on, with targets that name none: "
            f"{unnamed:,} of {total}; fill reads what stands after these names; put them into the "
            "targets if gaps are to be filled."
        )
    template = None
    if found.chats + there.chats and not start.tokenizer.has_chat_template:
        template = PLAIN_TEMPLATE
        messages.append("The tokenizer has no template for chats; a plain one is used and saved.")
    return Prepared(
        task,
        items,
        judged,
        tuple(messages),
        notes={"sentinels": "named"} if found.named else {},
        chat_template=template,
        learns_turns=bool(found.chats) and task.between is not None,
    )


def _about_lengths(task: TextToText, items: Sequence[Any]) -> list[str]:
    """That lengths are not for chats in one tower, which are read whole."""
    chats = sum(isinstance(item, ChatItem) for item in items)
    given = {name: value for name, value in config.plain(task.lengths).items() if value}
    if task.between is None or not chats or not given:
        return []
    name, value = next(iter(given.items()))
    shown = str(value).lower()
    if chats == len(items):
        raise SettingError(
            f"task.lengths.{name} is {shown}; every item is a chat, and one tower reads chats "
            "whole; it has no effect; leave it out, and drop chats that are too long with "
            "--skip-bad-rows."
        )
    return [f"task.lengths.{name} is {shown}; it is not for chats, which are read whole."]
