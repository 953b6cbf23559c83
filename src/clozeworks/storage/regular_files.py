"""Files that may lie in anybody's folder: a pipe would keep one waiting, a device never ends."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Opens a file for reading.

    Args:
        path: The file.
        follow: Whether it may be a symbolic link, which may lead out of its folder.

    Raises:
        OSError: If it cannot be opened.
        ValueError: If it is something else than a file.
    """
    # Without waiting, and looked at when it is open: so nothing can take its place in between.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is not a regular file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Everything in a file.

    Args:
        path: The file.
        most: The most bytes that are read.
        follow: Whether it may be a symbolic link.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is something else than a file, or larger.
    """
    with open_regular(path, follow=follow) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    return content
