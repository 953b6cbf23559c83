"""Labelled data that a program holds: frames, datasets, columns, lists of rows or of items.

Frames of pandas, polars and pyarrow, everything with the Arrow stream interface, and `datasets` are
recognised by what they offer; none of these libraries is imported, but pyarrow where only it can
read a stream. Cells become plain values: numbers of numpy are numbers, whatever says that a value
is missing is None, and a class label of `datasets` is its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from clozeworks.data.files.compression import format_suffix
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.lines import read_lines
from clozeworks.data.files.tables import RowCells, Table, read_table
from clozeworks.data.labelled.items import Item
from clozeworks.errors import InputError, MissingExtra


class Frame(Protocol):
    """A table of some library, a dataset, or a dict of columns."""

    def __len__(self) -> int:
        """How many rows or columns it has, as its library counts."""

    def __getitem__(self, key: Any, /) -> Any:
        """A part of it, as its library has it."""


_FORMS = (
    "give a file or a list of files, a frame of pandas, polars or pyarrow, a dataset, a dict of "
    "columns, or a list of rows (dicts, tuples or items)"
)
_ASKED_FORMS = (
    "it must be a list of items, texts or rows, a frame, a dataset, a dict of columns, or the Path "
    "of a file"
)
_TEXT_FORMS = "it must be a text, or a list of texts"
TRAIN = "train"
"""The split to learn from."""
DEV_SPLITS = ("dev", "validation", "valid", "val", "eval")
"""What the split to be measured on is called, the likeliest first."""
# What libraries call a value that is not there.
_ABSENT = ("NAType", "NaTType")


@dataclass(frozen=True)
class InMemory:
    """Labelled data that a program holds, read like a file."""

    name: str
    """What messages call it."""
    table: Table | None = None
    """Its rows; without names where they are tuples."""
    items: Sequence[Item] = ()
    """Its items, where it holds items."""


# What labelled data is read from.
DataSource = Path | str | InMemory


def data_sources(data: Any, name: str) -> list[DataSource]:
    """What labelled data of any form is read from: files, or what a program holds.

    Args:
        data: A file, several, a frame, a dataset, columns, rows or items; or several of these.
        name: What messages call it.

    Raises:
        InputError: If it is nothing that can be read.
        MissingExtra: If it can only be read with a library that is not installed.
    """
    if isinstance(data, str | Path):
        return [data]
    if isinstance(data, InMemory):
        return [data]
    if isinstance(data, list | tuple) and data and all(map(_is_whole, data)):
        number = iter(range(1, len(data) + 1))
        return [
            each if isinstance(each, str | Path) else in_memory(each, f"{name} {next(number)}")
            for each in data
        ]
    return [in_memory(data, name)]


def in_memory(data: Any, name: str) -> InMemory:
    """Data that a program holds, to be read like a file.

    Raises:
        InputError: If it holds no rows, or what is not a row.
        MissingExtra: If it can only be read with a library that is not installed.
    """
    if (columns := _columns(data)) is not None:
        table = _table(columns, name)
        if not table.rows:
            raise InputError(f"{name} has no rows; there must be at least one; give others.")
        return InMemory(name, table)
    if isinstance(data, Mapping):
        raise _not_columns(data, name)
    rows = list(_values(data, name, _FORMS))
    if not rows:
        raise InputError(f"{name} is empty; there must be at least one row; give some.")
    if any(isinstance(row, Item) for row in rows):
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, Item):
                raise _other_row(name, number, row, "an item")
        return InMemory(name, items=rows)
    if any(isinstance(row, Mapping) for row in rows):
        return InMemory(name, _from_dicts(rows, name))
    return InMemory(name, _from_tuples(rows, name))


def split_data(data: Any) -> Mapping[str, Any] | None:
    """The splits of data that has some, by name; None if it is one set.

    A dict is splits if one of them is called train; so is what `datasets` loads.
    """
    if not isinstance(data, Mapping):
        return None
    is_splits = TRAIN in data or (bool(data) and all(map(_is_frame, data.values())))
    return data if is_splits else None


def prediction_rows(data: Any, name: str = "items") -> list[Any]:
    """The rows of data of any form that a model is asked about: dicts, texts, tuples or items.

    A `Path` is a file; strings are texts.

    Raises:
        InputError: If it is nothing that has rows.
    """
    if isinstance(data, Path):
        if format_suffix(data) == ".txt":
            return list(read_lines(data))
        return _dicts(read_table(data))
    if (columns := _columns(data)) is not None:
        return _dicts(_table(columns, name))
    if isinstance(data, Mapping):
        raise _not_columns(data, name)
    rows = _values(data, name, _ASKED_FORMS)
    return [
        {str(key): plain_value(cell) for key, cell in row.items()}
        if isinstance(row, Mapping)
        else row
        for row in rows
    ]


def listed_texts(data: Any, name: str = "texts") -> list[Any]:
    """The texts that a program hands over without a task: one, a list, or a column of a frame.

    Raises:
        InputError: If it is something else. A frame would be read as the names of its columns.
    """
    if isinstance(data, str):
        return [data]
    if is_table(data) or isinstance(data, Mapping):
        advice = "read the file first" if isinstance(data, Path) else "give one of its columns"
        raise InputError(f"{name} is {value_in_words(data)}; {_TEXT_FORMS}; {advice}.")
    return list(_values(data, name, _TEXT_FORMS))


def is_table(data: Any) -> bool:
    """Whether data is a frame, a dataset or a dict of columns, and not a list of rows."""
    return isinstance(data, Path) or _is_frame(data) or _are_columns(data)


def plain_value(value: Any) -> Any:
    """A cell as JSON could hold it; None if it is missing in the way of some library."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, float):
        return None if value != value else float(value)
    if isinstance(value, Enum):
        return plain_value(value.value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if type(value).__name__ in _ABSENT:
        return None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    for method in ("tolist", "as_py", "to_list", "to_pylist"):  # numpy, pyarrow, polars
        if hasattr(value, method):
            return plain_value(getattr(value, method)())
    return value


def _is_whole(data: Any) -> bool:
    """Whether this is a set of rows of its own, rather than a row."""
    return isinstance(data, str | Path) or _is_frame(data)


def _is_frame(data: Any) -> bool:
    return (
        _is_dataset(data)
        or _has(data, "iloc", "columns")
        or _has(data, "iter_rows", "get_columns")
        or _has(data, "collect", "collect_schema")
        or _has(data, "column_names", "to_pydict")
        or (hasattr(data, "__arrow_c_stream__") and not _is_series(data))
    )


def _is_dataset(data: Any) -> bool:
    return _has(data, "features", "column_names") and not isinstance(data, Mapping)


def _is_series(data: Any) -> bool:
    """Whether this is one column: a series, or an array of Arrow."""
    return _has(data, "to_list") or _has(data, "to_pylist", "combine_chunks", "chunks")


def _are_columns(data: Any) -> bool:
    return (
        isinstance(data, Mapping)
        and bool(data)
        and all(
            isinstance(column, list | tuple) or _has(column, "tolist") or _is_series(column)
            for column in data.values()
        )
    )


def _has(data: Any, *names: str) -> bool:
    return not isinstance(data, type) and all(hasattr(data, name) for name in names)


def _columns(data: Any) -> list[tuple[str, list[Any]]] | None:
    """Names and plain values of columns; None if the data has no columns."""
    if _is_dataset(data):
        return _dataset_columns(data)
    if _has(data, "iloc", "columns"):  # by number: names may repeat
        return [
            (str(name), list(map(plain_value, data.iloc[:, number].tolist())))
            for number, name in enumerate(data.columns)
        ]
    if _has(data, "collect", "collect_schema"):
        data = data.collect()
    if _has(data, "iter_rows", "get_columns"):
        return [
            (column.name, list(map(plain_value, column.to_list()))) for column in data.get_columns()
        ]
    if _is_frame(data):  # of Arrow, or what can be read as such
        if not _has(data, "column_names", "to_pydict"):
            data = _arrow_table(data)
        return [
            (str(name), list(map(plain_value, column.to_pylist())))
            for name, column in zip(data.column_names, data.columns, strict=True)
        ]
    if _are_columns(data):
        return [
            (str(name), column if isinstance(column := plain_value(values), list) else [column])
            for name, values in data.items()
        ]
    return None


def _arrow_table(data: Any) -> Any:
    try:
        pyarrow = import_module("pyarrow")
    except ImportError as error:
        raise MissingExtra(f"Reading a {type(data).__name__}", "pyarrow", "parquet") from error
    return pyarrow.table(data)


def _dataset_columns(data: Any) -> list[tuple[str, list[Any]]]:
    """The columns of a dataset of `datasets`, its class labels by their names."""
    if _has(data, "with_format"):
        data = data.with_format(None)  # plain values, whatever the program has set
    features = data.features or {}
    names = list(data.column_names or features)
    read: dict[str, Callable[[Any], Any]] = {name: _reader_of(features.get(name)) for name in names}
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in data:
        for name, cell in row.items():
            if name not in columns:  # a stream may not know its columns beforehand
                read[name], columns[name] = plain_value, []
            columns[name].append(read[name](cell))
    return list(columns.items())


def _reader_of(feature: Any) -> Callable[[Any], Any]:
    """Reads the cells of a feature: numbers of class labels as names, below 0 as missing."""
    if _has(feature, "names", "int2str"):
        names = list(feature.names)

        def name(cell: Any) -> Any:
            number = plain_value(cell)
            if not isinstance(number, int):
                return number
            return names[number] if number >= 0 else None

        return name
    if _has(feature, "feature"):
        inner = _reader_of(feature.feature)
        return lambda cell: None if cell is None else plain_value(list(map(inner, cell)))
    return plain_value


def _table(columns: Sequence[tuple[str, list[Any]]], name: str) -> Table:
    lengths = {len(values) for _, values in columns}
    if len(lengths) > 1:
        named = ", ".join(f"{column} {len(values):,}" for column, values in columns)
        raise InputError(
            f"{name}: the columns have unequal numbers of rows ({named}); each row needs a cell "
            "of each; make them equal."
        )
    names = tuple(column for column, _ in columns)
    rows: Iterable[RowCells] = zip(*(values for _, values in columns), strict=True)
    return Table(name, "row", names, list(enumerate(rows, start=1)))


def _from_dicts(rows: Sequence[Any], name: str) -> Table:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise _other_row(name, number, row, "a dict")
    names = dict.fromkeys(str(key) for row in rows for key in row)
    plain = [{str(key): plain_value(cell) for key, cell in row.items()} for row in rows]
    cells = ([row.get(key) for key in names] for row in plain)
    return Table(name, "row", tuple(names), list(enumerate(cells, start=1)))


def _from_tuples(rows: Sequence[Any], name: str) -> Table:
    width = 0
    plain: list[list[Any]] = []
    for number, row in enumerate(rows, start=1):
        cells = plain_value(row)
        if not isinstance(cells, list):
            cells = [cells]
            if not isinstance(row, str):
                raise InputError(
                    f"{name}, row {number:,} is {value_in_words(row)}; a row is a dict, a tuple or "
                    "an item; give such rows."
                )
        width = width or len(cells)
        if len(cells) != width:
            raise InputError(
                f"{name}, row {number:,} has {len(cells):,} values, and the first has {width:,}; "
                "all rows need as many; make them equal."
            )
        plain.append(cells)
    return Table(name, "row", ("",) * width, list(enumerate(plain, start=1)))


def _dicts(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.names, cells, strict=True)) for _, cells in table.rows]


