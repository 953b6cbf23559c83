"""Writes vectors to a file as they come: `.npy`, `.jsonl` or `.parquet`."""

import io
import json
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.data.files.parquet import parquet_rows, pyarrow_modules
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
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is a device or a pipe, not a file; choose another place.")
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


class VectorWriter(ABC):
    """Writes one vector per text, in the order of the texts, as float32, as they come.

    Args:
        file: An open file, or standard output.

    Attributes:
        count: How many vectors were written.
        width: The number of columns; None before the first vectors.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.count = 0
        self.width: int | None = None

    def write(self, texts: Sequence[str], vectors: NDArray[np.floating[Any]]) -> None:
        """Writes some more.

        Args:
            texts: The texts.
            vectors: A matrix with a row for each of them.

        Raises:
            InputError: If vectors and texts do not belong together or do not fit the format.
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
        if self.width not in (None, vectors.shape[1]):
            raise InputError(
                f"Vector {self.count + 1:,} has {vectors.shape[1]:,} numbers, and those before it "
                f"{self.width:,}; all of a file have the same; write two files."
            )
        matrix = np.ascontiguousarray(vectors, dtype="<f4")
        if self.width is None:
            self._begin(vectors.shape[1])
        self._add(texts, matrix)
        self.count += len(texts)

    def finish(self) -> None:
        """Completes the file, with what was written."""
        self.file.flush()

    def _begin(self, width: int) -> None:
        """Writes what comes before the vectors."""
        self.width = width

    @abstractmethod
    def _add(self, texts: Sequence[str], matrix: NDArray[np.float32]) -> None:
        """Writes vectors."""

    def _check_text(self, text: str, number: int) -> None:
        if surrogate := lone_surrogate(text):
            raise InputError(
                f"Text {number:,} holds the lone surrogate {surrogate}; that is half a character "
                "and cannot be written; fix the text, or write a .npy file."
            )


class NpyWriter(VectorWriter):
    """The matrix alone, for `numpy.load`; its header is written again when the count is known."""

    def _begin(self, width: int) -> None:
        super()._begin(width)
        self.file.write(self._header())

    def _add(self, texts: Sequence[str], matrix: NDArray[np.float32]) -> None:
        # Trap: np.save reports a full disk as "100 requested and 0 written", without saying why.
        self.file.write(matrix.data)

    def finish(self) -> None:
        """Completes the file, with what was written."""
        if self.width is not None:
            self.file.seek(0)
            self.file.write(self._header())
        super().finish()

    def _header(self) -> bytes:
        header = io.BytesIO()
        # numpy leaves room for a count of 21 digits, so the header's size does not depend on it.
        np.lib.format.write_array_header_1_0(
            header,
            {"descr": "<f4", "fortran_order": False, "shape": (self.count, self.width)},
        )
        return header.getvalue()


class JsonLinesWriter(VectorWriter):
    """One object per line, with numbers as short as they can be and still give the same float32."""

    def _add(self, texts: Sequence[str], matrix: NDArray[np.float32]) -> None:
        for number, (text, row) in enumerate(zip(texts, matrix, strict=True), start=self.count + 1):
            if not np.isfinite(row).all():
                raise InputError(
                    f"Vector {number:,} holds {row[~np.isfinite(row)][0]}; JSON has only finite "
                    "numbers; write a .npy or .parquet file instead."
                )
            self._check_text(text, number)
            # str of a float32 is the shortest decimal that reads back as the same float32.
            numbers = ", ".join([str(value) for value in row])
            quoted = as_json(text)
            self.file.write(f'{{"text": {quoted}, "vector": [{numbers}]}}\n'.encode())


