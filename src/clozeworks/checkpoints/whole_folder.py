"""A folder that appears whole or not at all.

Writing goes to a fresh temporary folder beside the target, every file is synced, and one rename
puts it in place: at no moment does a half-written folder stand under the target's name.
"""

import ctypes
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clozeworks.errors import OutputError
from clozeworks.storage.atomic import check_name, sync
from clozeworks.storage.leftovers import claimed, temporary_path
from clozeworks.wording import as_json

# Every folder that `save` may replace has one of these.
OURS = {"config.json", "tokenizer.json", "vocab.txt", "vocab.json"}
# What else it may have; anything else means that the folder serves other purposes, too.
MODEL_FILES = re.compile(
    r"[^/]*\.(json|safetensors|txt|md|model|bin|jinja)|\.gitattributes|[0-9]+_[A-Z]\w*|adapter"
)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Checks early that a folder can be written.

    Raises:
        OutputError: If it cannot.
    """
    check_name(folder, "choose another name")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder.")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # Trap: replacing deletes what was there, and a slip may name somebody's home. So this comes
    # before the advice to replace it.
    if held and not held & OURS:
        raise OutputError(
            f"{folder} holds files, but neither a model nor a tokenizer, so it is not replaced; "
            f"choose another name, or empty it yourself."
        )
    foreign = sorted(name for name in held if not MODEL_FILES.fullmatch(name))
    if foreign:
        raise OutputError(
            f"{folder} also holds {foreign[0]!r}, which is not part of a model, so it is not "
            f"replaced; choose another name, or move that away."
        )
    if held and not overwrite:
        raise OutputError(
            f"{folder} exists and is not empty; choose another name, or replace it with "
            f"--overwrite (overwrite=True in Python)."
        )
    parent = next((parent for parent in folder.resolve().parents if parent.exists()), folder)
    if not parent.is_dir():
        raise OutputError(f"{folder} cannot be made: {parent} is a file; choose another place.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(
            f"{folder} cannot be made: the folder {parent} is not writable; choose another place, "
            f"or change its permissions."
        )


@contextmanager
def fresh_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that takes the target's name when the block ends well."""
    check_target(folder, overwrite=overwrite)
    target = folder.resolve()  # a link is followed, and stays a link
    candidate = temporary_path(target, ".tmp")
    made = [parent for parent in target.parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        candidate.mkdir()
        with claimed(candidate):
            yield candidate
        for path in sorted(candidate.rglob("*")):
            sync(path)
        sync(candidate)
        _replace(candidate, target, overwrite)
        sync(target.parent)
    except OSError as error:
        cause = error.__context__ if isinstance(error, OutputError) else error
        reason = getattr(cause, "strerror", None) or cause or error
        raise OutputError(
            f"{folder} could not be written ({reason}); nothing was changed; fix this, or choose "
            f"another place."
        ) from error
    finally:
        shutil.rmtree(candidate, ignore_errors=True)
        with suppress(OSError):  # folders made on the way stay only if they hold something
            for parent in made:
                parent.rmdir()


def copy_model(source: Path, target: Path) -> None:
    """Copies a finished model folder; its weights are not stored twice where the disk can help.

    Both names then stand for one file. Whoever saves a model replaces the file under one of them;
    whoever writes into it changes both, which their checksums tell.
    """
    shutil.copytree(source, target, dirs_exist_ok=True, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".safetensors"):
        with suppress(OSError):  # some disks know one name for a file
            Path(target).hardlink_to(source)
            return
    shutil.copyfile(source, target)


def write_json(path: Path, data: Any) -> None:
    """Writes a JSON file as published folders have them."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(as_json(data, indent=2) + "\n", encoding="utf-8")


def _replace(path: Path, target: Path, overwrite: bool) -> None:
    """Gives a finished folder the target's name; what had it is removed."""
    if not overwrite or not target.exists():
        path.rename(target)  # fails if another process has filled the target meanwhile
        return
    if _exchange(path, target):
        return
    old = path.with_suffix(".old")
    target.rename(old)
    try:
        path.rename(target)
    finally:
        with suppress(OSError):
            old.rename(target)  # fails, as it should, where a model stands under the name
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps the names of two folders in a single step, where the system can."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "renameat2"):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    names = os.fsencode(one), here, os.fsencode(other)
    return bool(ctypes.CDLL(None).renameat2(here, *names, exchange) == 0)
