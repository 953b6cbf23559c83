"""Files for text to text: read as their format asks for, and written as sources and targets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clozeworks import config
from clozeworks.data.files.compression import COMPRESSIONS
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.data.labelled.reading import Labelled, Reading, read_items
from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.task import Task
from clozeworks.tasks.text_to_text.formats import Format, format_of
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, WritingItem
from clozeworks.tasks.text_to_text.task import TextToText


def read_files(
    files: Sequence[Path | str],
    settings: Mapping[str, Any],
    reading: Reading,
    bad: BadRows,
    *,
    train: Labelled | None = None,
) -> Labelled:
    """Reads the files of a recipe: each is a task of its own where tasks are mixed.

    Args:
        files: The files.
        settings: The settings of the task.
        reading: How they are read.
        bad: Collects bad rows.
        train: What was read to learn from, where these are files to be judged by.

    Raises:
        UnknownName: If a format is stated for a task that no file is for.
    """
    task = config.read(Task, dict(settings), "task")
    by_file = reading.by_file or bool(task.formats)
    if train is not None:
        known = task_names(train.files)
        names = dev_names(known, files) if by_file else None
        return read_texts(files, task, reading, bad, names=names)
    names = task_names(files) if by_file else None
    for name in task.formats:
        if name not in (names or ()):
            raise UnknownName("task.formats", name, names or ())
    return read_texts(files, task, reading, bad, names=names)


def read_texts(
    files: Sequence[Path | str],
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
        names: The task of each file, for items that name none; it decides the format, too.

    Raises:
        InputError: A file, a row or a label cannot be used.
    """
    if task.format is None and names is None:
        return read_items(files, WritingItem, reading, bad=bad)
    tasks = names or [""] * len(files)
    parts = [
        _read(Path(file), name, task, reading, bad) for file, name in zip(files, tasks, strict=True)
    ]
    found = [f"{name}: {part.description}" for part in parts for name in part.files]
    return replace(
        parts[0],
        item=WritingItem,
        files=tuple(name for part in parts for name in part.files),
        items=[item for part in parts for item in part.items],
        kind="targets" if all(part.kind != "none" for part in parts) else "none",
        tables=tuple(table for part in parts for table in part.tables),
        description=parts[0].description if len(parts) == 1 else " ".join(found),
        reading=reading,
    )


def _read(path: Path, name: str, task: TextToText, reading: Reading, bad: BadRows) -> Labelled:
    known = task.formats.get(name, task.format)
    form = None if known is None else format_of(known)
    item_type = form.item_type if form else WritingItem
    roles = {role.name for role in item_type.roles}
    reading = replace(
        reading,
        columns={role: column for role, column in reading.columns.items() if role in roles},
        labels=_labels(form),
    )
    found = read_items([path], item_type, reading, bad=bad)
    items: list[Item] = [_written(item, form, name) for item in found.items]
    if form is not None and form.item_type is not WritingItem:
        said = f"{found.description} They are written as {form.name!r} asks for."
        found = replace(found, description=said.strip())
    return replace(found, items=items)


def _labels(form: Format | None) -> AskedKind | None:
    if form is None or not (form.words or form.number):
        return None
    return "numbers" if form.number else "one"


def _written(item: Item, form: Format | None, name: str) -> Item:
    written = item if form is None else form.item(item)
    assert isinstance(written, SourceItem | ChatItem)
    if isinstance(item, SourceItem | ChatItem) and item.task:
        return item
    return replace(written, task=name)


def task_names(files: Sequence[Path | str]) -> list[str]:
    """What tasks are called that are told apart by their files, or by the folders of these."""
    paths = [Path(file) for file in files]
    stems = [_stem(path) for path in paths]
    folders = [path.resolve().parent.name for path in paths]
    return stems if len(set(stems)) == len(stems) or len(set(folders)) < 2 else folders


def dev_names(train: Sequence[str], files: Sequence[Path | str]) -> list[str]:
    """The same for dev files: by their own names, or one for each training file in order.

    Raises:
        InputError: Neither fits.
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


def named_format(task: TextToText, file: Path) -> list[str] | None:
    """The task of a file among several with formats of their own: by its name, or its folder's."""
    for name in (_stem(file), file.resolve().parent.name):
        if name in task.formats:
            return [name]
    return None


def _stem(path: Path) -> str:
    name = path.name
    for packing in COMPRESSIONS:
        name = name.removesuffix(packing)
    return Path(name).stem