class ParquetVectorWriter(VectorWriter):
    """The columns `text` and `vector`, the latter lists of one fixed size."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._arrow, self._parquet = pyarrow_modules("Writing parquet")
        self._writer: Any = None
        self._held: list[Any] = []  # tables that become one group of rows
        self._rows = 0

    def _begin(self, width: int) -> None:
        super()._begin(width)
        arrow = self._arrow
        fields = [("text", arrow.string()), ("vector", arrow.list_(arrow.float32(), width))]
        self._writer = self._parquet.ParquetWriter(self.file, arrow.schema(fields))

    def _add(self, texts: Sequence[str], matrix: NDArray[np.float32]) -> None:
        for number, text in enumerate(texts, start=self.count + 1):
            self._check_text(text, number)
        arrow = self._arrow
        for start in range(0, len(matrix), PARQUET_ROWS):
            flat = arrow.array(matrix[start : start + PARQUET_ROWS].reshape(-1))
            columns = [
                arrow.array(texts[start : start + PARQUET_ROWS], arrow.string()),
                arrow.FixedSizeListArray.from_arrays(flat, matrix.shape[1]),
            ]
            table = arrow.Table.from_arrays(columns, schema=self._writer.schema)
            self._held.append(table)
            self._rows += len(table)
            if self._rows >= PARQUET_ROWS:
                self._write_held()

    def _write_held(self) -> None:
        if self._held:
            self._writer.write_table(self._arrow.concat_tables(self._held))
        self._held, self._rows = [], 0

    def finish(self) -> None:
        """Completes the file, with what was written."""
        if self._writer is not None:
            self._write_held()
            self._writer.close()
        super().finish()


_WRITERS: dict[str, type[VectorWriter]] = {
    ".npy": NpyWriter,
    ".jsonl": JsonLinesWriter,
    ".parquet": ParquetVectorWriter,
}

VECTOR_SUFFIXES = tuple(_WRITERS)


@contextmanager
def vectors_into(file: IO[bytes], suffix: str) -> Iterator[VectorWriter]:
    """Writes vectors into an open file, which is complete at the end of the block.

    It holds what was written, also if the block is interrupted.
    """
    writer = _WRITERS[suffix](file)
    try:
        yield writer
    except OSError:  # a full disk would only complain once more
        raise
    except BaseException:
        writer.finish()
        raise
    writer.finish()


def read_vectors(path: Path) -> Iterator[tuple[str | None, NDArray[np.float32]]]:
    """Reads a file that `open_vectors` wrote, a text and its vector at a time.

    The text is None in `.npy`, which holds none.

    Raises:
        InputError: If the file is not one of vectors.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            for row in np.load(path, mmap_mode="r", allow_pickle=False):
                yield None, np.asarray(row, np.float32)
        elif suffix == ".jsonl":
            with path.open(encoding="utf-8") as file:
                for line in file:
                    record = json.loads(line)
                    yield record["text"], np.array(record["vector"], np.float32)
        else:
            for _, (text, row) in islice(parquet_rows(path), 1, None):
                yield text, np.array(row, np.float32)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a file of vectors ({error}); delete it and begin again."
        ) from error


@contextmanager
def open_vectors(path: str | Path, *, overwrite: bool = False) -> Iterator[VectorWriter]:
    """Opens a file of vectors, written as they come: no more than a part of them is in memory.

    ```python
    with cw.open_vectors("vectors.npy") as file:
        for texts, vectors in model.embed_chunks(lines):
            file.write(texts, vectors)
    ```

    The suffix chooses the format. `.npy` holds the matrix alone. `.jsonl` has one object per line,
    `{"text": …, "vector": […]}`, each number as short as it can be and still give back the same
    float32. `.parquet` has the columns `text` and `vector`, the latter lists of one fixed size.

    The file appears complete or not at all; an older one stays as it is until then.

    Args:
        path: The file to write.
        overwrite: Whether a file that is already there may be replaced; if it appears while the
            vectors come, they are written beside it.

    Raises:
        OutputError: If the file cannot be written, or another one is there.
        MissingExtra: If the format needs a library that is not installed.
    """
    path = Path(path)
    check_output(path, overwrite=overwrite, suffixes=VECTOR_SUFFIXES)
    with (
        atomic_file(path, overwrite=overwrite) as file,
        vectors_into(file, path.suffix.lower()) as writer,
    ):
        yield writer
