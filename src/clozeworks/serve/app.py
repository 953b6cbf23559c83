"""The HTTP side: from a request to an endpoint's answer.

Each request gets a thread, in which the endpoint runs as if it were alone; the event loop never
computes, reads no file and waits for nobody.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from uuid import uuid4

import orjson
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from clozeworks.serve.description import described
from clozeworks.serve.endpoint import Call, Endpoint, Stream
from clozeworks.serve.limits import Keys, ServerLimits
from clozeworks.serve.metrics import ServerMetrics
from clozeworks.serve.models import ServedModels
from clozeworks.serve.replies import RefusedRequest, sentence_of, status_of
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.work import Work

log = logging.getLogger("clozeworks.serve")
# Bodies below this are decoded by the event loop; a thread would take longer to begin.
_SMALL = 1 << 16
_SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
# Without a sign of the scheduler for so many seconds the server is not ready.
_STALE = 30.0


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
    ) -> None:
        self.models, self.scheduler = models, scheduler
        self.limits, self.keys = limits or ServerLimits(), keys or Keys()
        self.origins, self.log_texts = tuple(origins), log_texts
        self.metrics = ServerMetrics(scheduler)
        self.draining = False
        self.in_flight: set[Work] = set()
        self._threads = ThreadPoolExecutor(self.limits.requests, "request")
        self._paths: dict[tuple[str, str], list[Endpoint]] = defaultdict(list)
        for endpoint in endpoints:
            self._paths[endpoint.method, endpoint.path].append(endpoint)

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
            title="Clozeworks", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan
        )
        for (method, path), candidates in self._paths.items():
            app.router.add_route(path, partial(self.handle, candidates), methods=[method])
        app.router.add_route("/health", self._health, methods=["GET"])
        app.router.add_route("/ready", self._ready, methods=["GET"])
        app.router.add_route("/metrics", self._metrics, methods=["GET"])
        app.router.add_route("/openapi.json", self._description, methods=["GET"])
        app.state.answering = self
        return app

    # One request.

    async def handle(self, candidates: Sequence[Endpoint], request: Request) -> Response:
        """Answers a request in the words of its dialect.

        Args:
            candidates: The endpoints of its path; the first that fits the body answers.
            request: The request.
        """
        begin = time.monotonic()
        work = Work(seconds=self.limits.timeout)
        identity = _identity(request.headers.get("x-request-id"))
        endpoint, status = candidates[0], 200
        response: Response | None = None
        call = Call(self.models, work, identity, limits=vars(self.limits))
        try:
            self._admit(request, endpoint)
            self.in_flight.add(work)
            self.metrics.in_flight = len(self.in_flight)
            body = await self._body(request) if request.method == "POST" else None
            endpoint = next((each for each in candidates if each.fits(body)), candidates[0])
            response = await self._answered(request, endpoint, call, body, begin)
            status = response.status_code
        except asyncio.CancelledError:
            work.cancel()
            raise
        except Exception as error:
            status, response = self._failed(error, endpoint, identity)
        finally:
            if not isinstance(response, StreamingResponse):  # which ends when all has come
                self._ended(request, endpoint, work, status, begin)
        self._head(request, response, call, begin)
        return response

    def _admit(self, request: Request, endpoint: Endpoint) -> None:
        headers = request.headers
        allowed = self.keys.allow(headers.get("authorization", ""), headers.get("x-api-key", ""))
        if not endpoint.open and not allowed:
            raise RefusedRequest(
                401, "the key is missing or unknown; send Authorization: Bearer KEY."
            )
        if self.draining:
            raise RefusedRequest(503, "the server is about to end; ask another one.")
        if len(self.in_flight) >= self.limits.requests:
            raise RefusedRequest(
                429,
                f"{len(self.in_flight):,} requests are being answered; ask again in a second.",
            )

    async def _body(self, request: Request) -> Any:
        """What the request holds, within the limits of size and time."""
        most = self.limits.body_bytes
        too_large = RefusedRequest(
            413, f"the request is larger than {most:,} bytes; send less at a time."
        )
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise too_large
                    parts.append(part)
        except TimeoutError as error:
            raise RefusedRequest(
                408,
                f"the request did not come within {self.limits.body_timeout:g} s; send it again.",
            ) from error
        whole = b"".join(parts)
        if not whole:
            return None
        if len(whole) < _SMALL:
            return _decoded(whole)
        return await asyncio.get_running_loop().run_in_executor(self._threads, _decoded, whole)

    async def _answered(
        self, request: Request, endpoint: Endpoint, call: Call, body: Any, begin: float
    ) -> Response:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()

        def put(piece: bytes | BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop is over: nobody listens
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def answer() -> bytes | None:
            """Computes the answer; of a stream, one piece after the other."""
            with self.scheduler.serving(call.work):
                found = endpoint.answer(call, self._checked(endpoint, body))
                if not isinstance(found, Stream):
                    return _encoded(found)
                try:
                    for event in found.events:
                        put(_event(event))
                    if found.end is not None:
                        put(_event(found.end))
                    put(None)
                except BaseException as error:
                    put(error)
                return None

        watch = asyncio.create_task(_gone(request, call.work))
        done = loop.run_in_executor(self._threads, answer)
        first = asyncio.create_task(pieces.get())
        either: set[asyncio.Future[Any]] = {done, first}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if done.done() and (whole := done.result()) is not None:
                first.cancel()
                return Response(whole, media_type="application/json")
        except BaseException:
            first.cancel()
            raise
        finally:
            if done.done():
                watch.cancel()
        return StreamingResponse(
            self._streamed(request, endpoint, call, first, pieces, watch, begin),
            media_type="text/event-stream",
        )

    async def _streamed(
        self,
        request: Request,
        endpoint: Endpoint,
        call: Call,
        first: "asyncio.Task[bytes | BaseException | None]",
        pieces: "asyncio.Queue[bytes | BaseException | None]",
        watch: "asyncio.Task[None]",
        begin: float,
    ) -> AsyncIterator[bytes]:
        status = 200
        try:
            piece = await first
            while piece is not None:
                if isinstance(piece, BaseException):
                    status, response = self._failed(piece, endpoint, call.id)
                    yield b"data: " + bytes(response.body) + b"\n\n"
                    return
                yield piece
                piece = await pieces.get()
        finally:
            call.work.cancel()  # whoever stops reading wants no more
            watch.cancel()
            self._ended(request, endpoint, call.work, status, begin)

    def _checked(self, endpoint: Endpoint, body: Any) -> Any:
        """The body as the endpoint takes it."""
        if endpoint.body is None:
            return body
        if not isinstance(body, Mapping):
            raise RefusedRequest(422, "the request must be a JSON object; see /openapi.json.")
        for name, value in body.items():
            if isinstance(value, list) and len(value) > self.limits.inputs:
                raise RefusedRequest(
                    413,
                    f"{name} has {len(value):,} entries, at most {self.limits.inputs:,} are taken; "
                    "send less at a time.",
                )
        try:
            return endpoint.body.model_validate(body)
        except ValidationError as error:
            raise RefusedRequest(422, _wrong(error, endpoint)) from error

    def _failed(
        self, error: BaseException, endpoint: Endpoint, identity: str
    ) -> tuple[int, Response]:
        status = status_of(error)
        if status == 500:
            log.error("request failed", extra={"request_id": identity}, exc_info=error)
        status, content = endpoint.dialect.error(status, sentence_of(error, identity), identity)
        response = Response(_encoded(content), status, media_type="application/json")
        if status == 429:
            response.headers["retry-after"] = "1"
        if status == 401:
            response.headers["www-authenticate"] = "Bearer"
        return status, response

    def _head(self, request: Request, response: Response, call: Call, begin: float) -> None:
        timings = call.work.timings
        spent = {
            "x-request-id": call.id,
            "x-total-time": time.monotonic() - begin,
            "x-queue-time": timings.queue,
            "x-tokenization-time": timings.tokenization,
            "x-inference-time": timings.inference,
        }
        for name, value in {**_SECURITY, **spent, **call.headers}.items():
            # Compat: as text-embeddings-inference has them, in milliseconds.
            text = str(round(value * 1000)) if isinstance(value, float) else str(value)
            response.headers[name] = text
        origin = request.headers.get("origin")
        if origin is not None and (origin in self.origins or "*" in self.origins):
            response.headers["access-control-allow-origin"] = origin
            response.headers["vary"] = "Origin"

    def _ended(
        self, request: Request, endpoint: Endpoint, work: Work, status: int, begin: float
    ) -> None:
        self.in_flight.discard(work)
        self.metrics.in_flight = len(self.in_flight)
        seconds = time.monotonic() - begin
        self.metrics.count(endpoint.path, status, work, seconds)
        log.info(
            "request",
            extra={
                "method": request.method,
                "path": endpoint.path,
                "status": status,
                "seconds": round(seconds, 4),
                "tokens_read": work.tokens,
                "tokens_written": work.written,
                "client": request.client.host if request.client else "",
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
        return _plain(described(self.endpoints, needs_key=self.keys.are_needed))


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
    return uuid4().hex


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


def _wrong(error: ValidationError, endpoint: Endpoint) -> str:
    """What is wrong with a body: where, what, and what to do."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("list[", "str", "function"))
    )
    known = ", ".join(endpoint.body.model_fields) if endpoint.body is not None else ""
    if first["type"] == "extra_forbidden":
        return f"{where} is not a field of {endpoint.path}; known: {known}."
    what = "is missing" if first["type"] == "missing" else f"cannot be used: {first['msg']}"
    return f"{where or 'the body'} {what}; {endpoint.path} takes {known}."
