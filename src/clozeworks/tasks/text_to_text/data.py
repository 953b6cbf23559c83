"""Data for text to text: files read as their format asks for, and what the items settle.

Every row of tokens is made once before training, so that what is too long is said early, and the
longest target decides how many tokens may be written.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clozeworks import config
from clozeworks.data.files.compression import COMPRESSIONS
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.in_memory import DataSource, source_name
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.reading import Labelled, Reading, read_items
from clozeworks.errors import InputError, SettingError, Stated, UnknownName
from clozeworks.tasks.task import Prepared, StartingModel, TaskData
from clozeworks.tasks.text_to_text.formats import Format, format_of
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, WritingItem
from clozeworks.tasks.text_to_text.rows import RowSettings
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.text.tokenizer.chat import PLAIN_TEMPLATE
from clozeworks.text.tokenizer.special import SENTINEL
from clozeworks.wording import counted


def names_of_files(
    task: TextToText, files: Sequence[DataSource], reading: Reading, train: Labelled | None
) -> list[str] | None:
    """The task that each file of a recipe is for; None where tasks are not told apart by files.

    Raises:
        UnknownName: If a format is stated for a task that no file is for.
    """
    names = None
    if reading.by_file or task.formats:
        names = task_names(files) if train is None else dev_names(task_names(train.files), files)
    for name in task.formats if train is None else ():
        if name not in (names or ()):
            raise UnknownName("task.formats", name, names or ())
    return names


def read_texts(
    files: Sequence[DataSource],
    task: TextToText,
    reading: Reading,
    bad: BadRows,
    *,
    names: Sequence[str] | None = None,
) -> Labelled:
    """Reads files for a task that writes.

    Args:
        files: The files.
        task: The task.
        reading: How they are read.
        bad: Collects bad rows.
        names: The task of each file, for items that do not name one; it decides the format, too.

    Raises:
        InputError: If a file, a row or a label cannot be used.
    """
    if task.format is None and names is None:
        return read_items(files, WritingItem, reading, bad=bad)
    tasks = names or [""] * len(files)
    parts = [_read(file, name, task, reading, bad) for file, name in zip(files, tasks, strict=True)]
    summaries = [f"{name}: {part.description}" for part in parts for name in part.files]
    return replace(
        parts[0],
        item=WritingItem,
        files=tuple(name for part in parts for name in part.files),
        items=[item for part in parts for item in part.items],
        kind="targets" if all(part.kind != "none" for part in parts) else "none",
        tables=tuple(table for part in parts for table in part.tables),
        description=parts[0].description if len(parts) == 1 else " ".join(summaries),
        reading=reading,
    )


def _read(
    source: DataSource, name: str, task: TextToText, reading: Reading, bad: BadRows
) -> Labelled:
    known = task.formats.get(name, task.format)
    form = None if known is None else format_of(known)
    item_type = form.item_type if form else WritingItem
    roles = {role.name for role in item_type.roles}
    columns = {role: column for role, column in reading.columns.items() if role in roles}
    reading = replace(reading, columns=columns, labels=form.label_kind if form else None)
    labelled = read_items([source], item_type, reading, bad=bad)
    if form is not None and item_type is not WritingItem:
        summary = f"{labelled.description} They are written as {form.name!r} asks for.".strip()
        labelled = replace(labelled, description=summary)
    return replace(labelled, items=[_written(item, form, name) for item in labelled.items])


def _written(item: Item, form: Format | None, name: str) -> Item:
    written = item if form is None else form.item(item)
    assert isinstance(written, SourceItem | ChatItem)
    if isinstance(item, SourceItem | ChatItem) and item.task:
        return item
    return replace(written, task=name)


def task_names(files: Sequence[DataSource]) -> list[str]:
    """The names of tasks that are told apart by their files, or by the folders of these."""
    paths = [Path(source_name(file)) for file in files]
    stems = [_stem(path) for path in paths]
    folders = [path.resolve().parent.name for path in paths]
    return stems if len(set(stems)) == len(stems) or len(set(folders)) < 2 else folders


def dev_names(train: Sequence[str], files: Sequence[DataSource]) -> list[str]:
    """The same for dev files: by their own names, or one for each training file in order.

    Raises:
        InputError: If neither fits.
    """
    names = task_names(files)
    if set(names) <= set(train):
        return names
    if len(files) == len(train):
        return list(train)
    raise InputError(
        f"data.dev has the tasks {', '.join(names)}, and data.train has {', '.join(train)}; give a "
        "dev file for each training file, in the same order, or call them alike."
    )


def named_formats(task: TextToText, files: Sequence[DataSource]) -> list[str] | None:
    """The tasks of files among several with formats of their own; None if none has one."""
    names = [_named_format(task, Path(source_name(file))) for file in files]
    return names if any(names) else None


def _named_format(task: TextToText, path: Path) -> str:
    """The task of a file with a format of its own: by its name, or its folder's; else nothing."""
    names = (_stem(path), path.resolve().parent.name)
    return next((name for name in names if name in task.formats), "")


def _stem(path: Path) -> str:
    name = path.name
    for packing in COMPRESSIONS:
        name = name.removesuffix(packing)
    return Path(name).stem


