"""The same requests for programs that wait for many things at a time, sent by httpx."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from clozeworks.errors import MissingExtra
from clozeworks.serve.client.transport import (
    MOST_BYTES,
    RETRIED,
    Connecting,
    EventDecoder,
    NoAnswerBegan,
    ServerReply,
    ServerRequest,
)

if TYPE_CHECKING:
    import httpx


class AsyncTransport:
    """Sends requests of one event loop.

    Args:
        connecting: Where, as whom and with how much patience.

    Raises:
        MissingExtra: If httpx is not installed.
    """

    def __init__(self, connecting: Connecting) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("Asking a server with await", "httpx", "serve") from error
        self.connecting = connecting
        self._httpx = httpx
        # A program may have a proxy for the internet; a server is asked itself, as by `connect`.
        self._client = httpx.AsyncClient(
            timeout=connecting.timeout,
            follow_redirects=False,
            trust_env=False,
            verify=ssl.create_default_context() if connecting.address.scheme == "https" else False,
            limits=httpx.Limits(max_connections=None),
        )

    async def send(self, request: ServerRequest) -> Any:
        """The answer to a request.

        Raises:
            ClozeworksError: What the server says, or that it cannot be reached.
        """
        response = await self._begun(request)
        try:
            return (await self._reply(response)).decoded(self.connecting.address)
        finally:
            await response.aclose()

    async def events(self, request: ServerRequest) -> AsyncGenerator[Mapping[str, Any], None]:
        """The events of a stream; the connection is closed when the iterator is.

        Raises:
            ClozeworksError: What the server says, or that it cannot be reached.
        """
        response = await self._begun(request)
        try:
            if response.status_code != 200:
                (await self._reply(response)).decoded(self.connecting.address)
            decoder = EventDecoder(self.connecting)
            async with aclosing(self._pieces(response)) as pieces:
                async for piece in pieces:
                    for event in decoder.feed(piece):
                        yield event
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def _begun(self, request: ServerRequest) -> "httpx.Response":
        payload, attempt = request.encoded(), 0
        while True:
            try:
                response = await self._once(request, payload)
            except NoAnswerBegan:
                seconds = self.connecting.wait(attempt)
                if seconds is None:
                    raise
            else:
                if response.status_code not in RETRIED:
                    return response
                refusal = ServerReply(response.status_code, _headers(response), b"")
                seconds = self.connecting.wait(attempt, refusal)
                if seconds is None:
                    return response
                await response.aclose()
            attempt += 1
            await asyncio.sleep(seconds)

    async def _once(self, request: ServerRequest, payload: bytes | None) -> "httpx.Response":
        httpx, connecting = self._httpx, self.connecting
        asked = self._client.build_request(
            request.method,
            f"{connecting.address}{request.path}",
            content=payload,
            headers=connecting.headers(),
        )
        try:
            return await self._client.send(asked, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise connecting.unreachable(error) from error
        except httpx.TimeoutException as error:
            raise connecting.too_slow() from error
        except httpx.LocalProtocolError as error:
            raise connecting.broken(error) from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise connecting.unreachable(error) from error
        except httpx.HTTPError as error:
            raise connecting.broken(error) from error

    async def _pieces(self, response: "httpx.Response") -> AsyncGenerator[bytes, None]:
        try:
            async for piece in response.aiter_raw():
                yield piece
        except self._httpx.TimeoutException as error:
            raise self.connecting.too_slow() from error
        except self._httpx.HTTPError as error:
            raise self.connecting.broken(f"{error!r:.200}") from error

    async def _reply(self, response: "httpx.Response") -> ServerReply:
        parts, size = [], 0
        async with aclosing(self._pieces(response)) as pieces:
            async for piece in pieces:
                size += len(piece)
                if size > MOST_BYTES:
                    raise self.connecting.too_large()
                parts.append(piece)
        return ServerReply(response.status_code, _headers(response), b"".join(parts))


def _headers(response: "httpx.Response") -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
