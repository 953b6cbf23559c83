"""Whether a request comes from a person in front of this machine, by the page of this server.

A browser lets any page send requests to addresses of this machine. It states two things truthfully:
the name by which the server was asked (`Host`: a page that has its own name lead to 127.0.0.1 asks
for that name), and the page that asks (`Origin`).
"""

import ipaddress
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from clozeworks.serve.replies import NATIVE, RefusedRequest

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


def named_host(header: str) -> str:
    """The name in a `Host` header, without its port."""
    name = header.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def is_own_name(header: str, host: str) -> bool:
    """Whether a server that listens at an address may be asked by a name.

    A number is never somebody else's name; who listens at this machine alone is asked by its names.
    """
    name = named_host(header)
    if name in _LOOPBACK_NAMES or name == host.lower():
        return True
    return host.lower() not in _LOOPBACK_NAMES | {"::1"} and _is_number(name)


def check_own_page(request: Request) -> None:
    """Insists that something on this machine is changed by this server's page alone.

    Raises:
        RefusedRequest: If the request comes from another machine's name, or another page.
    """
    host = request.headers.get("host", "")
    if named_host(host) not in _LOOPBACK_NAMES:
        raise RefusedRequest(
            403, "runs are stopped and continued on their own machine alone; open the page there."
        )
    if request.headers.get("origin") != f"{request.url.scheme}://{host}":
        raise RefusedRequest(
            403, "this is for the page of this server alone; open its address in a browser."
        )


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class OnlyOwnNames:
    """An application that answers only who asks for it by its own name.

    Args:
        app: The application.
        host: The address that is listened at.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or refuses."""
        if scope["type"] != "http" or is_own_name(_host_of(scope), self._host):
            await self._app(scope, receive, send)
            return
        sentence = (
            "this server is not asked by this name; use the address that it printed (with --keys, "
            "clozeworks serve answers to any name)."
        )
        _, content = NATIVE.error(421, sentence, "")
        body = orjson.dumps(content)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 421, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _host_of(scope: Scope) -> str:
    headers: list[tuple[bytes, Any]] = scope["headers"]
    found = [value for name, value in headers if name == b"host"]
    return str(found[0].decode("latin-1")) if len(found) == 1 else ""
