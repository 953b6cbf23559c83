"""Reads labelled files of any usual format, and says what was taken for what.

What a row becomes is the item's affair (`Item.from_row`, `Item.read_file`, `Item.settle`); this
file finds columns, walks over rows, and collects those that cannot be used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes
from clozeworks.data.files.tables import Table, read_table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column, find_columns
from clozeworks.data.labelled.in_memory import DataSource, InMemory, source_name
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.errors import InputError, SettingError, Stated, UnknownName
from clozeworks.spec import spec
from clozeworks.wording import counted


@spec
class Reading(FileFormat):
    """How labelled files are read."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns a person named: by role, a name or a number counted from 1. What is not named is
    found."""
    header: bool | None = None
    """Whether the first row of csv or tsv is a header; None to find out."""
    labels: AskedKind | None = None
    """What kind the labels are; None to find out."""
    label_separator: str | None = None
    """What stands between several labels of one cell."""
    by_file: bool = False
    """Whether each file is a task of its own, for tasks that can be mixed."""
    asks: bool = False
    """Whether a model is asked about the items: what is known of their targets does not matter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_separator == "":
            rule = "it must be a character such as |"
            raise SettingError("label_separator", Stated("empty"), rule)
        if self.label_separator is not None and self.labels not in (None, "several"):
            rule = f"it stands between several labels, and `labels` is {self.labels!r}"
            raise SettingError(
                "label_separator", self.label_separator, rule, "leave one of them out"
            )

    def refuse_columns(self, why: str) -> None:
        """Insists that no column was named, where there are none.

        Raises:
            SettingError: If one was; the message says why it has no effect.
        """
        if self.columns:
            named = ",".join(f"{role}={column}" for role, column in self.columns.items())
            rule = f"{why}, and there are no columns"
            raise SettingError("--columns", named, rule, "leave --columns out")


@dataclass(frozen=True)
class FileItems:
    """The items of one file, and how they were read."""

    items: Sequence[Item] = ()
    """The items."""
    columns: tuple[Column, ...] = ()
    """What its columns were taken to be; none where it has another layout."""
    has_header: bool = True
    """Whether its columns have names, or it is not a table."""
    layout: str = ""
    """What its layout is, in a sentence; empty for tables."""


@dataclass(frozen=True)
class Labelled:
    """Items from files, and how they were read."""

    item: type[Item]
    """What the rows became."""
    files: tuple[str, ...]
    """Where they came from."""
    items: Sequence[Any]
    """The items, in the order of the files and rows."""
    kind: str
    """What kind of labels they have; one of the item's."""
    columns: tuple[Column, ...]
    """What the columns of the first file were taken to be."""
    tables: tuple[tuple[Column, ...], ...]
    """The same for each file."""
    description: str
    """The same for people, in sentences, for all files."""
    reading: Reading
    """How files that go with them are to be read: as these, their kind of labels settled."""
    bad: BadRows
    """The rows that were dropped, and those that were repaired."""
    notes: tuple[str, ...] = ()
    """What there is to say about how the files were read, in sentences; part of `description`."""

    @property
    def task(self) -> str:
        """What they are for."""
        return self.item.command

    @property
    def is_labelled(self) -> bool:
        """Whether it is known what is right."""
        return self.kind != "none"


def read_items(
    files: DataSource | Sequence[DataSource],
    item: type[Item],
    reading: Reading | None = None,
    *,
    bad: BadRows | None = None,
) -> Labelled:
    """Reads labelled files, and what a program holds in place of files.

    The format follows from the suffix, and from the content where one suffix is used for several.
    Any text file may be packed (`.gz`, `.bz2`, `.xz`, `.zst`). The kind of the labels is decided
    over all rows of all files. A development file should be read as `reading` of the result for the
    training file says: its own rows may not show of which kind its labels are.

    Args:
        files: A file, or several; or what `data_sources` made of other data.
        item: What rows become.
        reading: How they are read.
        bad: Collects bad rows, and decides whether they are dropped; they are refused if not given.

    Returns:
        The items, and what was found out about the files.

    Raises:
        InputError: If a file or a row cannot be used as it is.
        MissingExtra: If a format needs a library that is not installed.
    """
    reading = reading or Reading()
    bad = bad or BadRows()
    known = [role.name for role in item.roles]
    for role in reading.columns:
        if role not in known:
            raise UnknownName(f"columns for {item.command}", role, known)
    if not any(role.holds == "label" for role in item.roles) and (
        reading.labels or reading.label_separator
    ):
        name = "labels" if reading.labels else "label_separator"
        rule = f"only texts and pairs have labels of several kinds, and the task is {item.command}"
        raise SettingError(name, reading.labels or reading.label_separator, rule, "leave it out")
    sources = [files] if isinstance(files, Path | str | InMemory) else files
    if not sources:
        raise InputError("there are no files; name at least one.")
    bad.notes = FileNotes()
    parts = [
        _read_memory(source, item, reading, bad)
        if isinstance(source, InMemory)
        else _read_file(Path(source), item, reading, bad)
        for source in sources
    ]
    origins = tuple(map(source_name, sources))
    items, kind = item.settle([each for part in parts for each in part.items], reading, bad)
    bad.finish()
    if not items:
        raise InputError(
            f"{', '.join(origins)}: no row is left, "
            f"{counted(len(bad.rows), 'was bad', 'were bad')}; the first: {bad.rows[0]}."
            if bad.rows
            else f"{', '.join(origins)}: there are no rows below the header; add some."
        )
    sentences = [_sentence(part, kind, item) for part in parts]
    if len(set(sentences)) > 1:
        sentences = [f"{origin}: {text}" for origin, text in zip(origins, sentences, strict=True)]
    if kind in get_args(AskedKind):
        reading = replace(reading, labels=cast(AskedKind, kind))
    return Labelled(
        item,
        origins,
        items,
        kind,
        parts[0].columns,
        tuple(part.columns for part in parts),
        " ".join(dict.fromkeys((*sentences, *bad.notes.sentences()))),
        reading,
        bad,
        bad.notes.sentences(),
    )


