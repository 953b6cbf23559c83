"""Attacks `clozeworks serve`, and counts what becomes of it.

Tiny models are served by a process of its own, on loopback; clients ask what no client should, come
in crowds, leave in the middle, and the server is stopped under load.

    python tests/faults/serving.py [ATTACKS …] [--seconds 60] [--times 50] [--minutes 20]

After each attack the server must answer as before, have nothing in hand, and have written no
traceback. `schema` needs the program schemathesis, named with `--schemathesis PATH`; an environment
of its own keeps it from ours. Exits with 1 if anything was not as it should be.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"
WORDS = ["the", "cat", "sat", "on", "mat", "Paris", "lies", "Seine", "dog", "lay", "in", "its"]
WORDS += ["old", "garden", "long", "river", "new", "city", "house", "and"]
MODELS = ("bert", "spam", "pairs", "ner", "qa", "rerank", "gpt2", "t5")
MOST_MEMORY = 6 << 30
MOST_TOKENS = 131_072
JSON = "content-type: application/json\r\n"
# Runs the command, but the model fails where a text holds a certain word.
POISONED = """
import sys
import torch
from clozeworks.core.model import Model
from clozeworks.cli import main
def poisoned(method):
    def call(self, ids, *rest, **named):
        if (ids == POISON).any():
            raise torch.OutOfMemoryError("not enough memory: you tried to allocate 9 GB")
        return method(self, ids, *rest, **named)
    return call
for name in ("encode", "first_tokens"):
    setattr(Model, name, poisoned(getattr(Model, name)))
sys.argv = ["clozeworks", *sys.argv[1:]]
main.main()
"""


def prepare(made: Path) -> None:
    """Makes the models."""
    import clozeworks as cw
    from clozeworks.tasks.answer import Answer
    from clozeworks.tasks.classify import Classify
    from clozeworks.tasks.compare import Compare
    from clozeworks.tasks.rerank.task import Rerank
    from clozeworks.tasks.tag import Tag
    from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
    from clozeworks.text.training.train import train_from_iterator

    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 20))) for _ in range(2000)]
    pieces = train_from_iterator(texts, kind="wordpiece", size=300)
    bert = cw.new("bert-tiny", pieces, hidden_size=32, intermediate_size=64)
    bert.save(made / "bert")
    tasks = {
        "spam": Classify(labels=("bad", "good")),
        "pairs": Compare(labels=("entailment", "neutral", "contradiction")),
        "ner": Tag(labels=("O", "B-X", "I-X")),
        "qa": Answer(),
        "rerank": Rerank(),
    }
    for name, task in tasks.items():
        bert.for_task(task).save(made / name)
    cw.new("bert-mini", pieces).save(made / "slow")
    bytes_ = train_from_iterator(texts, kind="bpe", size=330, style=GPT2_STYLE)
    gpt2 = cw.new("gpt2", bytes_, n_embd=32, n_layer=2, n_head=2, n_positions=1024)
    gpt2.save(made / "gpt2")
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    unigram = train_from_iterator(texts, kind="unigram", size=160, style=T5_STYLE)
    cw.new("t5-small", unigram, num_decoder_layers=1, **shape).save(made / "t5")
    (made / "broken").mkdir()


# The server, and how it is asked.


@dataclass
class Server:
    """A server in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def memory(self) -> int:
        """The megabytes of memory that it takes now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) >> 10 if found else 0

    def tracebacks(self) -> list[str]:
        """What the log holds of Python's complaints."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "Traceback" in line or "request failed" in line]


