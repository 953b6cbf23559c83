"""One session of a run: its folder is locked, its recipe is the one it was started with."""

import json
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from clozeworks import __version__, config
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.snapshots import Snapshots
from clozeworks.errors import OutputError, SettingError
from clozeworks.runs.folder import RECIPE, SESSIONS
from clozeworks.storage.atomic import atomic_file
from clozeworks.storage.locks import locked

# What may change while a run is stopped: it changes nothing about the result.
FREE = ("run", "logging", "evaluation", "checkpointing")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks the folder of a run; a folder that was created for nothing is removed again.

    Raises:
        OutputError: If it holds something else, or another program uses it.
    """
    _check_folder(folder)
    made = not folder.exists()
    with locked(folder):
        try:
            yield
        except BaseException:
            if made and [path.name for path in folder.iterdir()] == [".lock"]:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def refuse_another_recipe(folder: Path, written: Mapping[str, Any], *, begun: bool) -> None:
    """Refuses to continue a run with another recipe than it was started with.

    Args:
        folder: The run.
        written: The recipe as it would be written down.
        begun: Whether it has anything to continue from; otherwise it can start anew.

    Raises:
        SettingError: If a setting differs; names the differences.
    """
    path = folder / RECIPE
    if not path.exists() or not begun:
        return
    old, new = config.read_json(path), dict(written)
    for key in FREE:
        old.pop(key, None)
        new.pop(key, None)
    changed = differences(old, new)
    if changed:
        raise SettingError(
            f"{folder} was started with another recipe: {'; '.join(changed[:8])}; a run continues "
            "with the recipe it was started with; change it back, or name another folder with "
            "run=FOLDER."
        )


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What differs between two recipes as plain data, a line for each setting."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        pairs = [(f"{path}.{key}" if path else key, old.get(key), new.get(key)) for key in keys]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{path}[{i}]", old[i], new[i]) for i in range(len(old))]
    else:
        return [] if old == new else [f"{path} was {old!r}, now {new!r}"]
    return [line for where, before, after in pairs for line in differences(before, after, where)]


def begin_session(
    folder: Path, snapshots: Snapshots, written: Mapping[str, Any], step: int, ranks: ProcessGroup
) -> None:
    """Records what this session runs on; cleans up after sessions that were killed."""
    snapshots.remove_leftovers()
    snapshots.remove_after(step)
    with atomic_file(folder / RECIPE, "w") as file:
        json.dump(written, file, indent=1, ensure_ascii=False)
        file.write("\n")
    session = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "where": str(Path.cwd()),
        "clozeworks": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(ranks.device),
        "threads": torch.get_num_threads(),
        "ranks": ranks.count,
    }
    with (folder / SESSIONS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(session, ensure_ascii=False) + "\n")


def _check_folder(folder: Path) -> None:
    """Refuses a folder that holds something other than a run."""
    if not folder.exists() or (folder / RECIPE).exists():
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder for the run.")
    names = sorted(path.name for path in folder.iterdir() if path.name != ".lock")
    if names:
        raise OutputError(
            f"{folder} holds {names[0]!r} and is not a run; name an empty folder or a new one."
        )
