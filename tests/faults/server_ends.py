"""A server that fails, does not begin, or is stopped."""

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from served import (
    SOURCE,
    WORDS,
    Connection,
    Reply,
    Row,
    asked,
    row,
    serving,
)


async def attack_failures(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """The model runs out of memory: with one input, and with everything."""
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    poison = Tokenizer.load(made / "bert").id_of("river")
    assert poison is not None
    with serving(made, ("bert",), poison=poison) as server:

        async def ask(number: int) -> str:
            text = "the river" if number % 40 == 7 else f"the {WORDS[number % 5]}"
            reply = await asked(server.port, "/v1/embed", {"inputs": [text] * 3})
            return f"{'poisoned' if 'river' in text else 'others'} {reply.status}"

        seen: list[str] = []
        for first in range(0, 400, 40):
            seen += await asyncio.gather(*(ask(first + number) for number in range(40)))
        yield row("failures", "one of 40 at a time is out of memory", seen, "poisoned 500",
                  "others 200")  # fmt: skip
        statuses = []
        for _ in range(8):
            reply = await asked(server.port, "/v1/embed", {"inputs": "the river"})
            statuses.append(reply.status)
        yield row("failures", "five in a row", statuses, 500, 503, "refused", "closed")
        code = await asyncio.to_thread(server.process.wait, 60)
        yield row("failures", "exit code", [code], 2, 1)
        said = server.log.read_text().splitlines()[-1]
        told = "told" if "computing failed again and again" in said else said
        yield row("failures", "what it says last", [told], "told")
    for what, arguments, word in (
        ("a port in use", ("bert",), "cannot be had"),
        ("a file of keys that is none", ("bert", "--keys", "bert/config.json"), "sha256"),
        ("no file of keys", ("bert", "--keys", "none"), "cannot be read"),
        ("only a broken folder", ("broken",), "broken"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            words = [sys.executable, "-m", "clozeworks", "serve", *arguments, "--port", port]
            done = await asyncio.to_thread(
                subprocess.run, words, cwd=made, capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )  # fmt: skip
        fine = word in done.stderr and "Traceback" not in done.stderr
        yield row("failures", what, [f"code {done.returncode}", fine], "code 2", True)


@dataclass
class Sent:
    """A request, and when all of it was sent."""

    at: float
    reply: Reply


async def _load(port: int, kind: int, sent: list[Sent], stop: asyncio.Event) -> None:
    """One client that asks again and again over one connection."""
    stream = {"model": "gpt2", "inputs": "the cat", "max_new_tokens": 40, "stream": kind % 3 == 0}
    vectors = {"model": "bert", "inputs": [" ".join(WORDS)] * 30}
    path, body = ("/v1/embed", vectors) if kind % 3 == 2 else ("/v1/generate", stream)
    while not stop.is_set():
        try:
            connection = await Connection.open(port)
        except ConnectionError:
            sent.append(Sent(time.monotonic(), Reply("refused")))
            return
        async with asyncio.timeout(130):
            while not stop.is_set():
                at = time.monotonic()
                try:
                    await connection.ask(path, body)
                    at = time.monotonic()
                    reply = await connection.reply()
                except ConnectionError:
                    reply = Reply("closed")
                if reply.status == 200 and kind % 3 == 0 and b'"usage"' not in reply.body:
                    reply.status = "broken"
                sent.append(Sent(at, reply))
                if reply.status != 200 or reply.headers.get("connection") == "close":
                    break
        await connection.close()
        if reply.status in ("refused", "closed", 503):
            return


async def attack_stop(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """SIGTERM under load, again and again; and Ctrl-C twice."""
    before: list[str] = []
    afterwards: list[str] = []
    codes: list[Any] = []
    seconds: list[float] = []
    said: list[str] = []
    for number in range(options.times):
        rng = random.Random(number)
        with serving(made, ("bert", "gpt2")) as server:
            sent: list[Sent] = []
            stop = asyncio.Event()
            clients = [asyncio.create_task(_load(server.port, n, sent, stop)) for n in range(12)]
            await asyncio.sleep(rng.uniform(0.3, 1.5))
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            codes.append(await asyncio.to_thread(server.process.wait, 100))
            seconds.append(time.monotonic() - begin)
            stop.set()
            await asyncio.gather(*clients)
            said.append(server.log.read_text().splitlines()[-1])
        for each in sent:
            (before if each.at < begin - 0.02 else afterwards).append(str(each.reply.status))
    yield row("stop", "sent before SIGTERM", before, 200)
    yield row("stop", "sent after it", afterwards, 200, 503, "refused", "closed")
    yield row("stop", "exit codes", codes, 0)
    yield row("stop", f"slowest {max(seconds):.1f} s, of 60 allowed", [max(seconds) < 60], True)
    yield row("stop", "what it says", said, "Stopped; everything that was accepted was answered.")
    for name, numbers in (("SIGINT twice", (2, 2)), ("SIGTERM, then SIGINT", (15, 2))):
        quick, codes = [], []
        for _ in range(5):
            with serving(made, ("bert", "gpt2")) as server:
                sent, stop = [], asyncio.Event()
                long = {"model": "gpt2", "inputs": "the", "max_new_tokens": 1000, "num_beams": 16}
                asking = [
                    asyncio.create_task(asked(server.port, "/v1/generate", long)) for _ in range(9)
                ]
                await asyncio.sleep(0.5)
                begin = time.monotonic()
                for each in numbers:
                    server.process.send_signal(each)
                    await asyncio.sleep(0.3)
                codes.append(await asyncio.to_thread(server.process.wait, 100))
                quick.append(time.monotonic() - begin)
                await asyncio.gather(*asking)
                fine = "got no answer" in server.log.read_text().splitlines()[-1]
                codes.append("told" if fine else server.log.read_text()[-300:])
        yield row("stop", f"{name}: slowest {max(quick):.1f} s", [max(quick) < 5], True)
        yield row("stop", f"{name}: exit codes", codes, 1, "told")
