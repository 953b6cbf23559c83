"""How a client sends requests and reads answers: patience, bounds, and plain HTTP.

What a server sends is not trusted: an answer has a largest size, redirects are not followed, and
what comes is read as JSON, of which nothing can run. A request is sent again only if no answer to
it began, or if the server says that it has no time (429) or is about to end (503).
"""

import json
import math
import random
import ssl
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any

from clozeworks.errors import SET, ClozeworksError, InputError, SettingError
from clozeworks.serve.client.addresses import ServerAddress

TIMEOUT = 150.0
"""Seconds without a byte after which a server is given up; longer than it works on a request."""
RETRIES = 4
"""How often a request is sent again."""
MOST_BYTES = 512 << 20
"""The largest answer."""
MOST_EVENT_BYTES = 64 << 20
"""The largest event of a stream."""
RETRIED = (429, 503)
PIECE = 1 << 16
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# Connections that are kept open for the next request.
_KEPT = 8


class ServerError(ClozeworksError):
    """A server that cannot be reached, refuses to answer, or answers what cannot be used.

    Attributes:
        status: The HTTP status; None if there was no answer.
        request_id: What the server's log calls the request.
    """

    def __init__(self, sentence: str, status: int | None = None, request_id: str = "") -> None:
        super().__init__(sentence)
        self.status, self.request_id = status, request_id


class NoAnswerBegan(ServerError):  # noqa: N818 (the name is the sentence)
    """The connection failed before an answer began, so the request may be sent again."""


@dataclass(frozen=True)
class ServerRequest:
    """What a server is asked."""

    path: str
    body: Mapping[str, Any] | None = None
    """What JSON can hold; None for a request that only reads."""

    @property
    def method(self) -> str:
        """GET without a body, else POST."""
        return "GET" if self.body is None else "POST"

    def encoded(self) -> bytes | None:
        """The body as it is sent.

        Raises:
            InputError: If JSON cannot hold it.
        """
        if self.body is None:
            return None
        given = {name: value for name, value in self.body.items() if value is not None}
        try:
            return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                "a text holds a lone surrogate, half a character; write the whole character."
            ) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"the request cannot be written as JSON ({error}); give texts, numbers and lists."
            ) from error


@dataclass(frozen=True)
class ServerReply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes

    def decoded(self, address: ServerAddress) -> Any:
        """The answer.

        Raises:
            ClozeworksError: What the server says, if it refuses; or that it says nothing usable.
        """
        content = json_of(self.body)
        if self.status == 200 and content is not None:
            return content
        raise error_of(self.status, content, address, self.headers.get("location"))


@dataclass(frozen=True)
class Connecting:
    """Where a client asks, as whom, and with how much patience."""

    address: ServerAddress
    key: str | None = field(default=None, repr=False)
    timeout: float = TIMEOUT
    retries: int = RETRIES

    def __post_init__(self) -> None:
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            rule = "it holds what no header can"
            raise SettingError("key", SET, rule, "copy it again, without line breaks")
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise SettingError("timeout", self.timeout, "it must be a number of seconds above 0")
        if self.retries < 0:
            raise SettingError("retries", self.retries, "it must be at least 0")

    def headers(self) -> dict[str, str]:
        """What is sent with every request."""
        key = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        return {"content-type": "application/json", "accept-encoding": "identity", **key}

    def wait(self, attempt: int, reply: ServerReply | None = None) -> float | None:
        """Seconds until a request is sent again; None if it is not.

        Args:
            attempt: How often it was sent before.
            reply: What came; None if nothing did.
        """
        if attempt >= self.retries or (reply is not None and reply.status not in RETRIED):
            return None
        # Clients that were refused at one time do not all come back at one time.
        usual = min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
        stated = None if reply is None else _retry_after(reply.headers.get("retry-after", ""))
        if stated is None:
            return usual
        return None if stated > self.timeout else stated + random.uniform(0, 0.1)

    def unreachable(self, error: BaseException) -> NoAnswerBegan:
        """That no answer began."""
        why = str(error) or type(error).__name__
        return NoAnswerBegan(
            f"{self.address} does not answer ({why}); a server must run there; start it with "
            "clozeworks serve, or check the address."
        )

    def too_slow(self) -> ServerError:
        """That nothing came in time."""
        return ServerError(
            f"{self.address} sent nothing for {self.timeout:g} s; send less at a time, or raise "
            "timeout."
        )

    def broken(self, error: BaseException | str) -> ServerError:
        """That the answer did not come as a whole."""
        return ServerError(
            f"{self.address} sent an answer that cannot be read ({error}); ask again, and check "
            "that it is a clozeworks server."
        )

    def too_large(self) -> ServerError:
        """That the answer is larger than any may be."""
        return ServerError(
            f"{self.address} sent more than {MOST_BYTES >> 20:,} MB; an answer must be smaller; "
            "send less at a time."
        )


