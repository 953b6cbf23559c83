"""Writes a file completely or not at all."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, overload

from clozeworks.errors import ClozeworksError, OutputError
from clozeworks.storage.leftovers import claimed, temporary_path
from clozeworks.wording import as_json

# Another place, and whether a file that is there is replaced.
OtherPlace = tuple[Path, bool]
Instead = Callable[[], OtherPlace | None] | None


@overload
def atomic_file(
    path: Path, mode: Literal["wb"] = "wb", *, overwrite: bool = True, instead: Instead = None
) -> AbstractContextManager[IO[bytes]]: ...
@overload
def atomic_file(
    path: Path, mode: Literal["w"], *, overwrite: bool = True, instead: Instead = None
) -> AbstractContextManager[IO[str]]: ...
@overload
def atomic_file(
    path: Path, mode: Literal["wb", "w"], *, overwrite: bool = True, instead: Instead = None
) -> AbstractContextManager[IO[Any]]: ...
def atomic_file(
    path: Path,
    mode: Literal["wb", "w"] = "wb",
    *,
    overwrite: bool = True,
    instead: Instead = None,
) -> AbstractContextManager[IO[Any]]:
    r"""Opens a file that takes its place only once it is complete.

    What is written goes to a temporary file in the same folder; leaving the block puts it in
    place of `path` in one step. If the block fails or is interrupted, the temporary file is
    removed and whatever was at `path` before is still there, unchanged.

    Only the writing belongs inside the block: any `OSError` raised there is taken to be about
    this file.

    Args:
        path: The file to write. A link is followed, and stays a link.
        mode: `"wb"` for bytes, `"w"` for UTF-8 text with `\n` line ends.
        overwrite: Whether a file that is there at the end is replaced. If not, what was written
            stays beside it under another name.
        instead: Asked at the end of the block for another place that what was written is put in,
            and whether a file there is replaced; None for `path`.

    Returns:
        A context manager that gives the open file.

    Raises:
        OutputError: On leaving or entering the block, if the file cannot be written; on leaving
            it, if a file is there that may not be replaced.
    """
    return _atomic_file(path, mode, overwrite, instead)


@contextmanager
def _atomic_file(path: Path, mode: str, overwrite: bool, instead: Instead) -> Iterator[IO[Any]]:
    target = Path(os.path.realpath(path))
    temporary = temporary_path(target, ".temporary")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        # Trap: whoever may write to /dev would put a file in place of a device.
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise OutputError(f"{path} is a device or a pipe, not a file; choose another place.")
        # Trap: tempfile makes files that only their owner can read; this follows the umask.
        file: IO[Any] = temporary.open(mode.replace("w", "x"), **text)  # type: ignore[call-overload]
        try:
            with claimed(temporary):
                yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            # Closing flushes, which fails again on a full disk and would hide the first error.
            with suppress(OSError):
                file.close()
            raise
        file.close()
        if instead is not None and (other := instead()):
            path, overwrite = other
            target = Path(os.path.realpath(path))
        if overwrite:
            with suppress(OSError):  # there is no older file, or it belongs to somebody else
                temporary.chmod(target.stat().st_mode & 0o7777)
            placed = temporary.replace(target)
        else:
            placed = _place_beside(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, ClozeworksError):
            raise OutputError(
                f"{path} could not be written: {error.strerror or error}; "
                "nothing was changed; fix this, or choose another place."
            ) from error
        raise
    _settle(target.parent)
    if placed != target:
        raise OutputError(
            f"{path} exists by now, and is not replaced; the results are in {placed}; keep those "
            "you want."
        )


@contextmanager
def kept_unless(path: Path) -> Iterator[Callable[[], None]]:
    """Puts a file back as it was at the end of the block, unless the block calls what it is given.

    A file that was not there is removed.

    Raises:
        OutputError: On entering the block, if there is no room to keep the file.
    """
    kept = temporary_path(path, ".temporary")
    was_there = path.exists()
    settled = False

    def settle() -> None:
        nonlocal settled
        settled = True

    try:
        if was_there:  # a copy, made while nothing has changed: later the disk may be full
            with atomic_file(kept) as file:
                file.write(path.read_bytes())
        yield settle
    finally:
        if settled:
            kept.unlink(missing_ok=True)
        elif kept.exists():
            kept.replace(path)
        elif not was_there:
            path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 text file, completely or not at all.

    Halves of characters, as names of files have them that are not UTF-8, are written out.

    Raises:
        OutputError: If the file cannot be written.
    """
    with atomic_file(path) as file:
        file.write(text.encode(errors="backslashreplace"))


def write_texts(folder: Path, contents: Mapping[str, str]) -> None:
    """Writes several UTF-8 text files of a folder; none is replaced before all are complete.

    Raises:
        OutputError: If one of them cannot be written.
    """
    with ExitStack() as stack:
        for name, text in contents.items():
            file = stack.enter_context(atomic_file(folder / name, "w"))
            file.write(text)
            file.flush()  # here, where a full disk still leaves every file as it was


def append_lines(path: Path, text: str) -> None:
    """Adds lines to a UTF-8 file, all of them or none; half a line that a crash left is removed.

    Raises:
        OutputError: If they cannot be written.
    """
    try:
        with path.open("ab+", buffering=0) as file:
            file.seek(0)
            whole = file.readall().rfind(b"\n") + 1
            file.truncate(whole)
            unwritten = text.encode()
            try:
                while unwritten:
                    unwritten = unwritten[file.write(unwritten) :]
            except BaseException:
                file.truncate(whole)
                raise
    except OSError as error:
        raise OutputError(
            f"{path} could not be written: {error.strerror or error}; nothing was changed; fix "
            "this, or choose another place."
        ) from error


def write_json(path: Path, data: Any) -> None:
    """Writes plain data as a JSON file, completely or not at all.

    Raises:
        OutputError: If the file cannot be written.
    """
    write_text(path, as_json(data, indent=1) + "\n")


def check_name(folder: Path, advice: str, error: type[ClozeworksError] = OutputError) -> None:
    """Insists on a name under which safetensors files can be opened.

    Args:
        folder: The folder of the files, or one of them.
        advice: What to do if it has another.
        error: What a complaint is raised as.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError as wrong:
        raise error(
            f"{folder} has a name that is not UTF-8, and weights cannot be read from there; "
            f"{advice}."
        ) from wrong


def _place_beside(temporary: Path, target: Path) -> Path:
    """Gives a complete file its name, or the first free one of its kind: out.2.npy."""
    candidate, number = target, 1
    while True:
        try:
            _place(temporary, candidate)
        except FileExistsError:
            number += 1
            # Cut short for the same reason as the name of the temporary file.
            candidate = target.with_name(f"{target.stem[:40]}.{number}{target.suffix}")
        else:
            return candidate


def _place(temporary: Path, path: Path) -> None:
    """Gives a file a name that nothing else has.

    Raises:
        FileExistsError: If something has this name already.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # Some file systems know one name for a file: the name is taken, then filled.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        try:
            temporary.replace(path)
        except BaseException:
            path.unlink()
            raise
    else:
        with suppress(OSError):
            temporary.unlink()


def _settle(folder: Path) -> None:
    """Asks the system to keep the new name of a file through a power cut, where it can."""
    with suppress(OSError):
        sync(folder)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
