"""Files for text to text: read as their format asks for, and written as sources and targets."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clozeworks.data.files.compression import COMPRESSIONS
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import ROLES
from clozeworks.data.labelled.items import ChatItem, Item, SourceItem
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.data.labelled.reading import Labelled, Reading, read_labelled
from clozeworks.errors import InputError
from clozeworks.tasks.text_to_text.formats import Format, format_of
from clozeworks.tasks.text_to_text.task import TextToText


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
        return read_labelled(files, "text-to-text", reading, bad=bad)
    tasks = names or [""] * len(files)
    parts = [
        _read(Path(file), name, task, reading, bad) for file, name in zip(files, tasks, strict=True)
    ]
    found = [f"{name}: {part.found}" for part in parts for name in part.files]
    return replace(
        parts[0],
        task="text-to-text",
        files=tuple(name for part in parts for name in part.files),
        items=[item for part in parts for item in part.items],
        kind="targets" if all(part.kind != "none" for part in parts) else "none",
        tables=tuple(table for part in parts for table in part.tables),
        found=parts[0].found if len(parts) == 1 else " ".join(found),
        reading=reading,
    )


def _read(path: Path, name: str, task: TextToText, reading: Reading, bad: BadRows) -> Labelled:
    known = task.formats.get(name, task.format)
    form = None if known is None else format_of(known)
    kind = form.kind if form else "text-to-text"
    roles = {role.name for role in ROLES[kind]}
    reading = replace(
        reading,
        columns={role: column for role, column in reading.columns.items() if role in roles},
        labels=_labels(form),
    )
    found = read_labelled([path], kind, reading, bad=bad)
    items: list[Item] = [_written(item, form, name) for item in found.items]
    if form is not None and form.kind != "text-to-text":
        said = f"{found.found} They are written as {form.name!r} asks for."
        found = replace(found, found=said.strip())
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
