"""Serving side by side: `clozeworks serve`, infinity, and twenty lines of FastAPI.

Each side is a server in a process of its own on loopback; they are asked in turn by the same
clients, each of which sends a request, waits for the answer, and sends the next (closed loop), or
by requests that come at random times whatever has been answered (open loop). Texts have the
lengths of SNLI, or those of the file.

    python benchmarks/serve.py [--model FOLDER] [--texts FILE] [--infinity PYTHON] [--quick]
    python benchmarks/serve.py --writing FOLDER      (eight streams beside one after the other)

`--infinity` is the interpreter of an environment with infinity-emb[server,torch]; without it that
side is left out.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measuring import made_up_words, matmul_peak, sized

CLIENTS = (1, 8, 64)
WORDS = ("the", "a", "man", "woman", "is", "in", "on", "with", "of", "playing", "dog", "street")
PLAIN = """
import sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

model, app = SentenceTransformer(sys.argv[1], device="cpu"), FastAPI()

class Body(BaseModel):
    input: list[str]
    model: str = ""

@app.post("/embeddings")
def embeddings(body: Body):
    vectors = model.encode(body.input, show_progress_bar=False)
    return {"data": [{"index": n, "embedding": each.tolist()} for n, each in enumerate(vectors)]}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a sentence model; a fresh one if not given")
    parser.add_argument("--texts", type=Path, help="a file with a text in each line")
    parser.add_argument("--infinity", help="the Python of an environment with infinity-emb")
    parser.add_argument("--writing", type=Path, help="measure streams of this decoder instead")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="short, one repetition")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.repeats = 3.0, 1
    with tempfile.TemporaryDirectory() as place:
        if options.writing is not None:
            print(json.dumps({"benchmark": "serve writing", **writing(options)}))
            return
        texts = prepare(options, Path(place))
        print(json.dumps({"benchmark": "serve", **embedding(options, texts, Path(place))}))


def prepare(options: argparse.Namespace, place: Path) -> list[str]:
    """The texts that are sent; makes a model if none is named."""
    words: Sequence[str] = WORDS
    if options.model is None:
        import clozeworks as cw
        from clozeworks.text.tokenizer.tokenizer import Tokenizer

        words = made_up_words(place / "words")
        model = cw.new("bert-base", Tokenizer.load(place / "words"), **sized("bert-base", 6, 384))
        model.pooling = cw.Pooling(modes=("mean",), normalize=True)
        options.model = model.save(place / "model")
    if options.texts is not None:
        return [line for line in options.texts.read_text().splitlines() if line.strip()]
    rng = random.Random(0)
    return [
        " ".join(rng.choices(words, k=rng.choice((5, 7, 8, 10, 14, 20, 40)))) for _ in range(4000)
    ]


# Servers.


