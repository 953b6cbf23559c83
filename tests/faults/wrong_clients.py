"""Clients that leave, drip, send without end, or do not read."""

import argparse
import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from served import (
    MODELS,
    WORDS,
    Connection,
    Row,
    Server,
    after,
    asked,
    connected,
    idle,
    request_of,
    row,
    serving,
)


async def leaves(port: int, moment: str) -> None:
    """A client leaves at some moment of its request."""
    stream = {"model": "gpt2", "inputs": "the", "max_new_tokens": 900, "stream": True}
    whole = request_of("/v1/generate", stream)
    connection = await Connection.open(port)
    if moment == "within the head":
        await connection.send(whole[:30])
    elif moment == "after the head":
        await connection.send(whole[: whole.index(b"\r\n\r\n") + 4])
    elif moment == "within the body":
        await connection.send(whole[:-5])
    elif moment == "before the answer":
        texts = {"model": "slow", "inputs": [" ".join(WORDS * 3)] * 40}
        await connection.ask("/v1/embed", texts)
        await asyncio.sleep(0.02)
    else:
        await connection.send(whole)
        await connection.reader.readuntil(b"data:")
    # Without a farewell, as a process that was killed.
    sock = connection.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.writer.transport.abort()


def _killed(port: int) -> None:
    """A client of its own process is killed in the middle of a stream."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            body = {"model": "gpt2", "inputs": "the", "max_new_tokens": 900, "stream": True}
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(request_of("/v1/generate", body))
            while True:
                sock.recv(100)
        os._exit(0)
    time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


async def attack_clients(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """Clients that leave at every moment, and such that send or read next to nothing."""
    with serving(made, (*MODELS, "slow")) as server:
        port = server.port
        moments = ("head", "body")
        for moment in (
            *(f"within the {each}" for each in moments), "after the head", "before the answer",
            "within a stream",
        ):  # fmt: skip
            for _ in range(5):
                await asyncio.gather(*(leaves(port, moment) for _ in range(20)))
            gone = await idle(port)
            yield row("clients", f"100 leave {moment}", ["gone" if gone else "stays"], "gone")
        for _ in range(10):
            await asyncio.to_thread(_killed, port)
        yield row("clients", "10 are killed within a stream", [await idle(port)], True)
        yield await after("clients", server)
        for name, attack in (
            ("200 heads that drip", _dripping_heads),
            ("40 bodies that drip", _dripping_bodies),
            ("a body of 1 GB, its length said", _large(said=True)),
            ("a body of 1 GB in chunks", _large(said=False)),
            ("8 clients that do not read a stream, others ask", _unread_streams),
            ("20 clients that do not read 25 MB, others ask", _unread_answers),
            ("the same again", _unread_answers),
            ("and once more", _unread_answers),
        ):
            before = server.memory
            seen, allowed = await attack(server)
            yield row("clients", name, seen, *allowed)
            grown, most = server.memory - before, MOST_GROWTH.get(name, 50)
            yield row("clients", f"    memory {grown:+,} MB, at most {most}", [grown < most], True)
            yield await after("clients", server)


# What answers that nobody reads take, in megabytes, the first time.
MOST_GROWTH = {
    "8 clients that do not read a stream, others ask": 250,
    "20 clients that do not read 25 MB, others ask": 800,
    "the same again": 200,
}
Attack = Callable[[Server], Awaitable[tuple[list[str], tuple[str, ...]]]]


async def _others(server: Server, seconds: float) -> list[float]:
    """How long others wait meanwhile, for an answer and for /health."""
    waits, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for path, body, method in (
            ("/health", None, "GET"),
            ("/v1/embed", {"model": "bert", "inputs": "the cat"}, "POST"),
            ("/v1/generate", {"model": "gpt2", "inputs": "the", "max_new_tokens": 4}, "POST"),
        ):
            reply = await asked(server.port, path, body, method=method, patience=30)
            waits.append(reply.seconds if reply.status == 200 else 99.0)
        await asyncio.sleep(0.2)
    return waits


async def _dripping_heads(server: Server) -> tuple[list[str], tuple[str, ...]]:
    async def drip() -> str:
        async with connected(server.port) as connection:
            begin = time.monotonic()
            for letter in b"POST /v1/embed HTTP/1.1\r\nx: " + b"y" * 100:
                try:
                    await connection.send(bytes([letter]))
                    await asyncio.wait_for(connection.reader.read(1), 1.0)
                    return "closed" if time.monotonic() - begin < 40 else "closed late"
                except TimeoutError:
                    continue
                except ConnectionError:
                    return "closed"
            return "kept"

    several = [asyncio.create_task(drip()) for _ in range(200)]
    waits = await _others(server, 10)
    seen = [*await asyncio.gather(*several), f"others within {_up(max(waits))} s"]
    return seen, ("closed", *(f"others within {n} s" for n in (1, 2)))


async def _dripping_bodies(server: Server) -> tuple[list[str], tuple[str, ...]]:
    async def drip() -> str:
        async with connected(server.port) as connection:
            await connection.send(request_of("/v1/embed", headers="content-length: 1000\r\n"))
            for _ in range(90):
                try:
                    await connection.send(b" ")
                    head = await asyncio.wait_for(connection.reader.readuntil(b"\r\n"), 1.0)
                    return head.split()[1].decode()
                except TimeoutError:
                    continue
                except (ConnectionError, asyncio.IncompleteReadError):
                    return "closed"
            return "kept"

    several = [asyncio.create_task(drip()) for _ in range(40)]
    waits = await _others(server, 10)
    seen = [*await asyncio.gather(*several), f"others within {_up(max(waits))} s"]
    return seen, ("408", *(f"others within {n} s" for n in (1, 2)))


def _large(*, said: bool) -> Attack:
    async def attack(server: Server) -> tuple[list[str], tuple[str, ...]]:
        size, part = 1 << 30, b"x" * (1 << 20)
        header = f"content-length: {size}\r\n" if said else "transfer-encoding: chunked\r\n"
        async with connected(server.port) as connection:
            await connection.send(request_of("/v1/embed", headers=header))
            reading = asyncio.create_task(connection.reply())
            others = asyncio.create_task(_others(server, 3))
            with suppress(ConnectionError):
                for _ in range(size // len(part)):
                    await connection.send(part if said else b"100000\r\n" + part + b"\r\n")
                await connection.send(b"" if said else b"0\r\n\r\n")
            async with asyncio.timeout(60):
                reply = await reading
            waits = await others
        return [str(reply.status), f"others within {_up(max(waits))} s"], (
            "413", "others within 1 s", "others within 2 s",
        )  # fmt: skip

    return attack


async def _unread_streams(server: Server) -> tuple[list[str], tuple[str, ...]]:
    body = {"model": "gpt2", "prompt": "the", "max_tokens": 900, "n": 8, "stream": True}
    return await _unread(server, "/v1/completions", {**body, "logprobs": 5}, 8)


async def _unread_answers(server: Server) -> tuple[list[str], tuple[str, ...]]:
    body = {"model": "bert", "inputs": [" ".join(WORDS * 6)] * 600}
    return await _unread(server, "/embed_all", body, 20)


async def _unread(
    server: Server, path: str, body: Any, count: int
) -> tuple[list[str], tuple[str, ...]]:
    def stubborn() -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(request_of(path, body))
        return sock

    several = [stubborn() for _ in range(count)]
    try:
        waits = await _others(server, 40)
        gone = "gone" if await idle(server.port, 100) else "stay"
    finally:
        for sock in several:
            sock.close()
    seconds = (f"others within {n} s" for n in range(1, 16))
    return [gone, f"others within {_up(max(waits))} s"], ("gone", *seconds)


def _up(seconds: float) -> int:
    return int(seconds) + 1
