"""A server that is attacked: its models, its process, how it is asked, what is counted."""

import asyncio
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
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
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{JSON}{headers}"
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
