"""The HTTP side: from a request to an endpoint's answer.

Each request gets a thread, in which the endpoint runs as if it were alone; the event loop never
computes, reads no file and waits for nobody.
"""

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import orjson
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from clozeworks.errors import nearest
from clozeworks.inference.loop import Cancelled
from clozeworks.serve.connections import EARLY
from clozeworks.serve.description import described
from clozeworks.serve.endpoint import Call, Endpoint, RawAnswer, Stream
from clozeworks.serve.limits import Keys, ServerLimits
from clozeworks.serve.metrics import ServerMetrics
from clozeworks.serve.models import ServedModels
from clozeworks.serve.page_files import page_routes
from clozeworks.serve.pieces import Pieces
from clozeworks.serve.replies import NATIVE, RefusedRequest, sentence_of, status_of
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.work import Overloaded, Work
from clozeworks.serve.workspace.own_page import OnlyOwnNames, check_own_page

log = logging.getLogger("clozeworks.serve")
# Bodies below this are decoded by the event loop; a thread would take longer to begin.
_SMALL = 1 << 16
# Longer answers are sent in parts, each as the client has taken the one before.
_PART = 1 << 18
_SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
# What pydantic calls an object, with the name of our class.
_OBJECT = re.compile(r"a valid dictionary( or instance of \w+)?")
# Ids of requests: those of this process, and one after the other.
_PROCESS, _NUMBERS = uuid4().hex[:16], count(1)
# Without a sign of the scheduler for so many seconds the server is not ready.
_STALE = 30.0


@dataclass(eq=False)
class Exchange:
    """A request, and what becomes of it."""

    request: Request
    call: Call
    endpoint: Endpoint
    begin: float
    size: int = 0
    """Bytes of the body that have come."""
    body: Any = None
    status: int = 200

    @property
    def work(self) -> Work:
        """What is done for it."""
        return self.call.work