@contextmanager
def serving(
    made: Path, models: Sequence[str] = MODELS, *options: str, poison: int | None = None
) -> Iterator[Server]:
    """Serves models of `made`; nothing of it is left after the block."""
    start = ["-m", "clozeworks"] if poison is None else ["-c", f"POISON = {poison}\n{POISONED}"]
    with tempfile.TemporaryDirectory(prefix="served-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, *start, "serve", *models, "--port", "0", *options],
                cwd=made, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_WAIT_POLICY": "PASSIVE"},
                start_new_session=True,
            )  # fmt: skip
        # What takes all memory fails, and does not take that of others.
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        try:
            yield Server(process, _port(process, log), log)
        finally:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"Serving at http://127.0.0.1:(\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.02)
    raise RuntimeError(f"the server did not begin: {log.read_text()}")


@dataclass
class Reply:
    """What came of a request."""

    status: int | str
    """Of the answer; else how there was none: `refused`, `broken`, `closed`, `silent`."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0

    def json(self) -> Any:
        """The answer."""
        return json.loads(self.body)


class Connection:
    """A connection that speaks HTTP/1.1, and can be made to speak something else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """A new one."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def close(self) -> None:
        """Ends it."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def ask(
        self, path: str, body: Any = None, *, method: str = "POST", headers: str = ""
    ) -> None:
        """Sends a request; a body that is not bytes is sent as JSON."""
        await self.send(request_of(path, body, method=method, headers=headers))

    async def reply(self, *, has_body: bool = True) -> Reply:
        """Reads a whole answer."""
        head = b""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            pairs = (line.split(": ", 1) for line in lines if line)
            headers = {name.lower(): value for name, value in pairs}
            status = int(first.split()[1])
            body = await self._body(headers) if has_body and status != 204 else b""
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            begun = head or getattr(error, "partial", b"")
            return Reply("broken" if begun else "closed")
        return Reply(status, headers, body)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.read()
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)


def request_of(path: str, body: Any = None, *, method: str = "POST", headers: str = "") -> bytes:
    """The bytes of a request."""
    whole = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\n{JSON}{headers}"
    if "transfer-encoding" not in headers and "content-length" not in headers:
        head += f"content-length: {len(whole)}\r\n"
    return f"{head}\r\n".encode("latin-1") + whole


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """A connection within the block."""
    connection = await Connection.open(port)
    try:
        yield connection
    finally:
        await connection.close()


async def asked(
    port: int, path: str, body: Any = None, *, method: str = "POST", headers: str = "",
    patience: float = 130.0,
) -> Reply:  # fmt: skip
    """The answer to a request over a connection of its own."""
    begin, reply = time.monotonic(), Reply("silent")
    try:
        async with asyncio.timeout(patience), connected(port) as connection:
            with suppress(ConnectionError):  # it may answer before all is sent
                await connection.ask(path, body, method=method, headers=headers)
            reply = await connection.reply(has_body=method != "HEAD")
    except ConnectionError:
        reply = Reply("refused")
    except TimeoutError:
        pass
    reply.seconds = time.monotonic() - begin
    return reply


async def measured(port: int) -> dict[str, float]:
    """The numbers of `/metrics` that say what is in hand."""
    text = (await asked(port, "/metrics", method="GET")).body.decode()
    names = ("in_flight", "queue_inputs", "tokens_in_hand", "growing_texts")
    lines = [line.split() for line in text.splitlines() if line.startswith("clozeworks_")]
    values = {line[0].removeprefix("clozeworks_"): float(line[1]) for line in lines}
    return {name: values[name] for name in names}


async def idle(port: int, patience: float = 40.0) -> bool:
    """Whether nothing is in hand any longer, after a while."""
    deadline = time.monotonic() + patience
    while any((await measured(port)).values()):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True


# What is counted.


@dataclass
class Row:
    """One line of the table."""

    attack: str
    what: str
    seen: Counter[str]
    allowed: frozenset[str]

    @property
    def is_fine(self) -> bool:
        """Whether nothing else was seen."""
        return bool(self.seen) and self.seen.keys() <= self.allowed

    def __str__(self) -> str:
        counts = ", ".join(f"{name}: {count:,}" for name, count in sorted(self.seen.items()))
        mark = "    " if self.is_fine else "BAD "
        return f"{mark}{self.attack:<9} {self.what:<58} {sum(self.seen.values()):>6,}  {counts}"


