"""The runs below some folders. Nothing is changed and nothing is held: a run does not notice."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from clozeworks.data.files.encodings import missing_file
from clozeworks.errors import InputError
from clozeworks.runs.folder import RECIPE, SESSIONS, STATE
from clozeworks.runs.state import RunState, read_state
from clozeworks.storage.locks import FILE as LOCK

DEPTH = 2


def find_runs(folders: Sequence[Path], depth: int = DEPTH) -> dict[Path, RunState]:
    """The runs in some folders and below them, each once, in the order of their names.

    Args:
        folders: Where to look.
        depth: How many levels below.

    Raises:
        InputError: If a folder does not exist, or is a file.
    """
    runs: dict[Path, Path] = {}
    for folder in folders:
        if not folder.exists():
            raise missing_file(folder)
        if not folder.is_dir():
            raise InputError(f"{folder} is a file; name a folder with runs in it.")
        for run in _runs(folder, depth):
            runs.setdefault(run.resolve(), run)
    return {run: read_state(run) for run in runs.values()}


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, or what is left of one."""
    try:
        return any((folder / name).is_file() for name in (STATE, SESSIONS)) or (
            (folder / RECIPE).is_file() and (folder / LOCK).is_file()
        )
    except OSError:
        return False


def _runs(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return
    if depth == 0:
        return
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:  # somebody else's
        return
    for path in inside:
        if not path.name.startswith(".") and not path.is_symlink():
            yield from _runs(path, depth - 1)