def _counts(task: TextToText, items: Sequence[Any], start: StartingModel) -> Counter[str]:
    """Makes every row once, and counts.

    Returns:
        `longest`: tokens of the longest target; `cut`: items that are cut; `chats`; `unwritable`:
        targets that hold what the tokenizer has no token for; `named` and `unnamed`: targets that
        name the gaps which their source shows as sentinels, and that name none of these.
    """
    reading = RowSettings(start.tokenizer, task.lengths, start.max_length)
    unknown, end = start.tokenizer.unknown_id, start.tokenizer.last_id
    unknown = None if unknown == end else unknown  # of bytes everything can be written
    sentinels = {
        number for name, number in start.tokenizer.vocabulary().items() if SENTINEL.fullmatch(name)
    }
    counts: Counter[str] = Counter()
    for item in items:
        row = task.row_of(item, reading)
        targets = {
            token for token, is_target in zip(row.ids, row.is_target, strict=True) if is_target
        }
        counts["longest"] = max(counts["longest"], sum(row.is_target))
        counts["cut"] += row.cut
        counts["chats"] += isinstance(item, ChatItem)
        counts["unwritable"] += unknown in targets
        if sentinels & set(row.ids):
            counts["named" if sentinels & targets else "unnamed"] += 1
    return counts


def _usable(
    task: TextToText, items: Sequence[Any], start: StartingModel
) -> tuple[list[Any], list[str]]:
    """The items that fit, and a sentence about those that do not; they are left out."""
    reading = RowSettings(start.tokenizer, task.lengths, start.max_length)
    fitting: list[Any] = []
    wrong: list[str] = []
    for item in items:
        try:
            task.row_of(item, reading)
        except InputError as error:
            wrong.append(str(error))
        else:
            fitting.append(item)
    if not fitting:
        raise InputError(f"no item is left; the first: {wrong[0]}")
    if not wrong:
        return fitting, []
    amount = counted(len(wrong), "item does not fit and is", "items do not fit and are")
    return fitting, [f"{amount} left out; the first: {wrong[0]}"]


def prepared(task: TextToText, data: TaskData) -> Prepared:
    """The task with the room that its targets need, and what a person should know.

    A tokenizer without a template for chats is to be given the plain one, so that the saved folder
    says how its chats are written.

    Raises:
        SettingError: If a setting has no effect on such items.
        InputError: If an item is too long and may not be cut, or a chat cannot be written.
    """
    start, messages = data.model, list[str]()
    items, judged = data.train.items, data.dev.items
    if data.train.bad.skip:
        items, left_out = _usable(task, items, start)
        judged, also = _usable(task, judged, start)
        messages += [*left_out, *also]
    total = counted(len(items) + len(judged), "item")
    messages += _about_lengths(task, [*items, *judged])
    learned, held_out = _counts(task, items, start), _counts(task, judged, start)
    both = learned + held_out
    if task.between is not None and learned["chats"] < len(items):
        messages.append(
            f"Source and target stand in one row, {task.between!r} between them; what is read "
            "costs nothing."
        )
    if task.writing.max_new_tokens is None:
        longest = max(learned["longest"], held_out["longest"])
        task = replace(task, writing=replace(task.writing, max_new_tokens=longest))
        tokens = counted(longest, "token")
        messages.append(f"Texts of up to {tokens} are written, as the longest target has.")
    if cut := both["cut"]:
        messages.append(f"Too long, and cut at their end as asked: {cut:,} of {total}.")
    if lost := both["unwritable"]:
        messages.append(
            f"Targets that hold what the tokenizer has no token for: {lost:,} of {total}; they can "
            "never be written to the letter."
        )
    if unnamed := both["unnamed"]:
        messages.append(
            f"Sources that show gaps as <extra_id_0> and so on, with targets that name none: "
            f"{unnamed:,} of {total}; fill reads what stands after these names; put them into the "
            "targets if gaps are to be filled."
        )
    template = None
    if both["chats"] and not start.tokenizer.has_chat_template:
        template = PLAIN_TEMPLATE
        messages.append("The tokenizer has no template for chats; a plain one is used and saved.")
    return Prepared(
        task,
        items,
        judged,
        tuple(messages),
        notes={"sentinels": "named"} if learned["named"] else {},
        chat_template=template,
        learns_turns=bool(learned["chats"]) and task.between is not None,
    )


def _about_lengths(task: TextToText, items: Sequence[Any]) -> list[str]:
    """That lengths are not for chats in one tower, which are read whole."""
    chats = sum(isinstance(item, ChatItem) for item in items)
    limits = {name: value for name, value in config.plain(task.lengths).items() if value}
    if task.between is None or not chats or not limits:
        return []
    name, value = next((name, str(value).lower()) for name, value in limits.items())
    if chats == len(items):
        rule = "every item is a chat, and one tower reads chats whole; it has no effect"
        advice = "leave it out, and drop chats that are too long with --skip-bad-rows"
        raise SettingError(f"task.lengths.{name}", Stated(value), rule, advice)
    return [f"task.lengths.{name} is {value}; it is not for chats, which are read whole."]