def _values(data: Any, name: str, forms: str) -> Iterator[Any]:
    """The rows of a list or of a series; `forms` says what else there may be.

    Raises:
        InputError: If it has none.
    """
    if isinstance(data, str | bytes | bytearray | type) or not isinstance(data, Iterable):
        raise InputError(f"{name} is {value_in_words(data)}; {forms}.")
    if _is_series(data) or _has(data, "tolist"):
        data = plain_value(data)
    return iter(data)


def _not_columns(data: Mapping[Any, Any], name: str) -> InputError:
    if not data:
        return InputError(f"{name} is empty; there must be at least one row; give some.")
    column = next(key for key, values in data.items() if not _are_columns({"": values}))
    return InputError(
        f"{name} is a dict, and {column!r} in it is {value_in_words(data[column])}; a dict holds "
        "columns, a list for each; give lists, or a list of such dicts."
    )


def _other_row(name: str, number: int, row: Any, others: str) -> InputError:
    return InputError(
        f"{name}, row {number:,} is {value_in_words(row)}, and another is {others}; all rows must "
        "be of one kind; make them alike."
    )


def value_in_words(value: Any) -> str:
    """What a message calls a value of the wrong type."""
    if value is None or isinstance(value, type):
        return "None" if value is None else f"the class {value.__name__}"
    if isinstance(value, int | float):
        return f"the number {value}"
    names: dict[type, str] = {
        str: "a text",
        bytes: "bytes",
        dict: "a dict",
        list: "a list",
        tuple: "a tuple",
    }
    return names.get(type(value), f"a value of type {type(value).__name__}")


def source_name(source: DataSource) -> str:
    """What messages call a source."""
    return source.name if isinstance(source, InMemory) else printable(Path(source))