class Answering:
    """Answers requests.

    Args:
        models: The models.
        scheduler: Computes for all requests.
        endpoints: What can be asked.
        limits: How much is taken on.
        keys: Who may ask.
        origins: Pages of these origins may ask from a browser; none if empty.
        log_texts: Whether the log holds what was asked.
        host: The address that is listened at, if only who asks for it by its own name is answered;
            whatever the client calls it if None.
    """

    def __init__(
        self,
        models: ServedModels,
        scheduler: Scheduler,
        endpoints: Sequence[Endpoint],
        *,
        limits: ServerLimits | None = None,
        keys: Keys | None = None,
        origins: Sequence[str] = (),
        log_texts: bool = False,
        host: str | None = None,
    ) -> None:
        self.models, self.scheduler = models, scheduler
        self.limits, self.keys = limits or ServerLimits(), keys or Keys()
        self.origins, self.log_texts = tuple(origins), log_texts
        self.metrics = ServerMetrics(scheduler)
        self._host = host
        self.draining = False
        self.lets_in = True
        """Whether requests of those who connect now are taken."""
        self.in_flight: set[Work] = set()
        self.bytes_in_hand = 0
        self._measured = 0  # of these, the requests that are measured
        self._threads = ThreadPoolExecutor(self.limits.requests, "request")
        self._paths: dict[str, list[Endpoint]] = defaultdict(list)
        for endpoint in endpoints:
            self._paths[endpoint.path].append(endpoint)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Everything that can be asked."""
        return [each for several in self._paths.values() for each in several]

    def app(self) -> FastAPI:
        """The application: any ASGI server runs it."""

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            with self.scheduler.running():
                yield
            self._threads.shutdown(wait=False, cancel_futures=True)

        app = FastAPI(
            title="Clozeworks", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan,
            redirect_slashes=False, exception_handlers={HTTPException: self._lost},
        )  # fmt: skip
        app.router.routes.extend(page_routes())  # other methods at / are answered below
        for path, endpoints in self._paths.items():
            app.router.routes.append(Route(path, _Path(self, endpoints)))
        app.router.add_route("/health", self._health, methods=["GET"])
        app.router.add_route("/ready", self._ready, methods=["GET"])
        app.router.add_route("/metrics", self._metrics, methods=["GET"])
        app.router.add_route("/openapi.json", self._description, methods=["GET"])
        app.state.answering = self
        if self._host is not None:
            app.add_middleware(OnlyOwnNames, host=self._host)
        return app

    # One request.

    async def handle(
        self, endpoints: Sequence[Endpoint], request: Request, receive: Receive, send: Send
    ) -> None:
        """Answers a request in the words of its dialect, until all of the answer is sent.

        Args:
            endpoints: Those of its path; the first that has its method and fits its body answers.
            request: The request.
            receive: Gives what the client sends.
            send: Sends to the client.
        """
        work = Work(seconds=self.limits.timeout)
        identity = _identity(request.headers.get("x-request-id"))
        call = Call(
            self.models,
            work,
            identity,
            limits=vars(self.limits),
            is_ending=lambda: self.draining,
            measured=self.metrics.record,
        )
        exchange = Exchange(request, call, endpoints[0], time.monotonic())
        watch: asyncio.Task[None] | None = None
        try:
            try:
                candidates = _of_method(endpoints, request.method)
                exchange.endpoint = candidates[0]
                self._admit(exchange)
                if request.method == "POST":
                    exchange.body = await self._body(exchange)
                elif exchange.endpoint.body is not None:
                    exchange.body = dict(request.query_params)
                fitting = (each for each in candidates if each.fits(exchange.body))
                exchange.endpoint = next(fitting, candidates[0])
                watch = asyncio.create_task(_gone(request, work))
                response = await self._answered(exchange)
            except Exception as error:
                response = self._failed(error, exchange)
            self._head(exchange, response)
            await response(request.scope, receive, send)
        finally:
            work.cancel()  # whoever stops reading wants no more
            if watch is not None:
                watch.cancel()
            self._ended(exchange)

    def _admit(self, exchange: Exchange) -> None:
        headers = exchange.request.headers
        allowed = self.keys.allow(headers.get("authorization", ""), headers.get("x-api-key", ""))
        if not exchange.endpoint.open and not allowed:
            raise RefusedRequest(
                401, "the key is missing or unknown; send Authorization: Bearer KEY."
            )
        if exchange.endpoint.changes:
            check_own_page(exchange.request)
        # Who was there before is still answered, which ends the connection.
        if self.draining and not exchange.request.scope.get("state", {}).get(EARLY):
            raise RefusedRequest(503, "the server is about to end; ask another one.")
        if len(self.in_flight) >= self.limits.requests:
            raise RefusedRequest(
                429,
                f"{len(self.in_flight):,} requests are being answered; ask again in a second.",
            )
        self.in_flight.add(exchange.work)
        self._measured += exchange.endpoint.counted
        self.metrics.in_flight = self._measured

    async def _body(self, exchange: Exchange) -> Any:
        """What the request holds, within the limits of size and time."""
        request, most = exchange.request, self.limits.body_bytes
        too_large = RefusedRequest(
            413, f"the request is larger than {most:,} bytes; send less at a time."
        )
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise too_large
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                async for part in request.stream():
                    self._take(exchange, len(part))
                    if exchange.size > most:
                        raise too_large
                    parts.append(part)
        except TimeoutError as error:
            raise RefusedRequest(
                408,
                f"the request did not come within {self.limits.body_timeout:g} s; send it again.",
            ) from error
        except ClientDisconnect as error:
            raise Cancelled("the client left before it had sent its request.") from error
        whole = b"".join(parts)
        if not whole:
            return None
        if len(whole) < _SMALL:
            return _decoded(whole)
        return await asyncio.get_running_loop().run_in_executor(self._threads, _decoded, whole)

    def _take(self, exchange: Exchange, size: int) -> None:
        """Takes a part of a body in hand: texts cost memory before anybody knows their tokens.

        Raises:
            Overloaded: If there is too much already.
        """
        exchange.size += size
        self.bytes_in_hand += size
        most = self.limits.bytes_in_hand
        if exchange.size < self.bytes_in_hand > most:
            raise Overloaded(
                f"{self.bytes_in_hand:,} bytes of requests are in hand, at most {most:,} are "
                "taken; ask again in a second, or send less at a time."
            )

    async def _answered(self, exchange: Exchange) -> Response:
        endpoint, call, body = exchange.endpoint, exchange.call, exchange.body
        loop = asyncio.get_running_loop()
        pieces = Pieces(loop, self.limits.unread_bytes)

        def answer() -> RawAnswer:
            """Computes the answer; of a stream, one piece after the other."""
            with self.scheduler.serving(call.work):
                found = endpoint.answer(call, self._checked(endpoint, body))
                if isinstance(found, RawAnswer):
                    return found
                if not isinstance(found, Stream):
                    return RawAnswer(_encoded(found), "application/json")
                for event in found.events:
                    pieces.put(_event(event))
                if found.end is not None:
                    pieces.put(_event(found.end))
                return RawAnswer(b"", "text/event-stream")

        done = loop.run_in_executor(self._threads, answer)
        done.add_done_callback(pieces.end)
        first = await pieces.next()
        if first is None:  # it is none, or failed before there was anything to send
            whole = await done
            call.headers.update(whole.headers)
            if len(whole.content) <= _PART:
                return Response(whole.content, media_type=whole.media_type)
            length = {"content-length": str(len(whole.content))}
            return _Parts(_parts(whole.content), media_type=whole.media_type, headers=length)
        streamed = self._streamed(exchange, first, pieces, done)
        return _Parts(streamed, media_type="text/event-stream")

    async def _streamed(
        self, exchange: Exchange, first: bytes, pieces: Pieces, done: "asyncio.Future[RawAnswer]"
    ) -> AsyncIterator[bytes]:
        piece: bytes | None = first
        while piece is not None:
            yield piece
            piece = await pieces.next()
        try:
            await done
        except Exception as error:
            yield b"data: " + bytes(self._failed(error, exchange).body) + b"\n\n"

    def _checked(self, endpoint: Endpoint, body: Any) -> Any:
        """The body as the endpoint takes it."""
        if endpoint.body is None:
            return body
        if not isinstance(body, Mapping):
            raise RefusedRequest(422, "the request must be a JSON object; see /openapi.json.")
        self._check_lists(body)
        try:
            return endpoint.body.model_validate(body)
        except ValidationError as error:
            raise RefusedRequest(422, _wrong(error, endpoint, body)) from error

    def _check_lists(self, body: Mapping[str, Any]) -> None:
        """Checks how much lists hold, wherever they stand: texts, or the tokens of one."""
        several: list[tuple[str, Any]] = list(body.items())
        while several:
            name, value = several.pop()
            if isinstance(value, Mapping):
                several += [(f"{name}.{key}", each) for key, each in value.items()]
            elif isinstance(value, list) and value:
                most, what = self.limits.inputs, "entries"
                if isinstance(value[0], int):
                    most, what = self.limits.tokens, "tokens"
                if len(value) > most:
                    raise RefusedRequest(
                        413,
                        f"{name} has {len(value):,} {what}, at most {most:,} are taken; send less "
                        "at a time.",
                    )
                several += [
                    (f"{name}.{number}", each)
                    for number, each in enumerate(value)
                    if isinstance(each, list | Mapping)
                ]

    def _failed(self, error: Exception, exchange: Exchange) -> Response:
        identity = exchange.call.id
        status = status_of(error)
        if status == 500:
            log.error("request failed", extra={"request_id": identity}, exc_info=error)
        sentence = sentence_of(error, identity)
        shown, content = exchange.endpoint.dialect.error(status, sentence, identity)
        exchange.status = shown
        response = Response(_encoded(content), shown, media_type="application/json")
        if status in (429, 503):
            response.headers["retry-after"] = "1"
        if status == 401:
            response.headers["www-authenticate"] = "Bearer"
        if isinstance(error, RefusedRequest):
            response.headers.update(error.headers)
        return response

    def _head(self, exchange: Exchange, response: Response) -> None:
        request, call, timings = exchange.request, exchange.call, exchange.work.timings
        spent = {
            "x-request-id": call.id,
            "x-total-time": time.monotonic() - exchange.begin,
            "x-queue-time": timings.queue,
            "x-tokenization-time": timings.tokenization,
            "x-inference-time": timings.inference,
        }
        for name, value in {**_SECURITY, **spent, **call.headers}.items():
            # Compat: as text-embeddings-inference has them, in milliseconds.
            text = str(round(value * 1000)) if isinstance(value, float) else str(value)
            response.headers[name] = text
        if self.draining:  # nobody shall ask over this connection again
            response.headers["connection"] = "close"
        response.headers.update(self._allowed_origin(request))

    def _allowed_origin(self, request: Request) -> dict[str, str]:
        """The headers that let a page of another origin read an answer; none if it may not."""
        origin = request.headers.get("origin")
        if origin is None or not {origin, "*"}.intersection(self.origins):
            return {}
        return {"access-control-allow-origin": origin, "vary": "Origin"}

    def options(self, endpoints: Sequence[Endpoint], request: Request) -> Response:
        """Which methods a path has; a browser asks so whether a page of another origin may ask."""
        headers = {"allow": _methods(endpoints), **_SECURITY}
        if origin := self._allowed_origin(request):
            wanted = request.headers.get("access-control-request-headers", "")
            headers |= origin | {
                "access-control-allow-methods": _methods(endpoints),
                "access-control-allow-headers": wanted or "authorization, content-type",
                "access-control-max-age": "600",
            }
        return Response(status_code=204, headers=headers)

    async def _lost(self, request: Request, error: Exception) -> Response:
        """What is told at a path or with a method that is not there."""
        assert isinstance(error, HTTPException)
        identity = _identity(request.headers.get("x-request-id"))
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        sentence = f"{path[:200]} takes no {request.method[:20]}; see /openapi.json."
        if error.status_code == 404:
            near = nearest(path[:200], self._paths)
            hint = f"did you mean {near}? " if near else ""
            sentence = f"there is nothing at {path[:200]!r}; {hint}see /openapi.json."
        _, content = NATIVE.error(error.status_code, sentence, identity)
        headers = {**_SECURITY, **(error.headers or {}), "x-request-id": identity}
        return Response(_encoded(content), error.status_code, headers, "application/json")

    def _ended(self, exchange: Exchange) -> None:
        request, work = exchange.request, exchange.work
        self.bytes_in_hand -= exchange.size
        if work in self.in_flight:
            self.in_flight.remove(work)
            self._measured -= exchange.endpoint.counted
            self.metrics.in_flight = self._measured
        if not exchange.endpoint.counted:
            return
        seconds = time.monotonic() - exchange.begin
        self.metrics.count(exchange.endpoint.path, exchange.status, work, seconds)
        asked = {"asked": exchange.body} if self.log_texts else {}
        log.info(
            "request",
            extra={
                "request_id": exchange.call.id,
                "method": request.method,
                "path": exchange.endpoint.path,
                "status": exchange.status,
                "seconds": round(seconds, 4),
                "tokens_read": work.tokens,
                "tokens_written": work.written,
                "client": request.client.host if request.client else "",
                **asked,
            },
        )

    # About the server itself.

    async def _health(self, request: Request) -> Response:
        alive = self.scheduler.fatal is None
        return _plain({"status": "ok" if alive else "failed"}, 200 if alive else 503)

    async def _ready(self, request: Request) -> Response:
        age = time.monotonic() - self.scheduler.beat
        ready = self.scheduler.fatal is None and not self.draining and age < _STALE
        names = [each.name for each in self.models if not each.unloadable]
        return _plain(
            {"ready": ready, "models": names, "heartbeat_seconds": round(age, 3)},
            200 if ready else 503,
        )

    async def _metrics(self, request: Request) -> Response:
        return Response(
            self.metrics.text(), media_type="text/plain; version=0.0.4", headers=_SECURITY
        )

    async def _description(self, request: Request) -> Response:
        names = [each.name for each in self.models]
        return _plain(described(self.endpoints, names, needs_key=self.keys.are_needed))


class _Path:
    """One path, whatever the method: an ASGI application of its own."""

    def __init__(self, answering: Answering, endpoints: Sequence[Endpoint]) -> None:
        self._answering, self._endpoints = answering, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "OPTIONS":
            await self._answering.options(self._endpoints, request)(scope, receive, send)
        else:
            await self._answering.handle(self._endpoints, request, receive, send)


def _of_method(endpoints: Sequence[Endpoint], method: str) -> list[Endpoint]:
    """Those that answer a method; HEAD asks for the head of what GET answers."""
    found = [each for each in endpoints if each.method == ("GET" if method == "HEAD" else method)]
    if not found:
        allowed = _methods(endpoints)
        raise RefusedRequest(
            405,
            f"{endpoints[0].path} takes no {method[:20]}; send {allowed.partition(',')[0]}.",
            {"allow": allowed},
        )
    return found


def _methods(endpoints: Sequence[Endpoint]) -> str:
    """The methods of a path, as a header lists them."""
    own = dict.fromkeys(each.method for each in endpoints)
    if endpoints[0].path == "/":  # the page is there, too
        own["GET"] = None
    return ", ".join([*own, *(["HEAD"] if "GET" in own else []), "OPTIONS"])


class _Parts(StreamingResponse):
    """What is sent part by part; whether the client is still there is watched already."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