def row(attack: str, what: str, seen: Iterable[Any], *allowed: Any) -> Row:
    """A line of the table."""
    return Row(attack, what, Counter(map(str, seen)), frozenset(map(str, allowed)))


async def after(attack: str, server: Server) -> Row:
    """Whether all is as before."""
    reply = await asked(server.port, "/v1/embed", {"inputs": "the cat", "model": "bert"})
    words = ["answers" if reply.status == 200 else f"embed {reply.status}"]
    words.append("idle" if await idle(server.port) else f"has {await measured(server.port)}")
    words.append("no traceback" if not server.tracebacks() else server.tracebacks()[0][:300])
    return row(attack, "afterwards", words, "answers", "idle", "no traceback")


# Bodies and heads that nobody should send.


@dataclass(frozen=True)
class Wrong:
    """A request, the statuses it may get, and a word of the sentence it gets."""

    what: str
    path: str
    body: Any
    statuses: tuple[int, ...]
    word: str = ""
    method: str = "POST"
    headers: str = ""


def wrong_requests() -> list[Wrong]:
    """Requests that cannot be answered, or barely."""
    deep = b'{"inputs": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    deep_field = b'{"inputs": "a", "parameters": ' + b'{"a":' * 500 + b"1" + b"}" * 501
    embed, generate, completions = "/v1/embed", "/v1/generate", "/v1/completions"
    bert, gpt2, t5 = {"model": "bert"}, {"model": "gpt2"}, {"model": "t5"}
    prompt = {**gpt2, "inputs": "the cat", "max_new_tokens": 8}
    prompts = {**gpt2, "prompt": "the cat", "max_tokens": 8}
    openai = [
        Wrong(f"{path}: {what}", path, {**base, **change}, statuses, word)
        for path, base, key in (
            ("/v1/embeddings", bert, "input"),
            (completions, {**gpt2, "max_tokens": 2}, "prompt"),
        )
        for what, change, statuses, word in (
            ("ids outside of the vocabulary", {key: [1, 2, 10**6]}, (400,), "vocabulary|ids"),
            ("negative ids", {key: [[1, -1]]}, (400,), "ids"),
            ("ids beyond 64 bits", {key: [2**70]}, (400,), key),
            ("an id that is a fraction", {key: [1.5]}, (400,), key),
            ("true as an id", {key: [True]}, (400,), key),
            ("an empty list", {key: []}, (400,), "empty"),
            ("an empty list of ids", {key: [[]]}, (400,), "empty"),
        )
    ]
    return [
        Wrong("no body", embed, b"", (422,), "JSON object"),
        Wrong("not JSON", embed, b"{", (400,), "not JSON"),
        Wrong("a form", "/embed", b"inputs=the+cat", (400,), "not JSON"),
        Wrong("deeply nested lists", embed, deep, (400,), "not JSON"),
        Wrong("nested objects", "/", deep_field, (422, 404), ""),
        Wrong("NaN", embed, b'{"inputs": NaN}', (400,), "not JSON"),
        Wrong("Infinity", "/embed", b'{"inputs": "a", "dimensions": Infinity}', (400,), "not JSON"),
        Wrong("a number of 10,000 digits", generate,
              b'{"model": "gpt2", "inputs": "a", "max_new_tokens": ' + b"9" * 10_000 + b"}",
              (400, 422), ""),
        Wrong("1e400", generate, b'{"model":"gpt2","inputs":"a","temperature":1e400}', (400, 422)),
        Wrong("a lone surrogate", embed, b'{"inputs": "\\ud800"}', (400,), "not JSON"),
        Wrong("bytes that are no UTF-8", embed, b'{"inputs": "\xff\xfe"}', (400,), "not JSON"),
        Wrong("NUL in a text", embed, {**bert, "inputs": "the \0 cat"}, (200,)),
        Wrong("only NUL", embed, {**bert, "inputs": "\0"}, (200, 422)),
        Wrong("a list as the body", embed, ["a"], (422,), "JSON object"),
        Wrong("100,000 texts", embed, {**bert, "inputs": ["a"] * 100_000}, (413,), "100,000"),
        Wrong("100,000 texts inside", "/", {"inputs": {"source_sentence": "a",
              "sentences": ["a"] * 100_000}}, (413,), "100,000"),
        Wrong("1,000,000 numbers as texts", "/similarity", {"inputs": {"source_sentence": "a",
              "sentences": [0] * 1_000_000}}, (413,), "1,000,000"),
        Wrong("10,000 texts times 10,000 labels", "/v1/zero-shot", {"model": "pairs",
              "inputs": ["a"] * 10_000, "labels": [f"l{n}" for n in range(10_000)]}, (413, 422),
              "100,000,000"),
        Wrong("an empty string", embed, {**bert, "inputs": ""}, (422,), "empty"),
        Wrong("an empty string (openai)", "/v1/embeddings", {**bert, "input": ""}, (400,), "empty"),
        Wrong("no text at all", embed, {**bert, "inputs": []}, (200, 422)),
        Wrong("a text longer than the positions", embed, {**bert, "inputs": "cat " * 2_000},
              (422,), "tokens"),
        Wrong("a prompt longer than the positions", generate, {**prompt, "inputs": "cat " * 2_000},
              (422,), "positions"),
        Wrong("dimensions it was not trained for", "/v1/embeddings",
              {**bert, "input": "a", "dimensions": 7}, (400,), "dimensions"),
        Wrong("dimensions it was not trained for (tei)", "/embed",
              {**bert, "inputs": "a", "dimensions": 7}, (422,), "dimensions"),
        Wrong("10^12 dimensions", embed, {**bert, "inputs": "a", "truncate_dim": 10**12}, (200,)),
        Wrong("top_k of nothing", generate, {**prompt, "sample": True, "top_k": 0}, (422,),
              "top_k"),
        Wrong("settings that contradict each other", generate,
              {**prompt, "num_beams": 2, "sample": True}, (422,), "num_beams"),
        Wrong("the same in a stream", generate,
              {**prompt, "num_beams": 2, "sample": True, "stream": True}, (422,), "num_beams"),
        Wrong("an unknown setting", generate, {**prompt, "top_kk": 3}, (422,), "top_k"),
        Wrong("10^9 texts for a prompt", generate,
              {**prompt, "sample": True, "num_return_sequences": 10**9}, (413,), "texts"),
        Wrong("300,000 texts for a prompt", generate,
              {**prompt, "sample": True, "num_return_sequences": 300_000}, (413,), "texts"),
        Wrong("10^18 new tokens", generate, {**prompt, **t5, "max_new_tokens": 10**18}, (422,),
              "max_new_tokens"),
        Wrong("10^9 alternatives of each token", generate, {**prompt, "top_logprobs": 10**9},
              (200, 422)),
        Wrong("10^9 beams", generate, {**prompt, "num_beams": 10**9}, (422,), "num_beams"),
        Wrong("a seed beyond 64 bits", completions, {**prompts, "seed": 2**80}, (200, 400)),
        Wrong("a temperature below 0", completions, {**prompts, "temperature": -1}, (400,)),
        Wrong("a stop string that is empty", completions, {**prompts, "stop": ""}, (400,), "stop"),
        Wrong("129 texts", completions, {**prompts, "n": 129}, (400,), "n"),
        Wrong("a top of 10^18", "/v1/fill", {**bert, "inputs": "a [MASK]", "top": 10**18},
              (200, 422)),
        Wrong("ids outside of the vocabulary (tei)", "/embed", {**bert, "inputs": [1, 10**6]},
              (422,), "id"),
        Wrong("ids outside of the vocabulary (decode)", "/decode", {**bert, "ids": [10**6]},
              (422,), "id"),
        Wrong("negative ids (decode)", "/decode", {**bert, "ids": [-1]}, (422,), "id"),
        *openai,
        Wrong("an unknown model", embed, {"model": "brt", "inputs": "a"}, (404,), "did you mean"),
        Wrong("an unknown model (openai)", "/v1/embeddings", {"model": "brt", "input": "a"}, (404,),
              "did you mean"),
        Wrong("an unknown model (tei)", "/embed", {"model": "brt", "inputs": "a"}, (424,),
              "did you mean"),
        Wrong("a model that cannot be loaded", embed, {"model": "broken", "inputs": "a"}, (404,),
              "could not be loaded"),
        Wrong("a model that cannot do it", "/v1/classify", {"model": "gpt2", "inputs": "a"}, (404,),
              "cannot classify"),
        Wrong("an unknown path", "/v1/embd", {}, (404,), "did you mean"),
        Wrong("an unknown path with quotes", "/%22%3Cb%3E", {}, (404,), "nothing at"),
        Wrong("a wrong method", embed, b"", (405,), "POST", "GET"),
        Wrong("a wrong method (openai)", "/v1/models", b"", (405,), "GET", "DELETE"),
        Wrong("a method nobody has", embed, b"", (405,), "POST", "BREW"),
        Wrong("HEAD", "/v1/models", b"", (200,), "", "HEAD"),
        Wrong("HEAD where there is only POST", embed, b"", (405,), "", "HEAD"),
        Wrong("OPTIONS", embed, b"", (204,), "", "OPTIONS"),
        Wrong("a host with a path", "/v1/abilities", b"", (200, 400), "", "GET", "host: a/b?c\r\n"),
        Wrong("an id that is no id", "/v1/abilities", b"", (200,), "", "GET",
              "x-request-id: a\tset-cookie: b\r\n"),
        Wrong("a key nobody asked for", "/v1/abilities", b"", (200,), "", "GET",
              "authorization: Bearer \xff\xfe\r\n"),
        Wrong("a body larger than is said", embed, b"{}" + b"x" * 100, (422, 400), "", "POST",
              "content-length: 2\r\n"),
        Wrong("a length that is no number", embed, b"", (400,), "HTTP", "POST",
              "content-length: two\r\n"),
        Wrong("a length of 30 digits", embed, b"", (400, 413), "", "POST",
              f"content-length: {'9' * 30}\r\n"),
        Wrong("two lengths", embed, b"{}", (400,), "HTTP", "POST",
              "content-length: 2\r\ncontent-length: 3\r\n"),
        Wrong("a head of 1 MB", embed, b"", (400,), "HTTP", "POST", f"x: {'y' * 1_000_000}\r\n"),
        Wrong("an upgrade to a socket", "/v1/abilities", b"", (200,), "", "GET",
              "upgrade: websocket\r\nconnection: upgrade\r\n"),
    ]  # fmt: skip


def _complaint(wrong: Wrong, reply: Reply) -> str:
    """What is not as it should be with an answer; its status if all is."""
    if reply.status not in wrong.statuses:
        return f"{reply.status} {reply.body[:200]!r}"
    if reply.status in (200, 204) or wrong.method == "HEAD":
        return str(reply.status)
    if reply.headers.get("content-type") != "application/json":
        return f"{reply.status}, content type {reply.headers.get('content-type')}"
    text = json.dumps(reply.json())
    if "Traceback" in text or 'File "' in text:
        return "a traceback"
    if not re.search(wrong.word, text, re.IGNORECASE):
        return f"{reply.status} without {wrong.word!r}: {text[:300]}"
    return str(reply.status)


async def attack_requests(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """Everything that is wrong with a request by itself, each twice."""
    with serving(made, (*MODELS, "broken")) as server:
        before = server.memory
        for wrong in wrong_requests():
            seen = []
            for _ in range(2):
                reply = await asked(
                    server.port, wrong.path, wrong.body, method=wrong.method, headers=wrong.headers
                )
                seen.append(_complaint(wrong, reply))
            yield row("requests", wrong.what, seen, *wrong.statuses)
        injected = await asked(
            server.port, "/v1/abilities", method="GET", headers="x-request-id: a\tx: y\r\n"
        )
        own = injected.headers.get("x-request-id", "")
        fine = len(own) == 32 and "access-control-allow-origin" not in injected.headers
        yield row("requests", "headers that were sent come back", ["no" if fine else "yes"], "no")
        origin = await asked(
            server.port, "/v1/embed", method="OPTIONS", headers="origin: https://a.example\r\n"
        )
        allowed = "access-control-allow-origin" in origin.headers
        yield row("requests", "a page of another origin may ask", [allowed], False)
        yield await after("requests", server)
        grown = server.memory - before
        yield row("requests", f"memory, {before:,} MB and {grown:+,}", [grown < 400], True)
    with serving(made, ("bert",), "--keys", str(_keys(made))) as server:
        for what, headers, status in (
            ("no key", "", 401),
            ("a wrong key", "authorization: Bearer wrong\r\n", 401),
            ("a key of 60 kB", f"x-api-key: {'k' * 60_000}\r\n", 401),
            ("a key that is no ASCII", "authorization: Bearer \xff\r\n", 401),
            ("the key", "authorization: Bearer secret\r\n", 200),
        ):
            replies = [
                await asked(server.port, "/v1/embed", {"inputs": "a"}, headers=headers)
                for _ in range(20)
            ]
            yield row("requests", what, [each.status for each in replies], status)


def _keys(made: Path) -> Path:
    path = made / "keys"
    path.write_text("key: secret\n")
    return path


# Clients that leave, or do not.


async def _leaves(port: int, moment: str) -> None:
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
                await asyncio.gather(*(_leaves(port, moment) for _ in range(20)))
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


# More than it can do.


async def attack_overload(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """Ten times what it can do comes, whether answers come or not."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=20)) for _ in range(64)]
    body = json.dumps({"model": "slow", "inputs": texts}).encode()
    with serving(made, ("slow", "bert")) as server:
        port = server.port

        async def closed_loop(end: float) -> int:
            done = 0
            while time.monotonic() < end:
                done += (await asked(port, "/v1/embed", body)).status == 200
            return done

        for seconds in (3, 10):  # the first ones do what happens only once
            end = time.monotonic() + seconds
            rate = sum(await asyncio.gather(*(closed_loop(end) for _ in range(12)))) / seconds
        memory = [server.memory]
        tasks: list[asyncio.Task[Reply]] = []
        health: list[Reply] = []
        begin = time.monotonic()

        async def watch() -> None:
            while time.monotonic() < begin + options.seconds:
                paths = ("/health", "/ready")
                health.extend([await asked(port, path, method="GET") for path in paths])
                memory.append(server.memory)
                await asyncio.sleep(0.5)

        watching = asyncio.create_task(watch())
        while (now := time.monotonic() - begin) < options.seconds:
            while len(tasks) < now * rate * 10:
                tasks.append(asyncio.create_task(asked(port, "/v1/embed", body)))
            await asyncio.sleep(0.005)
        replies = await asyncio.gather(*tasks)
        await watching
        taken = sorted(each.seconds for each in replies if each.status == 200)
        p50, p99 = (taken[int(len(taken) * part)] for part in (0.5, 0.99))
        # What is in hand, at the rate that was measured; refusing others takes its part, too.
        tokens = (await asked(port, "/v1/embed", body)).json()["usage"]["input_tokens"]
        bound = 2 * MOST_TOKENS / tokens / rate
        what = f"{rate * 10:.0f}/s for {options.seconds:g} s, {rate:.0f}/s can be done"
        yield row("overload", what, [each.status for each in replies], 200, 429)
        refused = [each for each in replies if each.status == 429]
        yield row("overload", "refusals say when to come again",
                  [each.headers.get("retry-after") for each in refused], 1)  # fmt: skip
        yield row("overload", f"accepted: p50 {p50:.1f} s, p99 {p99:.1f} s, bound {bound:.0f} s",
                  [p99 < bound], True)  # fmt: skip
        waits = sorted(each.seconds for each in refused)
        late = waits[int(len(waits) * 0.99)]
        yield row("overload", f"refused: p99 {late:.2f} s", [late < 5], True)
        slowest = max(each.seconds for each in health)
        yield row("overload", f"/health and /ready, slowest {slowest:.2f} s",
                  [each.status for each in health], 200)  # fmt: skip
        yield row("overload", "    within 2 s", [slowest < 2], True)
        half = memory[len(memory) // 3]
        yield row("overload", f"memory {memory[0]:,} MB, {half:,} after a third, {memory[-1]:,} MB",
                  [memory[-1] - half < max(40, half // 10)], True)  # fmt: skip
        yield await after("overload", server)


# Failures of its own.


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


# It is stopped.


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


# A long time.


async def attack_soak(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """Mixed traffic at a moderate load; memory must not grow."""
    rng = random.Random(0)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 60)))

    def some() -> list[str]:
        return [text() for _ in range(rng.randint(1, 12))]

    kinds: list[Callable[[], tuple[str, Any]]] = [
        lambda: ("/v1/embed", {"model": "bert", "inputs": some()}),
        lambda: ("/v1/embeddings", {"model": "bert", "input": some()}),
        lambda: ("/v1/classify", {"model": "spam", "inputs": some()}),
        lambda: ("/v1/tag", {"model": "ner", "inputs": some()}),
        lambda: ("/v1/answer", {"model": "qa", "inputs": {"question": text(), "context": text()}}),
        lambda: ("/rerank", {"model": "rerank", "query": text(), "texts": some()}),
        lambda: ("/v1/fill", {"model": "bert", "inputs": f"{text()} [MASK]"}),
        lambda: ("/v1/score", {"model": "gpt2", "inputs": some()}),
        lambda: ("/v1/generate", {"model": "gpt2", "inputs": text(), "max_new_tokens": 20,
                                  "stream": rng.random() < 0.5}),
        lambda: ("/v1/completions", {"model": "gpt2", "prompt": some(), "max_tokens": 8, "n": 2}),
        lambda: ("/v1/text-to-text", {"model": "t5", "inputs": some()[:3]}),
        lambda: ("/v1/embed", {"model": "bert", "inputs": ""}),
    ]  # fmt: skip
    with serving(made) as server:
        seen: Counter[str] = Counter()
        memory: list[tuple[float, int]] = []
        begin = time.monotonic()
        end = begin + options.minutes * 60

        async def client() -> None:
            while time.monotonic() < end:
                path, body = rng.choice(kinds)()
                if rng.random() < 0.02:
                    await _leaves(server.port, "within a stream")
                    seen["left"] += 1
                    continue
                reply = await asked(server.port, path, body)
                seen[str(reply.status)] += 1
                await asyncio.sleep(rng.expovariate(12))

        async def watch() -> None:
            while time.monotonic() < end:
                memory.append((time.monotonic() - begin, server.memory))
                await asyncio.sleep(5)

        await asyncio.gather(watch(), *(client() for _ in range(4)))
        warm = [size for at, size in memory if 0.2 < at / (options.minutes * 60) < 0.3]
        late = [size for at, size in memory if at / (options.minutes * 60) > 0.9]
        first, last = sum(warm) / len(warm), sum(late) / len(late)
        what = f"{options.minutes:g} minutes, {seen.total() / (end - begin):.0f}/s"
        yield row("soak", what, seen.elements(), 200, 422, "left")
        growth = last / first - 1
        yield row("soak", f"memory {first:.0f} MB when warm, {last:.0f} MB late: {growth:+.1%}",
                  [growth < 0.05], True)  # fmt: skip
        yield await after("soak", server)


# Whatever the description allows, and what it does not.


async def attack_schema(made: Path, options: argparse.Namespace) -> AsyncIterator[Row]:
    """Cases that schemathesis makes of the description, positive and negative."""
    if options.schemathesis is None:
        return
    checks = (
        "not_a_server_error,status_code_conformance,content_type_conformance,"
        "response_headers_conformance,response_schema_conformance,unsupported_method,"
        "allow_header_conformance"
    )
    with serving(made) as server:
        words = [
            options.schemathesis, "run", f"http://127.0.0.1:{server.port}/openapi.json",
            "--checks", checks, "--max-examples", str(options.examples), "--continue-on-failure",
            "--no-shrink", "--workers", "2", "--suppress-health-check", "all", "--seed",
        ]  # fmt: skip
        seen: Counter[str] = Counter()
        for seed in range(options.seeds):
            done = await asyncio.to_thread(
                subprocess.run, [*words, str(seed)], capture_output=True, text=True, check=False,
                cwd=made,
            )  # fmt: skip
            counts = re.search(r"([\d,]+) generated, ([\d,]+) (passed|found)", done.stdout)
            if done.returncode or counts is None:
                print(done.stdout[-20_000:], done.stderr)
                seen["failed"] += 1
            if counts is not None:
                cases, fine = (int(each.replace(",", "")) for each in counts.groups()[:2])
                seen["passed"] += fine if counts[3] == "passed" else cases - fine
        yield row("schema", f"cases of schemathesis, {options.seeds} seeds", seen.elements(),
                  "passed")  # fmt: skip
        statuses = Counter(
            str(json.loads(line)["status"])
            for line in server.log.read_text().splitlines()
            if line.startswith('{"') and '"status"' in line
        )
        fine = [status for status in statuses if not status.startswith("5")]
        yield row("schema", "answers by status", statuses.elements(), *fine)
        yield await after("schema", server)


ATTACKS = {
    "requests": attack_requests,
    "clients": attack_clients,
    "failures": attack_failures,
    "overload": attack_overload,
    "stop": attack_stop,
    "schema": attack_schema,
    "soak": attack_soak,
}


async def attack(names: Sequence[str], options: argparse.Namespace) -> int:
    """Runs attacks, prints their rows; returns how many were bad."""
    bad = 0
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="serving-"))
        made = Path(folder)
        prepare(made)
        for name in names:
            async for each in ATTACKS[name](made, options):
                bad += not each.is_fine
                print(each, flush=True)
    return bad


def main() -> int:
    """Runs the attacks that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("attacks", nargs="*", help=f"of {', '.join(ATTACKS)}; all if none is named")
    parser.add_argument("--seconds", type=float, default=60, help="of overload")
    parser.add_argument("--times", type=int, default=50, help="how often it is stopped")
    parser.add_argument("--minutes", type=float, default=20, help="of the soak")
    parser.add_argument("--examples", type=int, default=30, help="of schemathesis, per operation")
    parser.add_argument("--seeds", type=int, default=3, help="how often schemathesis is run")
    parser.add_argument("--schemathesis", help="the program; without it `schema` is left out")
    options = parser.parse_args()
    if unknown := set(options.attacks) - ATTACKS.keys():
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Trap: what a shell starts in the background ignores Ctrl-C, and so would servers.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing it has started stays
    return 1 if asyncio.run(attack(options.attacks or list(ATTACKS), options)) else 0


if __name__ == "__main__":
    sys.exit(main())
