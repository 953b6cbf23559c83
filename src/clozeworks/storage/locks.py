"""One program at a time in a folder."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clozeworks.errors import OutputError

try:
    import fcntl
except ImportError:  # not a Unix system
    fcntl = None  # type: ignore[assignment]

FILE = ".lock"
# Somebody who only asks whether a folder is held does so for less than this many seconds.
_PATIENCE = 0.3


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder if need be and holds it; the system lets go when the program ends.

    Raises:
        OutputError: If another program holds the lock, or the file cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except (FileExistsError, NotADirectoryError) as error:
        file = next((path for path in (folder, *folder.parents) if path.is_file()), folder)
        made = "" if file == folder else f"{folder} cannot be made: "
        raise OutputError(f"{made}{file} is a file; name a folder.") from error
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written ({error.strerror or error}); choose another folder."
        ) from error
    try:
        _hold(handle, folder)
        yield
    finally:
        os.close(handle)


def _hold(handle: int, folder: Path) -> None:
    if fcntl is None:
        return
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= end:
                raise OutputError(
                    f"{folder} is being written by another program; wait for it, or choose "
                    "another folder."
                ) from error
            time.sleep(0.02)
        except OSError:
            return  # some disks in a network know no locks
        else:
            return


def held(folder: Path) -> bool:
    """Whether a program holds the folder. Nothing is changed, and nobody is kept out by asking."""
    try:
        # Without waiting: a pipe of this name would keep one waiting.
        handle = os.open(folder / FILE, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False
