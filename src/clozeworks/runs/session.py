"""One session of a run: its folder is locked, its recipe is the one it was started with."""

import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from clozeworks import __version__, config
from clozeworks.engine.callbacks import Callback, CallbackList, Session, SessionStatus
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.metrics import FILE, Metrics
from clozeworks.engine.snapshots import Snapshot, Snapshots
from clozeworks.engine.trainer import Outcome
from clozeworks.errors import OutputError, SettingError
from clozeworks.runs.folder import RECIPE, SESSIONS
from clozeworks.storage.atomic import append_lines, check_name, write_json
from clozeworks.storage.locks import locked
from clozeworks.wording import as_json, counted

# What may change while a run is stopped: it changes nothing about the result.
FREE = ("run", "logging", "evaluation", "checkpointing", "device")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks the folder of a run; a folder that was created for nothing is removed again.

    Raises:
        OutputError: If it holds something else, or another program uses it.
    """
    _check_folder(folder)
    made = not folder.exists()
    above = [parent for parent in folder.resolve().parents if not parent.exists()]
    with locked(folder):
        try:
            yield
        except BaseException:
            if made and [path.name for path in folder.iterdir()] == [".lock"]:
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(OSError):  # folders above stay only if they hold something
                    for parent in above:
                        parent.rmdir()
            raise


def refuse_another_recipe(folder: Path, written: Mapping[str, Any], *, begun: bool) -> None:
    """Refuses to continue a run with another recipe than it was started with.

    A run that has nothing to continue from can start anew.

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
        rule = f"it was started with another recipe: {'; '.join(changed[:8])}; a run continues "
        rule += "with the recipe it was started with"
        advice = "change it back, or name another folder"
        raise SettingError("run", str(folder), rule, advice)


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


def newest_snapshot(snapshots: Snapshots, callback: Callback) -> Snapshot | None:
    """The snapshot that a run goes on from; says which newer ones are damaged."""
    snapshot, damaged = snapshots.read_latest()
    for message in damaged:
        callback.on_message(f"{message} The one before it is used.")
    return snapshot


@contextmanager
def open_session(
    folder: Path,
    snapshots: Snapshots,
    snapshot: Snapshot | None,
    written: Mapping[str, Any],
    ranks: ProcessGroup,
    callback: Callback,
) -> Iterator[tuple[Metrics | None, Callback]]:
    """Records what this session runs on, and opens its logs; cleans up after killed sessions.

    Yields:
        The metrics file, None on processes that write nothing; and the callback that is told what
        happens.
    """
    if not ranks.leads:
        yield None, callback
        return
    step = snapshot.step if snapshot else None
    folder.mkdir(exist_ok=True)
    snapshots.remove_leftovers()
    snapshots.remove_after(step or 0)
    write_json(folder / RECIPE, written)
    append_lines(folder / SESSIONS, as_json(_environment(ranks)) + "\n")
    metrics = Metrics(folder / FILE, -1 if step is None else step)
    if metrics.damaged:
        lines = counted(len(metrics.damaged), "line was", "lines were")
        callback.on_message(
            f"{folder / FILE}: {lines} damaged and left out, the first is line "
            f"{metrics.damaged[0]:,}; curves miss what they said."
        )
    ending = _Ending()
    callback.on_session_begin(Session(folder, written, step))
    try:
        yield metrics, CallbackList([ending, callback])
        metrics.close()
    except BaseException as error:
        ending.status = "failed" if isinstance(error, Exception) else "stopped"
        raise
    finally:
        callback.on_session_end(ending.status)


class _Ending(Callback):
    """How a session ends, unless an error ends it."""

    status: SessionStatus = "stopped"

    def on_train_end(self, outcome: Outcome) -> None:
        """Training is over, or was stopped."""
        self.status = "finished" if outcome.finished else "stopped"


def _environment(ranks: ProcessGroup) -> dict[str, Any]:
    return {
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


def _check_folder(folder: Path) -> None:
    """Refuses a folder that holds something other than a run, or can hold none."""
    check_name(folder, "choose another name")
    if not folder.exists() or (folder / RECIPE).exists():
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder for the run.")
    names = sorted(path.name for path in folder.iterdir() if path.name != ".lock")
    if names:
        raise OutputError(
            f"{folder} holds {names[0]!r} and is not a run; name an empty folder or a new one."
        )
