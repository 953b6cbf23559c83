"""Much to do: ten times too much, for a long time, and whatever the description allows."""

import argparse
import asyncio
import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from served import (
    MOST_TOKENS,
    WORDS,
    Reply,
    Row,
    after,
    asked,
    row,
    serving,
)
from wrong_clients import leaves


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
                    await leaves(server.port, "within a stream")
                    seen["left"] += 1
                    continue
                reply = await asked(server.port, path, body)
                seen[str(reply.status)] += 1
                await asyncio.sleep(rng.expovariate(12))

        async def watch() -> None:
            while time.monotonic() < end:
                memory.append((time.monotonic() - begin, server.memory))
                await asyncio.sleep(options.minutes / 4)  # 240 times

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
