"""Requests that no client should send, each by itself."""

import argparse
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from served import (
    MODELS,
    Reply,
    Row,
    after,
    asked,
    row,
    serving,
)


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
    # Small to send, large to read.
    long, half, many = "cat " * 1_700_000, "cat " * 700_000, [f"a{n}" for n in range(10_000)]
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
        Wrong("a long query and 10,000 documents", "/v1/rerank", {"model": "rerank",
              "query": half, "documents": many}, (413,), "characters"),
        Wrong("the same (tei)", "/rerank", {"model": "rerank", "query": half, "texts": many},
              (413,), "characters"),
        Wrong("a long text and 10,000 others", "/v1/score", {"model": "rerank", "text_1": half,
              "text_2": many}, (413,), "characters"),
        Wrong("a long prompt before 10,000 texts", embed, {**bert, "inputs": many, "prompt": long,
              "truncate": True}, (413,), "characters"),
        Wrong("a long template and 10,000 labels", "/v1/zero-shot", {"model": "pairs",
              "inputs": "a", "labels": many, "template": long + "{}"}, (413,), "characters"),
        Wrong("the tokens of 7 MB", "/tokenize", {**bert, "inputs": long}, (413,), "tokens"),
        Wrong("vectors of a million tokens", "/embed_all", {**bert, "inputs": [" cat" * 150] *
              10_000}, (413,), "tokens"),
        Wrong("a pooling 10,000 times", embed, {**bert, "inputs": many, "pooling": ["mean"] *
              10_000}, (422,), "once"),
        Wrong("the likelihood of 8,000 prompts", completions, {**gpt2, "prompt": ["the cat " * 60] *
              8_000, "echo": True, "logprobs": 20, "max_tokens": 0}, (413,), "tokens"),
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
        # What 7 MB of text take while they are read is not all given back.
        yield row("requests", f"memory, {before:,} MB and {grown:+,}", [grown < 1_500], True)
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
