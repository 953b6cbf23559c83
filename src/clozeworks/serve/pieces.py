"""What a thread makes of a stream, until the event loop sends it."""

import asyncio
from contextlib import suppress
from typing import Any

from clozeworks.inference.loop import Cancelled


class Pieces:
    """The pieces of a stream that are made and not yet sent.

    Texts of several clients grow in step, so nobody can wait for a client that reads slowly: what
    it leaves unread is kept, up to a bound, and then its stream ends.

    Args:
        loop: The event loop that sends them.
        most_bytes: The most bytes that are kept.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int) -> None:
        self._loop, self._most = loop, most_bytes
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        # Each is written by one thread alone.
        self._made = self._taken = 0

    def put(self, piece: bytes) -> None:
        """Adds a piece; called by the thread that makes them.

        Raises:
            Cancelled: If too much is left unread.
        """
        unread = self._made - self._taken
        if unread > self._most:
            raise Cancelled(
                f"{unread:,} bytes of the stream were left unread, more than are kept "
                f"({self._most:,}); read faster, or ask for less."
            )
        self._made += len(piece)
        with suppress(RuntimeError):  # the loop is over: nobody listens
            self._loop.call_soon_threadsafe(self._queue.put_nowait, piece)

    def end(self, done: "asyncio.Future[Any]") -> None:
        """The thread has ended, in whatever way."""
        self._queue.put_nowait(None)
        if not done.cancelled():
            done.exception()  # whoever left before it does not ask for it

    async def next(self) -> bytes | None:
        """The next piece; None if the thread has ended."""
        piece = await self._queue.get()
        self._taken += len(piece or b"")
        return piece