def _retry_after(value: str) -> float | None:
    """Seconds that a server asks to wait: a number, or a time of day."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def json_of(body: bytes) -> Any:
    """What JSON holds; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def error_of(
    status: int, content: Any, address: ServerAddress, location: str | None = None
) -> ClozeworksError:
    """The error that a server states, as the class that a model here would raise."""
    told = content.get("error") if isinstance(content, Mapping) else None
    sentence = told.get("message") if isinstance(told, Mapping) else None
    request_id = str(told.get("request_id", "")) if isinstance(told, Mapping) else ""
    if not isinstance(sentence, str) or not sentence:
        if location is not None:
            advice = f"it points to {location!r:.200}, which is not followed; ask there"
        else:
            advice = "check that it is a clozeworks server of the same version"
        return ServerError(f"{address} answered with status {status}; {advice}.", status)
    if status == 401:
        sentence = f"{address}: {sentence} Here it is the argument key."
    elif status in (400, 408, 413, 422):
        return InputError(sentence)
    elif status == 404:
        sentence = f"{sentence} After an address a model is named so: {address}#NAME."
    if status in (404, 429, 503, 504):
        return _own_error(status, sentence)
    return ServerError(sentence, status, request_id)


def _own_error(status: int, sentence: str) -> ClozeworksError:
    """The error that the server itself raised."""
    from clozeworks.serve.models import UnknownModel
    from clozeworks.serve.work import DeadlinePassed, Overloaded, ServerStopped

    kinds: dict[int, type[ClozeworksError]] = {
        404: UnknownModel,
        429: Overloaded,
        503: ServerStopped,
        504: DeadlinePassed,
    }
    return kinds[status](sentence)


class EventDecoder:
    """Server-sent events from the bytes of a stream, in whatever pieces they come.

    Args:
        connecting: Where they come from, for messages.
    """

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._rest = bytearray()
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Mapping[str, Any]]:
        """The events that are complete.

        Raises:
            ClozeworksError: What the server says went wrong.
        """
        self._rest += piece
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        if len(self._rest) + sum(map(len, self._data)) > MOST_EVENT_BYTES:
            raise self._connecting.too_large()
        for line in map(bytes, lines):
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                yield self._event(data)

    def _event(self, data: bytes) -> Mapping[str, Any]:
        event = json_of(data)
        if not isinstance(event, Mapping):
            raise self._connecting.broken("an event is not a JSON object")
        if "error" in event:
            told = event["error"]
            status = told.get("status") if isinstance(told, Mapping) else None
            known = status if isinstance(status, int) else 500
            raise error_of(known, event, self._connecting.address)
        return event


