"""Reads rows of parquet files, a few at a time."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clozeworks.data.files.compression import Position
from clozeworks.data.files.encodings import open_file, printable
from clozeworks.data.files.fields import text_columns
from clozeworks.data.files.file_format import LONGEST_ROW
from clozeworks.errors import InputError, MissingExtra

_ROWS = 64  # held at a time; a row can be a whole book
_BUFFER = 1 << 20


def pyarrow_modules(purpose: str = "Reading parquet") -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        MissingExtra: If they are not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra(purpose, "pyarrow", "parquet") from error
    return pyarrow, parquet


def not_binary(origin: str, schema: Any, pyarrow: Any) -> list[str]:
    """All columns but binary ones: pictures and sounds have no part in a text."""
    return [field.name for field in schema if not pyarrow.types.is_binary(field.type)]


def parquet_rows(
    path: Path,
    position: Position | None = None,
    choose: Callable[[str, Any, Any], list[str]] = not_binary,
    *,
    longest: int = LONGEST_ROW,
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Reads the columns that `choose` names, by the file and its schema, and touches no others.

    A cell may have as many bytes as `longest` says.

    Yields:
        Row 0, which is the names of the columns; then the number of each row, from 1, and its
        cells, of which any may be None.

    Raises:
        InputError: If the file is damaged, or has not the columns it should have.
        MissingExtra: If the library for parquet is not installed.
    """
    pyarrow, parquet = pyarrow_modules()
    origin = printable(path)
    with open_file(path) as file:
        size = path.stat().st_size
        try:
            # Without a buffer of a fixed size a column's whole row group is read at once.
            table = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
            names = choose(origin, table.schema_arrow, pyarrow)
            yield 0, names
            number, total = 0, table.metadata.num_rows
            for batch in table.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(names))):
                for name in names:
                    _check_length(batch.column(name), origin, number, longest)
                cells = [_values(batch.column(name), origin, number) for name in names]
                if position is not None:
                    position(size * (number + batch.num_rows) // total)
                for row in zip(*cells, strict=True):
                    number += 1
                    yield number, row
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # only the system numbers its errors; that is about the disk
            # The message may have many lines; the first one says what is wrong.
            reason = str(error).partition("\n")[0].rstrip(". ")
            raise InputError(
                f"{origin} is damaged or not a parquet file ({reason}); copy or download it again."
            ) from error


def strings(columns: Sequence[str] | None, origin: str, schema: Any, pyarrow: Any) -> list[str]:
    """The columns of strings that a person named; else `text`, or the only one.

    Raises:
        InputError: If there are no such columns of strings.
    """

    def is_string(index: int) -> bool:
        kind = schema.field(index).type
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))

    indices = text_columns(schema.names, columns, origin, is_string)
    for index in indices:
        if not is_string(index):
            field = schema.field(index)
            raise InputError(
                f"{origin}: the column {field.name!r} holds {field.type}; it must hold strings; "
                "choose another with --column, or convert it."
            )
    return [schema.names[index] for index in indices]


def _check_length(values: Any, origin: str, before: int, longest: int) -> None:
    """Insists that no cell is too long; the sum of all is known without reading them."""
    if values.nbytes <= longest:
        return
    for number, value in enumerate(values, start=before + 1):
        size = value.as_buffer().size if hasattr(value, "as_buffer") and value.is_valid else 0
        if size > longest:
            raise InputError(
                f"{origin}, row {number:,} has a cell of {size:,} bytes; a row may have "
                f"{longest:,}; cut it, or raise --max-row-length."
            )


def _values(values: Any, origin: str, before: int) -> list[Any]:
    try:
        cells: list[Any] = values.to_pylist()
        return cells
    except UnicodeDecodeError:
        for number, value in enumerate(values, start=before + 1):
            try:
                value.as_py()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{origin}, row {number:,}: the text is not valid UTF-8, which strings in "
                    "parquet files must be; write the file again."
                ) from error
        raise
