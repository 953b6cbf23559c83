"""Checksums: whether the files of a folder are those that were written.

`clozeworks.json` lists every file that stands beside it with its size and sha256, and has a
checksum of everything else it says, so that a flipped bit in it is noticed, too. A folder that
somebody else wrote has none, and nothing to compare with. Model cards are not listed: they are for
people, who edit them.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clozeworks.config import read_json
from clozeworks.errors import CheckpointError
from clozeworks.storage.atomic import write_json

NOTES = "clozeworks.json"
FILES, CHECKSUM = "files", "checksum"
# A file that nothing depends on, and the list itself.
_UNLISTED = ("README.md", NOTES)
_AT_A_TIME = 1 << 20


def digest_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """The sha256 of a file.

    Args:
        path: The file.
        progress: Is told how many bytes were read since the last call.

    Raises:
        OSError: If the file cannot be read.
    """
    digest, block = hashlib.sha256(), bytearray(_AT_A_TIME)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(block):
            digest.update(memoryview(block)[:count])
            if progress is not None:
                progress(count)
    return digest.hexdigest()


def entry_of(path: Path) -> dict[str, Any]:
    """What a list of files says of one of them.

    Raises:
        OSError: If the file cannot be read.
    """
    return {"bytes": path.stat().st_size, "sha256": digest_of(path)}


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with a checksum of itself."""
    content = {key: value for key, value in data.items() if key != CHECKSUM}
    return {**content, CHECKSUM: _digest(content)}


def is_intact(data: Mapping[str, Any]) -> bool:
    """Whether data that was sealed is what it was then; data without a checksum counts as such."""
    return CHECKSUM not in data or data[CHECKSUM] == sealed(data)[CHECKSUM]


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def listed(folder: Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The entries of the files of a folder, or of those that are named, by their path in it."""
    chosen = files_in(folder) if names is None else names
    return {name: entry_of(folder / name) for name in sorted(chosen)}


def files_in(folder: Path) -> Iterator[str]:
    """The files that a folder answers for, by their path in it."""
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _UNLISTED:
            continue
        if path.is_file():
            yield path.name
        elif path.is_dir() and not (path / NOTES).exists():
            yield from (f"{path.name}/{name}" for name in files_in(path))


def write_notes(folder: Path, notes: Mapping[str, Any], names: Iterable[str] | None = None) -> None:
    """Writes `clozeworks.json`, the last file of a folder, with the entries of the others.

    Args:
        folder: The folder.
        notes: What else is noted.
        names: The files that are listed; all if not given.

    Raises:
        OutputError: If the file cannot be written.
    """
    write_json(folder / NOTES, sealed({**notes, FILES: listed(folder, names)}))


def note_files(folder: Path, written: Collection[str], removed: Iterable[str]) -> None:
    """Notes that some files of a folder are others now; what else is noted there stays.

    Raises:
        CheckpointError: If `clozeworks.json` is there and cannot be read.
        OutputError: If the file cannot be written.
    """
    notes = read_json(folder / NOTES, optional=True)
    kept = {name: entry for name, entry in notes.get(FILES, {}).items() if name not in removed}
    files = dict(sorted({**kept, **listed(folder, written)}.items()))
    write_json(folder / NOTES, sealed({"format": 1, **notes, FILES: files}))


def read_notes(folder: Path, error: type[CheckpointError] = CheckpointError) -> dict[str, Any]:
    """What `clozeworks.json` says; nothing if a folder has none.

    Args:
        folder: A model, a tokenizer or an adapter.
        error: What a complaint is raised as.
    """
    notes = read_json(folder / NOTES, error, optional=True)
    if fault := notes_fault(folder, notes):
        raise error(fault)
    return notes


def read_sealed(path: Path, advice: str) -> dict[str, Any]:
    """Plain data from a file that was sealed, without its checksum.

    Args:
        path: The file.
        advice: What to do if it is damaged.

    Raises:
        CheckpointError: If it cannot be read, or is not what was written.
    """
    data = read_json(path)
    if not is_intact(data):
        raise CheckpointError(
            f"{path} is damaged: its checksum is that of another content; {advice}"
        )
    data.pop(CHECKSUM, None)
    return data


def notes_fault(folder: Path, notes: Mapping[str, Any]) -> str | None:
    """What is wrong with the content of `clozeworks.json`, in a sentence."""
    if is_intact(notes) and _is_list(notes.get(FILES, {})):
        return None
    return (
        f"{folder / NOTES} is not as it was saved: its checksum is that of another content; "
        f"{advice(folder)}"
    )


def _is_list(files: object) -> bool:
    return isinstance(files, dict) and all(
        isinstance(entry, dict)
        and type(entry.get("bytes")) is int
        and 0 <= entry["bytes"] < 2**63
        and isinstance(entry.get("sha256"), str)
        and name.isprintable()  # else it may be the name of no file at all
        and not Path(name).is_absolute()
        and ".." not in Path(name).parts
        for name, entry in files.items()
    )


def check_files(
    folder: Path,
    notes: Mapping[str, Any],
    chosen: Callable[[str], bool] = lambda name: True,
    error: type[CheckpointError] = CheckpointError,
    *,
    most: int | None = None,
) -> None:
    """Refuses files that are not those that were saved.

    Args:
        folder: The folder.
        notes: What its `clozeworks.json` says.
        chosen: Which of the files are checked.
        error: What a complaint is raised as.
        most: Files are read as long as they have no more bytes together; of others the size is
            checked.
    """
    for fault in file_faults(folder, notes, chosen, most=most):
        raise error(f"{fault}; {advice(folder)}")


def file_faults(
    folder: Path,
    notes: Mapping[str, Any],
    chosen: Callable[[str], bool] = lambda name: True,
    *,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[str]:
    """What is wrong with each file that is not the one that was saved, without any advice.

    Args:
        folder: The folder.
        notes: What its `clozeworks.json` says.
        chosen: Which of the files are checked.
        most: As for `check_files`.
        progress: Is told how many bytes are done, and how many there are.
    """
    files = {name: entry for name, entry in notes.get(FILES, {}).items() if chosen(name)}
    total, done = sum(entry["bytes"] for entry in files.values()), 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(min(done, total), total)

    room = float("inf") if most is None else most
    for name, entry in sorted(files.items(), key=lambda item: item[1]["bytes"]):
        path = folder / name
        room -= entry["bytes"]
        try:
            if path.stat().st_size != entry["bytes"]:
                yield f"{path} is not as it was saved: its size is another"
            elif room >= 0 and digest_of(path, step) != entry["sha256"]:
                yield f"{path} is not as it was saved: its content is another"
        except FileNotFoundError:
            yield f"{path} is not there, but was saved with this folder"
        except OSError as wrong:
            yield f"{path} cannot be read ({wrong.strerror or wrong})"


def advice(folder: Path) -> str:
    """What to do about a file that is not the one that was saved."""
    where = shlex.quote(str(folder))
    return (
        f"restore it, or, if the change is meant, accept it with: clozeworks verify {where} "
        "--accept"
    )
