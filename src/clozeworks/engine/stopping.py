"""Stopping a run from outside without losing anything.

The first Ctrl-C or SIGTERM lets the step in progress end; the second does not wait for it, and what
the step had done so far is dropped; a third ends the program on the spot. In every case but the
last a snapshot is written before the program ends.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# The last is sent when a terminal is closed; not every system has it.
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class StopNow(BaseException):
    """A second signal came: the step in progress is dropped."""


class Stop:
    """Watches for signals while its block runs.

    Args:
        alone: Whether nobody else works on the step. Others would wait for ever for one who drops
            it, and whoever started them all sends every signal again; so each gets just one.

    Attributes:
        signal: The first signal that came; 0 while there was none.
    """

    def __init__(self, *, alone: bool = True) -> None:
        self.signal = 0
        self._alone = alone
        self._times = 0
        self._may_raise = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
                    self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within the block a second signal raises `StopNow`; elsewhere it waits for the block."""
        self._may_raise = True
        try:
            if self._times > 1 and self._alone:
                raise StopNow
            yield
        finally:
            self._may_raise = False

    def _came(self, number: int, frame: FrameType | None) -> None:
        self._times += 1
        self.signal = self.signal or number
        if not self._alone:
            return
        if self._times == 2 and self._may_raise:
            self._may_raise = False
            raise StopNow
        if self._times > 2:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
