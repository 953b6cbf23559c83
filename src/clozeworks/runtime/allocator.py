"""Keeps the memory of a step for the next one.

Left to itself, the C library asks the system for every large tensor anew and gives it back at once;
the system clears each page when it is first touched. Filling 37 MB took 18 ms that way, and 1 ms in
memory that was there already.
While a run lasts, memory that was had once is kept.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Names and numbers of malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_KEPT = {_ARENA_MAX: 1, _MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _TOP_PAD: 64 << 20}
_USUAL = {_ARENA_MAX: 0, _MMAP_MAX: 65_536, _TRIM_THRESHOLD: 128 << 10, _TOP_PAD: 128 << 10}


@contextmanager
def memory_kept() -> Iterator[None]:
    """Within the block, memory that is freed is used again; afterwards it is given back.

    Threads that will use much of it must be started within the block. Where the C library is not
    glibc, nothing changes.
    """
    library = _glibc()
    if library is None:
        yield
        return
    for setting, value in _KEPT.items():
        library.mallopt(setting, value)
    try:
        yield
    finally:
        for setting, value in _USUAL.items():
            library.mallopt(setting, value)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    with suppress(OSError):
        library = ctypes.CDLL(None)
        if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt"):
            return library
    return None
