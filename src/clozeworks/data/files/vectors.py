"""Writes vectors to a file: `.npy`, `.jsonl` or `.parquet`."""

import os
import shlex
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.parquet import pyarrow_modules
from clozeworks.errors import InputError, OutputError
from clozeworks.storage.atomic import atomic_file
from clozeworks.wording import as_json

PARQUET_ROWS = 16_384  # rows in one group; bounds the memory that a long file takes to write


def check_output(
    path: Path, *, overwrite: bool, suffixes: Sequence[str], name: str = "vectors"
) -> None:
    """Finds out, before long work begins, whether its result can be written.

    Args:
        path: The file that will be written.
        overwrite: Whether a file that is already there may be replaced.
        suffixes: The endings that choose a format, such as `.npy`.
        name: What the file may be called, without an ending.

    Raises:
        OutputError: If the file cannot be written as things are.
        MissingExtra: If the format needs a library that is not installed.
    """
    try:
        _check_output(path, overwrite, suffixes, name)
    except OutputError:
        raise
    except OSError as error:  # a name that is too long, a loop of links, a folder without access
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}; choose another place."
        ) from error


def _check_output(path: Path, overwrite: bool, suffixes: Sequence[str], name: str) -> None:
    if path.is_dir():
        example = path / f"{name}{suffixes[0]}"
        raise OutputError(f"{path} is a folder; name a file, such as {example}.")
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        ending = f"has the suffix {path.suffix!r}" if suffix else "has no suffix"
        near = get_close_matches(suffix, suffixes, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise OutputError(
            f"{path} {ending}; known: {', '.join(suffixes)}; the suffix chooses the format, "
            f"so end the name in one of them.{hint}"
        )
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; choose another name, or replace it with --overwrite.")
    folder = path.parent
    if not folder.is_dir():
        blocking = next(ancestor for ancestor in path.parents if ancestor.exists())
        if not blocking.is_dir():
            raise OutputError(
                f"{path} cannot be written: {blocking} is a file, not a folder; "
                "choose another place."
            )
        raise OutputError(
            f"{path} cannot be written: the folder {folder} does not exist; "
            f"create it with: mkdir -p {shlex.quote(str(folder))}."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"{path} cannot be written: the folder {folder} is not writable; "
            "choose another place, or change its permissions."
        )
    if suffix == ".parquet":
        pyarrow_modules("Writing parquet")


def write_vectors(
    path: Path, vectors: NDArray[np.floating[Any]], texts: Sequence[str], *, overwrite: bool = False
) -> None:
    """Writes one vector per text, in the order of the texts, as float32.

    The suffix chooses the format. `.npy` holds the matrix alone. `.jsonl` has one object per line,
    `{"text": …, "vector": […]}`, each number as short as it can be and still give back the same
    float32. `.parquet` has the columns `text` and `vector`, the latter lists of one fixed size.

    The file appears complete or not at all; an older one stays as it is until then.

    Args:
        path: The file to write.
        vectors: A matrix with one row per text.
        texts: The texts the vectors belong to.
        overwrite: Whether a file that is already there may be replaced; if not, the vectors are
            written beside it.

    Raises:
        OutputError: If the file cannot be written, or another one is there.
        InputError: If vectors and texts do not belong together or do not fit the format.
        MissingExtra: If the format needs a library that is not installed.
    """
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating):
        raise InputError(
            f"The vectors are an array of shape {vectors.shape} and type {vectors.dtype}; "
            "it must be a matrix of floating-point numbers; give one row per text."
        )
    if len(vectors) != len(texts):
        raise InputError(
            f"There are {len(vectors):,} vectors and {len(texts):,} texts; "
            "each text has one vector; give as many of one as of the other."
        )
    check_output(path, overwrite=True, suffixes=VECTOR_SUFFIXES)
    matrix = np.ascontiguousarray(vectors, dtype="<f4")
    with atomic_file(path, overwrite=overwrite) as file:
        _WRITERS[path.suffix.lower()](file, matrix, texts)


def _write_npy(file: IO[bytes], matrix: NDArray[np.float32], texts: Sequence[str]) -> None:
    # Trap: np.save reports a full disk as "100 requested and 0 written", without saying why.
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(matrix))
    file.write(matrix.data)


def write_jsonl(file: IO[bytes], matrix: NDArray[np.float32], texts: Sequence[str]) -> None:
    """Writes one JSON object per line to an open file, or to standard output."""
    for number, (text, row) in enumerate(zip(texts, matrix, strict=True), start=1):
        if not np.isfinite(row).all():
            raise InputError(
                f"Vector {number:,} holds {row[~np.isfinite(row)][0]}; JSON has only finite "
                "numbers; write a .npy or .parquet file instead."
            )
        _check_text(text, number)
        # str of a float32 is the shortest decimal that reads back as the same float32.
        numbers = ", ".join([str(value) for value in row])
        quoted = as_json(text)
        file.write(f'{{"text": {quoted}, "vector": [{numbers}]}}\n'.encode())


def _write_parquet(file: IO[bytes], matrix: NDArray[np.float32], texts: Sequence[str]) -> None:
    pyarrow, parquet = pyarrow_modules("Writing parquet")
    width = matrix.shape[1]
    schema = pyarrow.schema(
        [("text", pyarrow.string()), ("vector", pyarrow.list_(pyarrow.float32(), width))]
    )
    with parquet.ParquetWriter(file, schema) as writer:
        for start in range(0, len(matrix), PARQUET_ROWS):
            group = texts[start : start + PARQUET_ROWS]
            for number, text in enumerate(group, start=start + 1):
                _check_text(text, number)
            flat = pyarrow.array(matrix[start : start + PARQUET_ROWS].reshape(-1))
            columns = [
                pyarrow.array(group, pyarrow.string()),
                pyarrow.FixedSizeListArray.from_arrays(flat, width),
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def _check_text(text: str, number: int) -> None:
    if surrogate := lone_surrogate(text):
        raise InputError(
            f"Text {number:,} holds the lone surrogate {surrogate}; that is half a character and "
            "cannot be written; fix the text, or write a .npy file."
        )


_WRITERS: dict[str, Callable[[IO[bytes], NDArray[np.float32], Sequence[str]], None]] = {
    ".npy": _write_npy,
    ".jsonl": write_jsonl,
    ".parquet": _write_parquet,
}

VECTOR_SUFFIXES = tuple(_WRITERS)
