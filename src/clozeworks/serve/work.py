"""What a server does for one request: how long it may take, and what it took."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from clozeworks.errors import ClozeworksError
from clozeworks.inference.loop import Cancelled


class Overloaded(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """There is more work than the server takes on; ask again later."""

    retry_after: float = 1.0
    """Seconds until it is worth asking again."""


class TooMuch(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """A request asks for more than the server takes at a time."""


class DeadlinePassed(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """A request took longer than it may."""


class ServerStopped(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """The server ends before the request could be answered."""


@dataclass
class Timings:
    """Seconds that a request spent in each stage."""

    tokenization: float = 0.0
    """Until there were tokens: checks are in it, too."""
    queue: float = 0.0
    inference: float = 0.0


@dataclass(eq=False)
class Work:
    """One request: shared by the thread that answers it and the one that computes."""

    seconds: float | None = None
    """How long it may take; as long as it likes if None."""
    begun: float = field(default_factory=time.monotonic)
    tokens: int = 0
    """Tokens that the model read for it."""
    written: int = 0
    """Tokens that the model wrote for it; with beams, those of all of them."""
    timings: Timings = field(default_factory=Timings)
    _preparing: float = field(default_factory=time.monotonic)
    _cancelled: Event = field(default_factory=Event)
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def prepare(self) -> None:
        """From now on its inputs are made into tokens."""
        self._preparing = time.monotonic()

    def prepared(self) -> None:
        """There are tokens now."""
        self.timings.tokenization += time.monotonic() - self._preparing

    def cancel(self) -> None:
        """Nobody wants the answer any longer; what has not begun is dropped."""
        self._cancelled.set()
        for wake in list(self._waiting):
            wake()

    def on_cancel(self, wake: Callable[[], None]) -> None:
        """Has a function called when the work is cancelled."""
        self._waiting.append(wake)
        if self._cancelled.is_set():
            wake()

    @property
    def over(self) -> bool:
        """Whether the answer is no longer wanted, or comes too late."""
        return self._cancelled.is_set() or self.left == 0.0

    @property
    def left(self) -> float | None:
        """The seconds that are left; None without a limit."""
        if self.seconds is None:
            return None
        return max(self.begun + self.seconds - time.monotonic(), 0.0)

    def check(self) -> None:
        """Goes on only if the answer is still wanted.

        Raises:
            Cancelled: If it is not.
            DeadlinePassed: If it would come too late.
        """
        if self._cancelled.is_set():
            raise Cancelled("nobody waits for the answer any longer.")
        if self.left == 0.0:
            raise DeadlinePassed(
                f"the answer took longer than {self.seconds:g} s; send less at a time, ask again "
                "later, or raise --timeout."
            )
