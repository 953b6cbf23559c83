"""Connections that do not wait for clients for ever."""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from clozeworks.serve.replies import NATIVE

EARLY = "clozeworks.early"


class PatientConnection(H11Protocol):
    """HTTP/1.1 with a bound on how long a client may keep a connection to no purpose.

    The head of a request must come within the bound, however slowly its bytes drip, and so must
    what is left of a body that was refused. Of an answer something must be taken within it; then as
    much time is given again. Bodies that are wanted are the application's to wait for.

    Args:
        patience: The bound in seconds.
        early: Says, when a client connects, whether its requests are taken although the server is
            about to end by the time they come; the application finds it in its state.
        rest: What uvicorn hands a protocol.
    """

    def __init__(self, *, patience: float, early: Callable[[], bool], **rest: Any) -> None:
        super().__init__(**rest)
        self._patience = patience
        self.app_state = {**self.app_state, EARLY: early()}
        self._head: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._has_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there, and is to ask something."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Something came: a whole head, or a part of one."""
        if not self._has_ended:
            super().data_received(data)
        self._expect()

    def _expect(self) -> None:
        """Begins to wait for a head, or ends to."""
        if self.cycle is not None and not self.cycle.response_complete:
            _stop(self._head)
            self._head = None
        elif self._head is None:
            self._head = self.loop.call_later(self._patience, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not take what is sent."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def _watch(self, left: int) -> None:
        self._taking = self.loop.call_later(self._patience, self._look, left)

    def _look(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        else:
            self._watch(left)

    def resume_writing(self) -> None:
        """The client has taken what was sent."""
        super().resume_writing()
        _stop(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left."""
        super().connection_lost(exc)
        _stop(self._head)
        _stop(self._taking)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is told so in JSON, as everything."""
        self._has_ended = True
        _, content = NATIVE.error(400, f"this is not HTTP ({msg}); use an HTTP client.", "")
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in (
                h11.Response(status_code=400, headers=headers),
                h11.Data(data=orjson.dumps(content)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
        # Trap: closed while more comes, the system takes back what the client has not read yet.
        self.transport.write_eof()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
