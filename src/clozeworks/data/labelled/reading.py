"""Reads labelled files of any usual format, and says what was taken for what.

What a row becomes is the item's affair (`Item.from_row`, `Item.read_file`, `Item.settle`); this
file finds columns, walks over rows, and collects those that cannot be used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

from clozeworks.data.files.compression import check_format
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.lines import DEFAULT_ENCODING
from clozeworks.data.files.tables import read_table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import Column, find_columns
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.errors import InputError, SettingError, Stated, UnknownName
from clozeworks.wording import counted


@dataclass(frozen=True)
class Reading:
    """How labelled files are read."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns a person named: by role, a name or a number counted from 1. What is not named is
    found."""
    header: bool | None = None
    """Whether the first row of csv or tsv is a header; None to find out."""
    labels: AskedKind | None = None
    """What kind the labels are; None to find out."""
    separator: str | None = None
    """What stands between several labels of one cell."""
    encoding: str = DEFAULT_ENCODING
    """What text files are written in; a byte order mark goes before it."""
    by_file: bool = False
    """Whether each file is a task of its own, for tasks that can be mixed."""

    def __post_init__(self) -> None:
        if self.separator == "":
            raise SettingError("--separator", Stated("empty"), "it must be a character such as |")
        if self.separator is not None and self.labels not in (None, "several"):
            rule = f"it stands between several labels, and --labels is {self.labels!r}"
            raise SettingError("--separator", self.separator, rule, "leave one of them out")

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

    @property
    def task(self) -> str:
        """What they are for."""
        return self.item.command

    @property
    def is_labelled(self) -> bool:
        """Whether it is known what is right."""
        return self.kind != "none"


def read_items(
    files: Path | str | Sequence[Path | str],
    item: type[Item],
    reading: Reading | None = None,
    *,
    bad: BadRows | None = None,
) -> Labelled:
    """Reads labelled files.

    The format follows from the suffix, and from the content where one suffix is used for several.
    Any text file may be packed (`.gz`, `.bz2`, `.xz`, `.zst`). The kind of the labels is decided
    over all rows of all files. A development file should be read as `reading` of the result for the
    training file says: its own rows may not show of which kind its labels are.

    Args:
        files: A file, or several.
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
        reading.labels or reading.separator
    ):
        name = "--labels" if reading.labels else "--separator"
        rule = f"only texts and pairs have labels of several kinds, and the task is {item.command}"
        raise SettingError(name, reading.labels or reading.separator, rule, "leave it out")
    paths = [Path(file) for file in ([files] if isinstance(files, Path | str) else files)]
    if not paths:
        raise InputError("there are no files; name at least one.")
    parts = [_read_file(path, item, reading, bad) for path in paths]
    origins = tuple(map(printable, paths))
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
        " ".join(dict.fromkeys(sentences)),
        reading,
        bad,
    )


def _read_file(path: Path, item: type[Item], reading: Reading, bad: BadRows) -> FileItems:
    suffix = check_format(path, item.suffixes, purpose=item.command)
    special = item.read_file(path, suffix, reading, bad)
    if special is not None:
        return special
    table = read_table(path, reading.encoding, bad.add)
    if not table.names:
        return FileItems()
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
