"""What is written under a temporary name, and what killed programs have left of it.

The name of a temporary file or folder says which process of which machine writes it, and that
process holds a lock on it. The next program that writes to the same folder removes what nobody
writes any more: what belongs to a process of this machine that is gone, and what another machine
left a day ago or more, if the disk says that nobody holds it.
"""

import atexit
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix system
    fcntl = None  # type: ignore[assignment]

_NAME = re.compile(r"\..*\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.(tmp|temporary)")
_OLD = 24 * 3600.0
_tidied: set[Path] = set()


def temporary_path(target: Path, suffix: str) -> Path:
    """A free name beside a target; `suffix` is .tmp for a folder, .temporary for a file.

    What killed programs have left there is removed, once in the life of a process.
    """
    folder = target.parent
    if not _tidied:
        atexit.register(remove_own)
    if folder not in _tidied:
        _tidied.add(folder)
        remove_leftovers(folder)
    # The name is cut short because the longest allowed name would become too long.
    return target.with_name(
        f".{target.name[:40]}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}{suffix}"
    )


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Holds a temporary file or folder, where the system can; lets go when the process ends."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder on Windows
        yield
        return
    try:
        with suppress(OSError):  # some disks in a network know no locks
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files and folders of programs that are gone from a folder."""
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 (a folder may have a million files)
            match = _NAME.fullmatch(name)
            if match and _is_left(folder / name, match[1], int(match[2])):
                _remove(folder / name)


def remove_own() -> None:
    """Removes what this process has under temporary names, when it ends.

    Trap: a signal that comes while a block is being entered or left is raised between the lines
    that would tidy up.
    """
    for folder in _tidied:
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 (a folder may have a million files)
                match = _NAME.fullmatch(name)
                if match and (match[1], int(match[2])) == (_machine(), os.getpid()):
                    _remove(folder / name)


def _is_left(path: Path, machine: str, pid: int) -> bool:
    if _is_held(path) is True:
        return False
    if machine == _machine():
        return not _is_alive(pid)
    return _is_held(path) is False and time.time() - _last_change(path) > _OLD


def _is_held(path: Path) -> bool | None:
    """Whether a process holds a path; None if the disk does not say."""
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(handle)
    return False


def _is_alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere to ask would be to kill
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _last_change(path: Path) -> float:
    inside = path.rglob("*") if path.is_dir() else ()
    times: list[float] = [each.lstat().st_mtime for each in (path, *inside)]
    return max(times)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@cache
def _machine() -> str:
    """Eight digits that tell this machine, and the processes it sees, from others."""
    processes = ""
    with suppress(OSError):
        processes = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 (it is not a path)
    return blake2b(f"{platform.node()} {processes}".encode(), digest_size=4).hexdigest()