async def _parts(whole: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(whole), _PART):
        yield whole[begin : begin + _PART]


async def _gone(request: Request, work: Work) -> None:
    """Cancels the work when its client leaves."""
    with suppress(ClientDisconnect):
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                work.cancel()
                return


def _identity(given: str | None) -> str:
    """The id of a request: the client's own if it is a harmless one."""
    if given and len(given) <= 128 and given.isascii() and given.isprintable():
        return given
    return f"{_PROCESS}{next(_NUMBERS):016x}"


def _decoded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise RefusedRequest(
            400, f"the request is not JSON ({str(error)[:200]}); send a JSON object."
        ) from error


def _encoded(content: Any) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _event(event: Any) -> bytes:
    text = event if isinstance(event, str) else _encoded(event).decode()
    return f"data: {text}\n\n".encode()


def _plain(content: Any, status: int = 200) -> Response:
    return Response(_encoded(content), status, media_type="application/json", headers=_SECURITY)


def _wrong(error: ValidationError, endpoint: Endpoint, body: Any) -> str:
    """What is wrong with a body: where, what, and what to do."""
    several = error.errors(include_url=False, include_context=False)
    # Where a field may hold one of several things, what was meant came the furthest.
    places = [_place(each["loc"], body, each["type"] == "missing") for each in several]
    number = max(range(len(several)), key=lambda number: len(places[number]))
    worst, where = several[number], ".".join(places[number])
    known = ", ".join(endpoint.body.model_fields) if endpoint.body is not None else ""
    if worst["type"] == "extra_forbidden":
        return f"{where} is not a field of {endpoint.path}; known: {known}."
    told = _OBJECT.sub("a JSON object", worst["msg"])
    what = "is missing" if worst["type"] == "missing" else f"cannot be used: {told}"
    return f"{where or 'the body'} {what}; {endpoint.path} takes {known}."


def _place(location: Sequence[str | int], body: Any, is_missing: bool) -> list[str]:
    """Where something stands in a body; pydantic also names the kinds that it tried on the way."""
    found = []
    for part in location[:-1] if is_missing else location:
        is_key = isinstance(part, str) and isinstance(body, Mapping) and part in body
        if is_key or (isinstance(part, int) and isinstance(body, list)):
            found.append(str(part))
            body = body[part]
    return [*found, str(location[-1])] if is_missing else found
