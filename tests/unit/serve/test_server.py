"""A server on a socket: clients that drip, do not read or leave, and failures of its own."""

import io
import json
import logging
import socket
import threading
import time
from queue import SimpleQueue

import pytest

from clozeworks.inference.loop import Computation, compute_in_order
from clozeworks.serve.app import Answering
from clozeworks.serve.endpoint import Endpoint, Stream
from clozeworks.serve.limits import ServerLimits
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.replies import NATIVE
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.server import SchedulerFailed, log_to, run


def large(call, body):
    return "x" * (32 << 20)


def endless(call, body):
    def events():
        while True:
            call.work.check()
            yield "x" * 10_000
            time.sleep(0.001)

    return Stream(events())


def brief(call, body):
    return "answered"


def failing(call, body):
    def forward(inputs):
        raise RuntimeError("not enough memory")

    model = call.model("bert").language_model().model
    return compute_in_order(model, [1], [1], Computation(forward, forward))


ENDPOINTS = [
    Endpoint(path=f"/{answer.__name__}", summary="answers", answer=answer, dialect=NATIVE)
    for answer in (large, endless, brief, failing)
]


class Running:
    """A server in a thread of its own."""

    def __init__(self, model, **limits):
        served = ServedModels([ServedModel("bert", model)])
        limits = ServerLimits(**{"patience": 0.4, **limits})
        self.answering = Answering(served, Scheduler(), ENDPOINTS, limits=limits)
        self.ended = SimpleQueue()
        ready = SimpleQueue()

        def serve():
            try:
                self.ended.put(run(self.answering, "127.0.0.1", 0, ready=ready.put))
            except SchedulerFailed as error:
                self.ended.put(error)

        threading.Thread(target=serve).start()
        self.port = int(ready.get(timeout=60).rpartition(":")[2])

    def connection(self, buffer=None):
        sock = socket.socket()
        sock.settimeout(20)
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def asked(self, path, sock=None):
        sock = sock or self.connection()
        sock.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        return sock.recv(100_000)

    def is_idle(self):
        deadline = time.monotonic() + 10
        while self.answering.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.answering.in_flight


@pytest.fixture
def running(language_models):
    several = []

    def start(**limits):
        several.append(Running(language_models["bert"], **limits))
        return several[-1]

    yield start
    for each in several:
        each.answering.draining = True
        each.ended.get(timeout=60)


def closed(sock):
    """Whether the server ends a connection, whatever it has sent."""
    try:
        while sock.recv(1 << 20):
            pass
    except ConnectionError:
        pass
    return True


def test_a_head_must_come_in_time(running):
    server = running()
    with server.connection() as silent, server.connection() as kept, server.connection() as drips:
        begin = time.monotonic()
        assert b"200 OK" in server.asked("/brief", kept)
        kept.sendall(b"POST /br")  # the next one begins, and does not go on
        with pytest.raises(ConnectionError):
            while time.monotonic() < begin + 5:
                drips.sendall(b"x")
                time.sleep(0.05)
        assert closed(silent) and closed(kept) and 0.3 < time.monotonic() - begin < 5


@pytest.mark.parametrize("path", ["/large", "/endless"])
def test_who_does_not_read_is_left(running, path):
    server = running(unread_bytes=1 << 28)
    with server.connection(buffer=4096) as sock:
        assert server.asked(path, sock).startswith(b"HTTP/1.1 200 OK")
        assert server.answering.in_flight
        assert b"200 OK" in server.asked("/brief")  # others are answered meanwhile
        assert server.is_idle()


def test_what_is_no_http(running):
    with running().connection() as sock:
        sock.sendall(b"what is this\r\n\r\n")
        said = b""
        while part := sock.recv(10_000):
            said += part
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"400" in head and b"application/json" in head
    assert b"this is not HTTP" in body


def test_who_leaves_within_a_body_is_no_failure(running, caplog):
    server = running()
    sock = server.connection()
    sock.sendall(b"POST /brief HTTP/1.1\r\nhost: x\r\ncontent-length: 20\r\n\r\n{")
    while not server.answering.in_flight:
        time.sleep(0.01)
    sock.close()
    assert server.is_idle()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_failures_in_a_row_end_the_server(running):
    server = running()
    answers = [server.asked("/failing") for _ in range(5)]
    assert all(b"500 Internal Server Error" in each for each in answers)
    ended = server.ended.get(timeout=30)
    assert isinstance(ended, SchedulerFailed)
    assert str(ended).startswith("computing failed again and again (not enough memory);")
    server.ended.put(None)


def test_what_takes_too_long_to_end_is_counted(running):
    server = running(drain=0.5, unread_bytes=1 << 28, patience=30.0)
    with server.connection(buffer=4096) as sock:
        server.asked("/endless", sock)
        server.answering.draining = True
        assert server.ended.get(timeout=30) == 1
    server.ended.put(None)


def test_who_was_connected_is_answered_once_more(running):
    server = running()
    with server.connection() as sock, server.connection() as early:
        sock.sendall(b"POST /brief HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{")
        while not server.answering.in_flight:
            time.sleep(0.01)
        server.answering.draining = True
        answer = server.asked("/brief", early)
        assert b"200 OK" in answer and b"connection: close" in answer and closed(early)
        while server.answering.lets_in:
            time.sleep(0.01)
        with server.connection() as late:
            assert b"503 Service Unavailable" in server.asked("/brief", late) and closed(late)
        sock.sendall(b"}")
        assert b"200 OK" in sock.recv(10_000)


def test_who_waits_to_be_let_in_when_it_is_to_end_is_answered(running, monkeypatch):
    server, busy, go = running(), threading.Event(), threading.Event()
    admit = server.answering._admit

    def slow(exchange):
        busy.set()
        assert go.wait(10)
        admit(exchange)

    monkeypatch.setattr(server.answering, "_admit", slow)
    request = b"POST /brief HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
    with server.connection() as first:
        first.sendall(request)
        assert busy.wait(10)
        with server.connection() as second:  # the system took it; the server is busy
            second.sendall(request)
            server.answering.draining = True
            go.set()
            assert b"200 OK" in second.recv(10_000)


def test_the_log_is_json_whoever_writes_it(monkeypatch):
    for name in ("clozeworks.serve", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        for attribute in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logger, attribute, getattr(logger, attribute))
    written = io.StringIO()
    log_to(written)
    logging.getLogger("uvicorn.error").warning("no HTTP\n%s", "forged")
    logging.getLogger("uvicorn.error").info("nobody needs this")
    logging.getLogger("asyncio").error("no socket")
    logging.getLogger("clozeworks.serve").info("request", extra={"status": 200})
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [each["event"] for each in lines] == ["no HTTP\nforged", "no socket", "request"]
    assert lines[-1]["status"] == 200
