"""Reads labelled files of any usual format, and says what was taken for what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from clozeworks.data.files.compression import COMPRESSIONS
from clozeworks.data.files.encodings import open_file, printable
from clozeworks.data.files.lines import DEFAULT_ENCODING, read_lines
from clozeworks.data.files.tables import (
    TABLE_SUFFIXES,
    Table,
    json_document,
    nothing,
    one_object_per_line,
    read_table,
)
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import ROLES, Column, TaskName, find_columns
from clozeworks.data.labelled.items import (
    ChatItem,
    Item,
    Label,
    PairItem,
    QuestionItem,
    SourceItem,
    TextItem,
    WordsItem,
)
from clozeworks.data.labelled.labels import (
    CELLS,
    AskedKind,
    LabelKind,
    is_empty,
    kind_of_labels,
    ordered,
    read_label,
    shown,
)
from clozeworks.data.labelled.readers.conll import (
    CONLL_SUFFIXES,
    CONLLU_SUFFIX,
    read_conll,
    tagged_rows,
)
from clozeworks.data.labelled.readers.sources import source_rows, with_targets
from clozeworks.data.labelled.readers.squad import is_squad, question_rows, read_squad, wrong_text
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.wording import counted

SUFFIXES: dict[str, tuple[str, ...]] = {
    "classify": TABLE_SUFFIXES,
    "compare": TABLE_SUFFIXES,
    "answer": TABLE_SUFFIXES,
    "tag": (*CONLL_SUFFIXES, CONLLU_SUFFIX, ".jsonl", ".json", ".parquet"),
    "fill": (*TABLE_SUFFIXES, ".txt"),
    "text-to-text": TABLE_SUFFIXES,
    "generate": (*TABLE_SUFFIXES, ".txt"),
}


@dataclass(frozen=True)
class Reading:
    """How labelled files are read.

    Attributes:
        columns: The columns a person named: by role, a name or a number counted from 1. What is not
            named is found. The roles of each task are in `ROLES`.
        header: Whether the first row of csv or tsv is a header; None to find out.
        labels: What kind the labels are; None to find out.
        separator: What stands between several labels of one cell.
        encoding: What text files are written in; a byte order mark goes before it.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    header: bool | None = None
    labels: AskedKind | None = None
    separator: str | None = None
    encoding: str = DEFAULT_ENCODING

    def __post_init__(self) -> None:
        if self.separator == "":
            raise SettingError("--separator is empty; it must be a character such as |.")
        if self.separator is not None and self.labels not in (None, "several"):
            raise SettingError(
                f"--separator is {self.separator!r} and --labels is {self.labels!r}; a separator "
                "stands between several labels; leave one of them out."
            )


@dataclass(frozen=True)
class Labelled:
    """Items from files, and how they were read.

    Attributes:
        task: What they are for.
        files: Where they came from.
        items: The items, in the order of the files and rows.
        kind: What kind of labels they have.
        columns: What the columns of the first file were taken to be.
        tables: The same for each file.
        found: The same for people, in sentences, for all files.
        reading: How files that go with them are to be read: as these, their kind of labels settled.
        bad: The rows that were dropped, and those that were repaired.
    """

    task: TaskName
    files: tuple[str, ...]
    items: Sequence[Item]
    kind: LabelKind
    columns: tuple[Column, ...]
    tables: tuple[tuple[Column, ...], ...]
    found: str
    reading: Reading
    bad: BadRows