class HttpTransport:
    """Sends requests and waits for the answers; several threads may use it.

    Args:
        connecting: Where, as whom and with how much patience.
    """

    def __init__(self, connecting: Connecting) -> None:
        self.connecting = connecting
        self._idle: deque[HTTPConnection] = deque()

    def send(self, request: ServerRequest) -> Any:
        """The answer to a request.

        Raises:
            ClozeworksError: What the server says, or that it cannot be reached.
        """
        connection, response = self._begun(request)
        try:
            body = self._whole(response)
        except BaseException:
            connection.close()
            raise
        self._keep(connection, response)
        return _reply(response, body).decoded(self.connecting.address)

    def events(self, request: ServerRequest) -> Iterator[Mapping[str, Any]]:
        """The events of a stream. The connection is closed when the iterator is.

        The request is sent at the first event.

        Raises:
            ClozeworksError: What the server says, or that it cannot be reached.
        """
        connection, response = self._begun(request)
        try:
            if response.status != 200:
                _reply(response, self._whole(response)).decoded(self.connecting.address)
            decoder = EventDecoder(self.connecting)
            while piece := self._piece(response):
                yield from decoder.feed(piece)
        finally:
            connection.close()

    def close(self) -> None:
        """Closes connections that are kept for later."""
        while self._idle:
            self._idle.pop().close()

    def _begun(self, request: ServerRequest) -> tuple[HTTPConnection, HTTPResponse]:
        """The beginning of an answer, asked for again where that may help."""
        payload, attempt = request.encoded(), 0
        while True:
            try:
                connection, response = self._once(request, payload)
            except NoAnswerBegan:
                seconds = self.connecting.wait(attempt)
                if seconds is None:
                    raise
            else:
                if response.status not in RETRIED:
                    return connection, response
                seconds = self.connecting.wait(attempt, _reply(response, b""))
                if seconds is None:
                    return connection, response
                connection.close()
            attempt += 1
            time.sleep(seconds)

    def _once(
        self, request: ServerRequest, payload: bytes | None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        try:
            kept = self._idle.pop()
        except IndexError:
            kept = None
        if kept is not None:
            try:
                return kept, self._asked(kept, request, payload)
            except NoAnswerBegan:  # the server closed it meanwhile
                kept.close()
            except BaseException:
                kept.close()
                raise
        connection = self._connected()
        try:
            return connection, self._asked(connection, request, payload)
        except BaseException:
            connection.close()
            raise

    def _connected(self) -> HTTPConnection:
        address, timeout = self.connecting.address, self.connecting.timeout
        connection: HTTPConnection
        if address.scheme == "https":
            connection = HTTPSConnection(
                address.host, address.port, timeout=timeout, context=ssl.create_default_context()
            )
        else:
            connection = HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise self.connecting.unreachable(error) from error
        return connection

    def _asked(
        self, connection: HTTPConnection, request: ServerRequest, payload: bytes | None
    ) -> HTTPResponse:
        path = self.connecting.address.path + request.path
        try:
            connection.request(request.method, path, payload, self.connecting.headers())
        except TimeoutError as error:
            raise self.connecting.too_slow() from error
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server may refuse a request before it has read all of it
        except OSError as error:
            raise self.connecting.unreachable(error) from error
        try:
            return connection.getresponse()
        except TimeoutError as error:
            raise self.connecting.too_slow() from error
        except OSError as error:  # also if the connection was closed without a word
            raise self.connecting.unreachable(error) from error
        except HTTPException as error:
            raise self.connecting.broken(f"{error!r:.200}") from error

    def _piece(self, response: HTTPResponse) -> bytes:
        try:
            return response.read1(PIECE)
        except TimeoutError as error:
            raise self.connecting.too_slow() from error
        except (OSError, HTTPException, ValueError) as error:
            raise self.connecting.broken(f"{error!r:.200}") from error

    def _whole(self, response: HTTPResponse) -> bytes:
        parts, size = [], 0
        while piece := self._piece(response):
            size += len(piece)
            if size > MOST_BYTES:
                raise self.connecting.too_large()
            parts.append(piece)
        if response.length:
            raise self.connecting.broken("it ended too early")
        response.close()  # Trap: `read1` does not, and the connection could not be used again
        return b"".join(parts)

    def _keep(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        if response.will_close or len(self._idle) >= _KEPT:
            connection.close()
        else:
            self._idle.append(connection)


def _reply(response: HTTPResponse, body: bytes) -> ServerReply:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return ServerReply(response.status, headers, body)