def _read_file(path: Path, item: type[Item], reading: Reading, bad: BadRows) -> FileItems:
    suffix = reading.check(path, item.suffixes, item.command)
    special = item.read_file(path, suffix, reading, bad)
    if special is not None:
        return special
    table = read_table(path, reading, bad.add, bad.notes)
    if not table.names:
        return FileItems()
    return _read_rows(table, item, reading, bad)


def _read_memory(source: InMemory, item: type[Item], reading: Reading, bad: BadRows) -> FileItems:
    """The items of data that a program holds; the values of tuples stand in the order of roles."""
    if source.table is None:
        reading.refuse_columns(f"{source.name} holds items")
        return FileItems([_placed(each, item, number, source) for number, each in _counted(source)])
    if reading.header is not None:
        rule = f"{source.name} is not a file of csv or tsv"
        raise SettingError("header", reading.header, rule, "leave it out")
    names = source.table.names
    named = {
        role: str(names.index(column) + 1) if column in names else column
        for role, column in reading.columns.items()
    }
    if not any(names) and not named:
        roles = places_of(item)
        if len(names) > len(roles):
            raise InputError(
                f"{source.name} has rows of {counted(len(names), 'value')}; a row of "
                f"{item.command} is {', '.join(roles)}; leave the others out, or give dicts."
            )
        named = {role: str(number) for number, role in enumerate(roles[: len(names)], start=1)}
        part = _read_rows(source.table, item, replace(reading, columns=named), bad)
        return replace(part, columns=tuple(replace(each, how="place") for each in part.columns))
    return _read_rows(source.table, item, replace(reading, columns=named), bad)


def places_of(item: type[Item]) -> list[str]:
    """What the values of a tuple are, in order: texts, what is required, and what is right."""
    return [
        role.name
        for role in item.roles
        if role.required or role.holds is not None or role.name == item.label_role
    ]


def _counted(source: InMemory) -> Iterator[tuple[int, Item]]:
    return enumerate(source.items, start=1)


def _placed(each: Item, item: type[Item], number: int, source: InMemory) -> Item:
    """An item that knows where it came from."""
    location = f"{source.name}, item {number:,}"
    if not isinstance(each, item):
        raise InputError(
            f"{location} is a {type(each).__name__}; {item.command} takes a {item.__name__}; give "
            "such items, or another task."
        )
    if each.source_location:
        return each
    return replace(each, source_location=location)  # type: ignore[type-var]


def _read_rows(table: Table, item: type[Item], reading: Reading, bad: BadRows) -> FileItems:
    table, columns = find_columns(table, item, reading.columns, reading.header)
    items = []
    for number, cells in table.rows:
        row = {column.role: cells[column.number - 1] for column in columns}
        source_location = table.location(number)
        try:
            items.append(item.from_row(row, source_location, bad))
        except ValueError as error:
            bad.add(source_location, str(error))
    return FileItems(items, columns, any(table.names))


def _sentence(part: FileItems, kind: str, item: type[Item]) -> str:
    """Says what was taken for what."""
    if not part.columns:
        return part.layout
    columns = f"Columns: {', '.join(map(str, part.columns))}"
    if not part.has_header:
        columns += "; there is no header"
    has_label = any(column.role == item.label_role for column in part.columns)
    return f"{columns}{item.described_labels(has_label, kind)}."
