"""Trains a tokenizer from files of every kind that a corpus is built from."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clozeworks.data.files.discovery import find_files
from clozeworks.data.files.documents import Documents, read_documents
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes
from clozeworks.data.files.texts import check_header
from clozeworks.errors import InputError
from clozeworks.text.tokenizer.styles import Style, StyleKind
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator
from clozeworks.text.training.word_counts import ReadingProgress, no_progress


def train_tokenizer(
    inputs: Sequence[str | Path],
    *,
    kind: StyleKind,
    size: int,
    style: Style | None = None,
    min_frequency: int = 2,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    notes: FileNotes | None = None,
    progress: ReadingProgress | None = None,
) -> Tokenizer:
    """Trains a tokenizer from files.

    The same text gives the same tokenizer, whatever files it is in.

    Args:
        inputs: Files, folders and globs: `.txt`, `.csv`, `.tsv`, `.jsonl`, `.parquet`, compressed
            or not, and `.json` files by name; their order does not matter.
        kind: "wordpiece" (BERT), "bpe" (byte-level, RoBERTa) or "unigram" (ALBERT, T5).
        size: Entries of the vocabulary; fewer only if the text has no more to offer.
        style: How text is written; the kind's usual style if None.
        min_frequency: How often a new piece must occur.
        columns: The columns or fields that hold the text, by name or number; `text`, or the only
            column of strings, if not given.
        header: Whether the first row of csv and tsv files is a header; it is if not given.
        file_format: How files are read.
        notes: Collects what there is to say about how they were read.
        progress: Called as `progress(stage, done, total)`, in bytes while reading.

    Raises:
        InputError: If a file cannot be used, or there is no text.
        MissingExtra: If a file needs a library that is not installed.
        SettingError: If a setting is impossible; of a size that is too small, the message names
            the smallest that is possible.
    """
    if isinstance(inputs, str | Path):
        raise InputError(
            f"inputs is one name, {str(inputs)!r}; it must be a list of names; put it in a list."
        )
    tell = progress or no_progress
    texts = read_texts(
        find_files(inputs, file_format).files,
        documents="line",  # words do not cross lines, and a document would have to fit in memory
        columns=columns,
        header=header,
        file_format=file_format,
        notes=notes,
        progress=lambda done, total: tell("read", done, total),
    )
    return train_from_iterator(
        texts, kind=kind, size=size, style=style, min_frequency=min_frequency, progress=tell
    )


def read_texts(
    files: Sequence[Path],
    *,
    documents: Documents = "blank-line",
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    file_format: FileFormat | None = None,
    notes: FileNotes | None = None,
    progress: Callable[[int, int], None],
) -> Iterator[str]:
    """Reads the documents of files, one file after the other.

    Raises:
        InputError: If a file cannot be used as it is, with the line where that is.
    """
    check_header(files, header, file_format)
    sizes = [path.stat().st_size for path in files]
    total, before = sum(sizes), 0
    for path, size in zip(files, sizes, strict=True):

        def tell(read: int, before: int = before) -> None:
            progress(before + read, total)

        found = read_documents(
            path,
            documents=documents,
            columns=columns,
            header=header,
            file_format=file_format,
            position=tell,
            notes=notes,
        )
        for document in found:
            yield document.text
        before += size
        progress(before, total)