def commands(options: argparse.Namespace, place: Path) -> dict[str, Callable[[int], list[str]]]:
    """How each side is started at a port."""
    plain = place / "plain.py"
    plain.write_text(PLAIN)
    model = str(options.model)
    sides: dict[str, Callable[[int], list[str]]] = {
        "ours": lambda port: [
            sys.executable, "-m", "clozeworks", "serve", f"model={model}", "--port", str(port),
        ],
        "plain": lambda port: [sys.executable, str(plain), model, str(port)],
    }  # fmt: skip
    if options.infinity:
        cli = str(Path(options.infinity).with_name("infinity_emb"))
        sides["infinity"] = lambda port: [
            cli, "v2", "--model-id", model, "--served-model-name", "model", "--engine", "torch",
            "--device", "cpu", "--no-bettertransformer", "--host", "127.0.0.1", "--port", str(port),
            "--log-level", "error",
        ]  # fmt: skip
    return sides


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """A server, once it answers."""
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    process = subprocess.Popen(
        command, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        begin = time.monotonic()
        while True:
            try:
                asyncio.run(asked(port, "/health", None))
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() - begin > 90:
                    raise RuntimeError(f"{command[0]} does not answer") from error
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# Clients: as little work as possible, since they share the machine with what they measure.


class Connection:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        head = (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        if "content-length" in headers:
            return int(lines[0].split()[1]), await self.reader.readexactly(
                int(headers["content-length"])
            )
        whole = b""
        while size := int((await self.reader.readline()).strip() or b"0", 16):
            whole += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readline()
        return int(lines[0].split()[1]), whole

    def close(self) -> None:
        """Closes it."""
        if self.writer is not None:
            self.writer.close()


async def asked(port: int, path: str, body: Any) -> tuple[int, bytes]:
    """A request by itself; whatever the status, the server answers."""
    connection = Connection(port)
    try:
        return await connection.post(path, json.dumps(body).encode())
    finally:
        connection.close()


PATHS = {"ours": "/v1/embeddings", "plain": "/embeddings", "infinity": "/embeddings"}


async def closed_loop(
    port: int, path: str, bodies: Sequence[bytes], clients: int, seconds: float
) -> dict[str, float]:
    """Requests a second and their latencies, with so many clients that each wait for an answer."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        connection, turn = Connection(port), number
        while time.perf_counter() < end:
            begin = time.perf_counter()
            status, _ = await connection.post(path, bodies[turn % len(bodies)])
            if status != 200:
                raise RuntimeError(f"status {status}")
            times.append(time.perf_counter() - begin)
            turn += clients
        connection.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    return summary(times, time.perf_counter() - begin)


async def open_loop(
    port: int, path: str, bodies: Sequence[bytes], rate: float, seconds: float
) -> dict[str, float]:
    """Latencies of requests that come at random times, so many a second."""
    rng, times, free = random.Random(0), list[float](), list[Connection]()
    tasks: list[Awaitable[None]] = []

    async def request(body: bytes) -> None:
        connection = free.pop() if free else Connection(port)
        begin = time.perf_counter()
        status, _ = await connection.post(path, body)
        times.append(time.perf_counter() - begin if status == 200 else float("inf"))
        free.append(connection)

    begin = time.perf_counter()
    due, number = begin, 0
    while due < begin + seconds:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        tasks.append(asyncio.ensure_future(request(bodies[number % len(bodies)])))
        number += 1
    await asyncio.gather(*tasks)
    return summary(times, time.perf_counter() - begin)


def summary(times: Sequence[float], seconds: float) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "rate": len(times) / seconds,
        "p50": 1000 * ordered[len(ordered) // 2],
        "p99": 1000 * ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)],
    }


# Vectors.


def embedding(options: argparse.Namespace, texts: list[str], place: Path) -> dict[str, Any]:
    single = [json.dumps({"model": "model", "input": [text]}).encode() for text in texts]
    lists = [
        json.dumps({"model": "model", "input": texts[n : n + 256]}).encode()
        for n in range(0, len(texts), 256)
    ]
    sides = commands(options, place)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    peaks = []
    for turn in range(options.repeats):
        names = list(sides)
        for side in names if turn % 2 == 0 else names[::-1]:
            peaks.append(matmul_peak() / 1e9)
            port = 18500 + turn * 10 + names.index(side)
            with running(sides[side](port), port):
                cases = found.setdefault(side, {})
                for clients in CLIENTS:
                    got = asyncio.run(
                        closed_loop(port, PATHS[side], single, clients, options.seconds)
                    )
                    cases.setdefault(f"{clients} clients", []).append(got)
                got = asyncio.run(closed_loop(port, PATHS[side], lists, 1, options.seconds))
                cases.setdefault("lists of 256", []).append(got)
                got = asyncio.run(open_loop(port, PATHS[side], single, 60, options.seconds))
                cases.setdefault("open loop, 60 a second", []).append(got)
    own = in_process(options, texts)
    print(f"matmul peak {statistics.median(peaks):.0f} Gflop/s; {len(texts):,} texts")
    result: dict[str, Any] = {"in_process": own, "sides": {}}
    for case in found["ours"]:
        print(case)
        for side, cases in found.items():
            rows = cases[case]
            median = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            result["sides"].setdefault(side, {})[case] = median
            print(
                f"  {side:10}{median['rate']:9.1f} requests/s   p50 {median['p50']:8.1f} ms   "
                f"p99 {median['p99']:8.1f} ms"
            )
    mine = result["sides"]["ours"]
    print(
        f"in process: one text {own['p50']:.1f} ms, {own['texts']:.0f} texts a second in lists; "
        f"served {mine['1 clients']['p50']:.1f} ms, {256 * mine['lists of 256']['rate']:.0f} texts"
    )
    for peer in set(found) - {"ours"}:
        ratios = {
            case: mine[case]["rate"] / result["sides"][peer][case]["rate"]
            for case in mine
            if "open" not in case
        }
        result[f"ratios to {peer}"] = {case: round(value, 2) for case, value in ratios.items()}
        print(f"ours / {peer}: " + ", ".join(f"{c} {v:.2f}" for c, v in ratios.items()))
    return result


def in_process(options: argparse.Namespace, texts: list[str]) -> dict[str, float]:
    """The same without a server: one text after the other, and lists."""
    import clozeworks as cw

    model, times = cw.load(options.model), []
    model.embed(texts[:64])
    for text in texts[:200]:
        begin = time.perf_counter()
        model.embed([text])
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for n in range(0, 1024, 256):
        model.embed(texts[n : n + 256])
    return {"p50": 1000 * statistics.median(times), "texts": 1024 / (time.perf_counter() - begin)}


# Texts.


def writing(options: argparse.Namespace) -> dict[str, Any]:
    """Eight streams at once beside one after the other, and beside `transformers serve`."""
    model, new = str(options.writing.resolve()), 64
    settings = {"max_tokens": new, "temperature": 0, "stream": True}
    prompts = [f"Once upon a time there was a{' very' * n}" for n in range(8)]
    bodies: list[dict[str, Any]] = []
    serve = [str(Path(sys.executable).with_name("transformers")), "serve", model, "--device", "cpu"]
    sides = {
        "ours": [sys.executable, "-m", "clozeworks", "serve", f"model={model}"],
        "transformers": serve,
        "transformers, continuous batching": [*serve, "--continuous-batching"],
    }

    async def one(port: int, body: dict[str, Any]) -> int:
        """The tokens of a stream; a text that ends early makes the sides unequal, and is said."""
        status, answer = await asked(port, "/v1/completions", body)
        assert status == 200, answer
        events = [line[6:] for line in answer.decode().splitlines() if line.startswith("data: {")]
        reasons = [each.get("finish_reason") for e in events for each in json.loads(e)["choices"]]
        assert reasons and reasons[-1] == "length", answer[-500:]
        return new

    async def together(port: int) -> int:
        return sum(await asyncio.gather(*(one(port, body) for body in bodies)))

    async def in_turn(port: int) -> int:
        return sum([await one(port, body) for body in bodies])

    speeds: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.repeats):
        names = list(sides)
        for side in names if turn % 2 == 0 else names[::-1]:
            port = 18600 + turn * 10 + names.index(side)
            own = speeds.setdefault(side, {"together": [], "in turn": []})
            name = "model" if side == "ours" else model
            bodies = [{"model": name, "prompt": prompt, **settings} for prompt in prompts]
            try:
                with running([*sides[side], "--port", str(port)], port):
                    asyncio.run(one(port, bodies[0]))
                    for name, run in (("together", together), ("in turn", in_turn)):
                        begun = time.perf_counter()
                        tokens = asyncio.run(run(port))
                        own[name].append(tokens / (time.perf_counter() - begun))
            except (RuntimeError, AssertionError, OSError) as error:
                print(f"  {side} is left out: {str(error)[-300:]}")
                sides.pop(side)
                speeds.pop(side)
    median = {
        side: {name: round(statistics.median(values), 1) for name, values in own.items()}
        for side, own in speeds.items()
    }
    for side, values in median.items():
        for name, value in values.items():
            print(f"  {side:34}8 prompts {name:10}{value:8.1f} tokens/s")
    mine = median["ours"]
    result: dict[str, Any] = {
        "ratio": round(mine["together"] / mine["in turn"], 2),
        "tokens_per_second": median,
    }
    for side in median.keys() - {"ours"}:
        result[f"ratio to {side}"] = round(mine["together"] / max(median[side].values()), 2)
    return result


if __name__ == "__main__":
    main()
