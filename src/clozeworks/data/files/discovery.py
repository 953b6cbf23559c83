"""Finds the files that folders, patterns and names stand for."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from clozeworks.data.files.compression import check_decompressible, format_suffix
from clozeworks.data.files.encodings import check_plain, missing_file, printable
from clozeworks.data.files.file_format import FileFormat, listed_formats
from clozeworks.data.files.parquet import pyarrow_modules
from clozeworks.data.files.texts import TEXT_SUFFIXES
from clozeworks.errors import InputError

# Taken from folders; .json files there are mostly settings, and have to be named.
FOLDER_SUFFIXES = tuple(suffix for suffix in TEXT_SUFFIXES if suffix != ".json")
# Word lists of tokenizer, model and corpus folders, which often lie among the texts.
TOKENIZER_FILES = ("merges.txt", "vocab.txt")


@dataclass(frozen=True)
class InputFiles:
    """The files that inputs stand for."""

    files: list[Path]
    """Those to read, in the order of the bytes of their paths."""
    ignored: list[Path]
    """Those in folders that are of another kind, or belong to a tokenizer."""


def find_files(inputs: Sequence[str | Path], file_format: FileFormat | None = None) -> InputFiles:
    """Finds the files of documents.

    Args:
        inputs: Files; folders, of which all files of a known kind but `.json` are taken, at any
            depth, without hidden ones and those of tokenizers; patterns such as
            `news/**/*.jsonl.gz`, likewise. A file named twice counts once.
        file_format: How they are read. If it names a format, all files have it, whatever their
            suffix.

    Returns:
        The files. Neither the order of the inputs nor that of the disk changes their order.

    Raises:
        InputError: If an input does not exist, stands for no file, or is of an unknown kind.
        MissingExtra: If a file needs a library that is not installed.
    """
    file_format = file_format or FileFormat()
    is_text = _is_named if file_format.format else _is_text
    taken: dict[str, Path] = {}
    ignored: dict[str, Path] = {}
    for path in map(Path, inputs):
        named, inside = _standing_for(path)
        for file in named:
            file_format.check(file, TEXT_SUFFIXES)
        usable = [*named, *filter(is_text, inside)]
        if not usable:
            raise _nothing_usable(path, inside)
        _add(taken, usable)
        _add(ignored, [file for file in inside if not is_text(file)])
    if not taken:
        raise InputError("there are no inputs; name at least one file, folder or pattern.")
    for file in taken.values():
        _check_plain(file)
        check_decompressible(file)
        if file_format.check(file, TEXT_SUFFIXES) == ".parquet":
            pyarrow_modules()
    passed_over = [file for real, file in ignored.items() if real not in taken]
    return InputFiles(*(sorted(files, key=os.fsencode) for files in (taken.values(), passed_over)))


def _standing_for(path: Path) -> tuple[list[Path], list[Path]]:
    """Lists what an input names itself, and what is inside a folder or pattern."""
    try:
        if path.is_dir():
            return [], list(_walk(path))
        if path.exists():
            return [path], []
    except OSError as error:
        raise InputError(
            f"{printable(path)} could not be read: {error.strerror or error}; "
            "check the name and the permissions."
        ) from error
    if glob.has_magic(str(path)):
        return [], list(_matches(path))
    raise missing_file(path)


def _check_plain(file: Path) -> None:
    """Complains about a link that leads nowhere, and about pipes, which would keep one waiting."""
    try:
        check_plain(file)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"{printable(file)} is a link that leads nowhere; fix it, or remove it."
        ) from error


def _add(known: dict[str, Path], files: Sequence[Path]) -> None:
    """Adds files by what they really are; of several names for one the first in order counts."""
    for file in files:
        real = os.path.realpath(file)
        known[real] = min(known.get(real, file), file, key=os.fsencode)


def _nothing_usable(path: Path, inside: Sequence[Path]) -> InputError:
    lists = sorted(file for file in inside if file.name in TOKENIZER_FILES)
    hint = f" {printable(lists[0])} is a tokenizer's; name it to read it." if lists else ""
    return InputError(
        f"{printable(path)} holds no file of a known kind; known: "
        f"{listed_formats(FOLDER_SUFFIXES)}; name a folder with such files, or rename them.{hint}"
    )


def _is_named(file: Path) -> bool:
    return file.name not in TOKENIZER_FILES


def _is_text(file: Path) -> bool:
    return format_suffix(file) in FOLDER_SUFFIXES and file.name not in TOKENIZER_FILES


def _walk(folder: Path) -> Iterator[Path]:
    """Lists the files in a folder, hidden ones left out; links to folders are followed once."""
    seen: set[tuple[int, int]] = set()
    for parent, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        status = Path(parent).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        # Sorted, so that which of two links to a folder is followed does not depend on the disk.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _refuse(error: OSError) -> None:
    raise InputError(
        f"{error.filename} could not be listed: {error.strerror or error}; change its permissions, "
        "or name the files."
    ) from error


def _matches(pattern: Path) -> Iterator[Path]:
    # A Path takes no absolute pattern.
    paths = [Path(match) for match in glob.glob(str(pattern), recursive=True)]  # noqa: PTH207
    if not paths:
        raise _no_match(pattern)
    for path in paths:
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def _no_match(pattern: Path) -> InputError:
    fixed = next(parent for parent in pattern.parents if not glob.has_magic(str(parent)))
    if not fixed.exists():
        return missing_file(fixed)
    next_part = pattern.parts[len(fixed.parts)]
    names = [entry.name for entry in fixed.iterdir() if not entry.name.startswith(".")]
    near = get_close_matches(next_part, names, n=1, cutoff=0.5)
    hint = f" The nearest name is {printable(fixed / near[0])!r}." if near else ""
    return InputError(
        f"{printable(pattern)} matches no file; a pattern must match at least one; check it.{hint}"
    )