def read_labelled(
    files: Path | str | Sequence[Path | str],
    task: TaskName,
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
        task: What the items are for.
        reading: How they are read.
        bad: Collects bad rows, and decides whether they are dropped; they are refused if not given.

    Returns:
        The items, and what was found out about the files.

    Raises:
        InputError: If a file or a row cannot be used as it is.
        MissingExtra: If a format needs a library that is not installed.
    """
    if task not in get_args(TaskName):
        raise UnknownName("task", task, get_args(TaskName))
    reading = reading or Reading()
    bad = bad or BadRows()
    known = [role.name for role in ROLES[task]]
    for role in reading.columns:
        if role not in known:
            raise UnknownName(f"columns for {task}", role, known)
    if "label" not in known and (reading.labels or reading.separator):
        name = "--labels" if reading.labels else "--separator"
        raise SettingError(
            f"{name} is {(reading.labels or reading.separator)!r}; only classify and compare have "
            f"labels of several kinds, and the task is {task}; leave it out."
        )
    paths = [Path(file) for file in ([files] if isinstance(files, Path | str) else files)]
    if not paths:
        raise InputError("there are no files; name at least one.")
    parts = [_read_file(path, task, reading, bad) for path in paths]
    origins = tuple(map(printable, paths))
    items, kind = _labelled(parts, task, reading, bad)
    bad.finish()
    if not items:
        raise InputError(
            f"{', '.join(origins)}: no row is left, "
            f"{counted(len(bad.rows), 'was bad', 'were bad')}; the first: {bad.rows[0]}."
            if bad.rows
            else f"{', '.join(origins)}: there are no rows below the header; add some."
        )
    found = [_sentence(part, kind, task) for part in parts]
    if len(set(found)) > 1:
        found = [f"{origin}: {said}" for origin, said in zip(origins, found, strict=True)]
    if kind == "one" or kind == "several" or kind == "numbers":
        reading = replace(reading, labels=kind)
    return Labelled(
        task,
        origins,
        items,
        kind,
        parts[0].columns,
        tuple(part.columns for part in parts),
        " ".join(dict.fromkeys(found)),
        reading,
        bad,
    )


@dataclass(frozen=True)
class _Part:
    """One file: items that are ready, or rows whose labels are still to be read."""

    columns: tuple[Column, ...] = ()
    items: Sequence[Item] = ()
    texts: Sequence[tuple[str, ...]] = ()
    labels: Sequence[Any] = ()
    places: Sequence[str] = ()
    header: bool = True


def suffix_of(path: Path, task: TaskName) -> str:
    """The suffix that says what is in a file, below that of its packing.

    Raises:
        InputError: If the task has no such files.
    """
    packed = path.suffix.lower() in COMPRESSIONS
    suffix = (Path(path.stem) if packed else path).suffix.lower()
    if suffix in SUFFIXES[task] and not (packed and suffix == ".parquet"):
        return suffix
    with open_file(path):  # that a file is missing is worse news than its suffix
        pass
    shown_suffix = "".join(path.suffixes[-2:] if packed else path.suffixes[-1:])
    has = f"has the suffix {shown_suffix!r}" if shown_suffix else "has no suffix"
    raise InputError(
        f"{printable(path)} {has}; for {task} the known are {', '.join(SUFFIXES[task])}, all but "
        f".parquet also with {', '.join(COMPRESSIONS)}; rename or convert the file."
    )


def _read_file(path: Path, task: TaskName, reading: Reading, bad: BadRows) -> _Part:
    suffix = suffix_of(path, task)
    origin = printable(path)
    if task == "tag" and suffix in (*CONLL_SUFFIXES, CONLLU_SUFFIX):
        lines = read_lines(path, encoding=reading.encoding)
        conllu = suffix == CONLLU_SUFFIX
        sentences, columns = read_conll(lines, origin, reading.columns, bad, conllu=conllu)
        return _Part(columns, sentences, header=False)
    if suffix == ".txt":
        return _lines(path, origin, reading)
    if task == "answer" and suffix == ".json":
        held = list(read_lines(path, encoding=reading.encoding))
        if not one_object_per_line(held):
            value = json_document(held, origin)
            if is_squad(value):
                _check_no_columns(reading, f"{origin} has the layout of SQuAD")
                return _Part((), read_squad(value, origin, bad))
    table = read_table(path, reading.encoding, bad.add)
    if not table.names:
        return _Part()
    table, columns = find_columns(table, task, reading.columns, reading.header)
    header = any(table.names)
    if task == "tag":
        return _Part(columns, tagged_rows(table, columns, bad), header=header)
    if task == "answer":
        return _Part(columns, question_rows(table, columns, bad), header=header)
    if task == "text-to-text":
        return _Part(columns, source_rows(table, columns, bad), header=header)
    return _text_rows(table, columns, bad)


def _lines(path: Path, origin: str, reading: Reading) -> _Part:
    """Each line of a text file as a text without a label."""
    _check_no_columns(reading, f"each line of {origin} is a text")
    items = [
        TextItem(line, None, f"{origin}, line {number:,}")
        for number, line in enumerate(read_lines(path, encoding=reading.encoding), start=1)
        if line.strip()
    ]
    if not items:
        raise nothing(origin)
    return _Part((), items, header=False)


def _check_no_columns(reading: Reading, why: str) -> None:
    if reading.columns:
        named = ",".join(f"{role}={column}" for role, column in reading.columns.items())
        raise SettingError(
            f"--columns is {named!r}; {why}, and there are no columns; leave --columns out."
        )


def _text_rows(table: Table, columns: tuple[Column, ...], bad: BadRows) -> _Part:
    """Takes texts and labels out of rows; those with a text that cannot be used are bad."""
    wanted = [column for column in columns if column.role != "label"]
    label = next((column.number for column in columns if column.role == "label"), 0)
    texts, labels, places = [], [], []
    for number, cells in table.rows:
        row = tuple(cells[column.number - 1] for column in wanted)
        names = (f"{column.role} text" if len(wanted) > 1 else "text" for column in wanted)
        wrong = next(filter(None, map(wrong_text, row, names)), "")
        if wrong:
            bad.add(table.place(number), wrong)
            continue
        texts.append(row)
        labels.append(cells[label - 1] if label else None)
        places.append(table.place(number))
    return _Part(columns, (), texts, labels, places, any(table.names))


def _labelled(
    parts: Sequence[_Part], task: TaskName, reading: Reading, bad: BadRows
) -> tuple[list[Item], LabelKind]:
    """Reads the labels of all files, now that all are known."""
    items = [item for part in parts for item in part.items]
    kind: LabelKind = "none"
    if task == "tag":
        _check_tagged(items)
        kind = "tags" if any(isinstance(i, WordsItem) and i.tags for i in items) else "none"
    elif task == "answer":
        questions = [item for item in items if isinstance(item, QuestionItem)]
        kind = "answers" if any(i.answers or i.impossible for i in questions) else "none"
    elif task == "text-to-text":
        items = with_targets(items, bad)
        bare = any(isinstance(i, SourceItem | ChatItem) and i.target is None for i in items)
        kind = "none" if bare else "targets"
    if task not in ("classify", "compare"):
        texts = [
            TextItem(row[0], None, place)
            for part in parts
            for row, place in zip(part.texts, part.places, strict=True)
        ]
        return [*items, *texts], kind
    values = [value for part in parts for value in part.labels]
    kind = kind_of_labels(values, reading.separator)
    if kind != "none" and reading.labels is not None:
        kind = reading.labels
    return [*_items(parts, kind, values, reading.separator, bad)], kind


def _items(
    parts: Sequence[_Part],
    kind: LabelKind,
    values: Sequence[Any],
    separator: str | None,
    bad: BadRows,
) -> list[TextItem | PairItem]:
    items: list[TextItem | PairItem] = []
    advice = _advice(values, kind)
    for part in parts:
        for row, value, place in zip(part.texts, part.labels, part.places, strict=True):
            label: Label = None
            if kind != "none":
                # Where several labels are written in one cell, an empty one says that none applies.
                if is_empty(value) and not (separator and value == ""):
                    bad.add(place, f"the label is empty; {advice}")
                    continue
                try:
                    label = read_label(value, kind, separator)
                except ValueError as error:
                    bad.add(place, str(error))
                    continue
            if len(row) == 1:
                items.append(TextItem(row[0], label, place))
            else:
                items.append(PairItem(row[0], row[1], label, place))
    return items


def _advice(values: Sequence[Any], kind: LabelKind) -> str:
    if kind != "one":
        return "give it a number" if kind == "numbers" else "give it a list"
    names = {str(value).strip() for value in values if not is_empty(value)}
    return f"give it one of: {shown(ordered(names))}"


def _check_tagged(items: Sequence[Item]) -> None:
    words = [item for item in items if isinstance(item, WordsItem)]
    bare = next((item for item in words if item.tags is None), None)
    if bare is not None and any(item.tags is not None for item in words):
        raise InputError(
            f"{bare.place}: the words have no tags, and those of another file have; tag them, or "
            "leave this file out."
        )


def _sentence(part: _Part, kind: LabelKind, task: TaskName) -> str:
    """Says what was taken for what."""
    if not part.columns:
        return {"answer": "The layout is SQuAD's.", "fill": "Each line is a text."}.get(task, "")
    said = f"Columns: {', '.join(map(str, part.columns))}"
    if not part.header and task != "tag":
        said += "; there is no header"
    if task in ("classify", "compare"):
        labelled = any(column.role == "label" for column in part.columns)
        if not labelled:
            return f"{said}; no column looks like the label."
        return f"{said}; the label is {CELLS[kind]}."
    return f"{said}."
