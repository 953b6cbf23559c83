"""A process that serves models: it begins, answers, and ends without losing anything."""

import asyncio
import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import uvicorn

from clozeworks.errors import ClozeworksError, InputError
from clozeworks.serve.app import Answering
from clozeworks.serve.connections import PatientConnection

LOOPBACK = "127.0.0.1"
# How often it is looked whether the server shall end, and how often it must then be idle.
_WATCH, _QUIET = 0.05, 4
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SchedulerFailed(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """The thread that computes ended; a server without it is of no use."""


class _Server(uvicorn.Server):
    """A server that is stopped by whoever runs it: it drains first, and raises no signal again."""

    def __init__(self, config: uvicorn.Config, answering: Answering) -> None:
        super().__init__(config)
        self._answering = answering

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The first signal lets what was accepted end, the second does not wait."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Asks to end; asked again, at once."""
        if self._answering.draining:
            self.should_exit = self.force_exit = True
        self._answering.draining = True


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        InputError: If the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Trap: asyncio turns off the delay of small packets only where the protocol is stated.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise InputError(
            f"port {port:,} of {host} cannot be had ({error.strerror}); another program may have "
            "it; choose another with --port, or 0 for any that is free."
        ) from error
    return sock


def run(
    answering: Answering,
    host: str = LOOPBACK,
    port: int = 8000,
    *,
    ready: Callable[[str], None] = lambda address: None,
) -> int:
    """Serves until somebody stops it, then lets what was accepted end.

    Args:
        answering: What is served.
        host: The address; only this machine can ask if it is not given.
        port: The port; any that is free if 0.
        ready: Called with the address once it can be asked.

    Returns:
        How many requests were given up: it was stopped twice, or they took too long.

    Raises:
        InputError: If the address cannot be had.
        SchedulerFailed: If computing failed again and again.
    """
    with closing(bound(host, port)) as sock:
        config = uvicorn.Config(
            answering.app(),
            log_config=None,
            access_log=False,
            server_header=False,
            http=_connection(answering),
            ws="none",
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=1 << 16,
            lifespan="on",
        )
        server = _Server(config, answering)
        answering.scheduler.start()
        try:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                lost = runner.run(_served(server, answering, sock, ready))
        finally:
            answering.scheduler.stop()
    if answering.scheduler.fatal is not None:
        raise SchedulerFailed(
            f"computing failed again and again ({answering.scheduler.fatal}); the log says more; "
            "start the server again, with less --tokens if memory was too little."
        )
    return lost


def _connection(answering: Answering) -> Any:
    """What makes a connection of a socket."""
    return partial(
        PatientConnection,
        patience=answering.limits.patience,
        early=lambda: answering.lets_in,
    )


async def _served(
    server: _Server, answering: Answering, sock: socket.socket, ready: Callable[[str], None]
) -> int:
    task = asyncio.create_task(server.serve(sockets=[sock]))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    if server.started:
        ready(address_of(sock))
    late: float | None = None
    quiet = lost = 0
    while not task.done():
        await asyncio.wait([task], timeout=_WATCH)
        # Who had connected before it was asked to end, and was not let in yet, is let in now.
        answering.lets_in = late is None
        if answering.scheduler.fatal is not None:
            answering.draining = server.should_exit = True
        if answering.draining:
            # Whoever comes now is told so, which is better than a connection that breaks; the
            # socket closes when what was accepted has ended.
            late = late or time.monotonic() + answering.limits.drain
            quiet = 0 if answering.in_flight else quiet + 1
            if quiet > _QUIET:
                server.should_exit = True
            if time.monotonic() > late:
                server.should_exit = server.force_exit = True
        if server.force_exit:
            lost = lost or len(answering.in_flight)
            for connection in list(server.server_state.connections):
                connection.transport.abort()
    await task
    return lost or len(answering.in_flight)


def address_of(sock: socket.socket) -> str:
    """Where a socket is asked."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    _OWN = frozenset(vars(logging.makeLogRecord({})))

    def format(self, record: logging.LogRecord) -> str:
        """The record as an object."""
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in self._OWN},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to(stream: Any = None, level: int = logging.INFO) -> None:
    """Has the server write its log, and what carries it its complaints, as lines of JSON.

    Args:
        stream: Where to; standard error if not given.
        level: What is not as urgent is left out.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("clozeworks.serve", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == "clozeworks.serve" else max(level, logging.WARNING))
