"""Reads columns of text from parquet files, a few rows at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clozeworks.data.files.encodings import open_file, printable
from clozeworks.data.files.fields import TEXT_COLUMN, absent
from clozeworks.data.files.streaming import Position
from clozeworks.errors import InputError, MissingExtra

_ROWS = 64  # held at a time; a row can be a whole book
_BUFFER = 1 << 20


def check_library() -> None:
    """Insists that parquet can be read.

    Raises:
        MissingExtra: If it cannot.
    """
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("Reading parquet", "pyarrow", "parquet") from error
    return pyarrow, parquet


def read_columns(
    path: Path, columns: Sequence[str] | None, position: Position | None = None
) -> Iterator[tuple[int, list[str | None]]]:
    """Reads columns of strings; what else the file holds is not touched.

    Args:
        path: The file.
        columns: Their names; None takes `text`, or the only column of strings.
        position: Told how far the reading is, in bytes of the file.

    Yields:
        The number of each row, from 1, and its texts.

    Raises:
        InputError: If the file is damaged or has no such columns of strings.
        MissingExtra: If the library for parquet is not installed.
    """
    pyarrow, parquet = _pyarrow()
    origin = printable(path)
    with open_file(path) as file:
        size = path.stat().st_size
        try:
            # Without a buffer of a fixed size a column's whole row group is read at once.
            table = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
            names = columns or [_guessed(table.schema_arrow, pyarrow)]
            for name in names:
                _check(table.schema_arrow, name, origin, pyarrow)
            total = table.metadata.num_rows
            number = 0
            for batch in table.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(names))):
                texts = [_strings(batch.column(name), origin, number) for name in names]
                for row in zip(*texts, strict=True):
                    number += 1
                    yield number, list(row)
                if position is not None:
                    position(size * number // total)
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # only the system numbers its errors; that is about the disk
            # The message may have many lines; the first one says what is wrong.
            said = str(error).partition("\n")[0].rstrip(". ")
            raise InputError(
                f"{origin} is damaged or not a parquet file ({said}); copy or download it again."
            ) from error


def _is_string(kind: Any, pyarrow: Any) -> bool:
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def _guessed(schema: Any, pyarrow: Any) -> str:
    strings = [field.name for field in schema if _is_string(field.type, pyarrow)]
    only = len(strings) == 1 and TEXT_COLUMN not in schema.names
    return str(strings[0]) if only else TEXT_COLUMN


def _check(schema: Any, column: str, origin: str, pyarrow: Any) -> None:
    places = schema.get_all_field_indices(column)
    if not places:
        raise absent(origin, "column", column, list(schema.names))
    if len(places) > 1:
        raise InputError(
            f"{origin} has {len(places)} columns {column!r}; a name must be unique; "
            "rename the others."
        )
    kind = schema.field(places[0]).type
    if not _is_string(kind, pyarrow):
        raise InputError(
            f"{origin}: the column {column!r} holds {kind}; it must hold strings; choose another "
            "with --column, or convert it."
        )


def _strings(values: Any, origin: str, before: int) -> list[str | None]:
    try:
        texts: list[str | None] = values.to_pylist()
        return texts
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
