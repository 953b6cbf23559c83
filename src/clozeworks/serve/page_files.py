"""The page: files for a browser, as they lie in `serve/page/`, read once.

What is served is what a reader sees there: plain modules and CSS, nothing built, nothing from
elsewhere. Its policy forbids the browser everything but these files and this server.
"""

import gzip
from collections.abc import Callable, Coroutine, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from clozeworks import __version__
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.replies import NATIVE

_FOLDER = Path(__file__).parent / "page"
_INDEX = "index.html"
_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",  # kept, and asked for again each time: most often 304
}


class PageFile:
    """A file of the page.

    Args:
        content: What it holds.
        media_type: What it is.
    """

    def __init__(self, content: bytes, media_type: str) -> None:
        self.content, self.media_type = content, media_type
        self.compressed = gzip.compress(content, mtime=0)
        """The same, as it is sent to whoever can read it so."""
        self._hash = sha256(content).hexdigest()[:32]

    def response(self, request: Request) -> Response:
        """The file, or that it has not changed since the browser read it."""
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        etag = f'"{self._hash}{"-gzip" if zipped else ""}"'
        headers = {**_HEADERS, "etag": etag, "vary": "Accept-Encoding"}
        known = request.headers.get("if-none-match", "")
        if etag in (each.strip().removeprefix("W/") for each in known.split(",")):
            return Response(status_code=304, headers=headers)
        if zipped:
            headers["content-encoding"] = "gzip"
        content = self.compressed if zipped else self.content
        return Response(content, media_type=self.media_type, headers=headers)


def page_files() -> dict[str, PageFile]:
    """All files of the page, by their path below `serve/page/`."""
    found = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _MEDIA_TYPES and path.is_file():
            name = path.relative_to(_FOLDER).as_posix()
            found[name] = PageFile(path.read_bytes(), _MEDIA_TYPES[path.suffix])
    return found


def page_routes() -> list[BaseRoute]:
    """Answers GET and HEAD at `/` and at each file below `/page/`; nothing else is there."""
    routes: list[BaseRoute] = []
    for name, file in page_files().items():
        path = "/" if name == _INDEX else f"/page/{name}"
        routes.append(Route(path, _answering(file), methods=["GET"]))
    return routes


def page_endpoint(endpoints: Sequence[Endpoint]) -> Endpoint:
    """Says what the page can show: a view is there if what it asks for is.

    Args:
        endpoints: Everything else that can be asked.
    """
    paths = sorted({each.path for each in endpoints})
    views = [Path(name).stem for name in page_files() if name.startswith("views/")]

    def answer(call: Call, body: None) -> dict[str, Any]:
        abilities = {ability for each in call.models for ability in each.abilities}
        return {
            "version": __version__,
            "paths": paths,
            "views": views,
            "models": [each.name for each in call.models if not each.unloadable],
            "abilities": sorted(abilities),
        }

    return Endpoint(
        path="/v1/page", summary="say what the page can show", answer=answer, dialect=NATIVE,
        method="GET", counted=False,
    )  # fmt: skip


def _answering(file: PageFile) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def answer(request: Request) -> Response:
        return file.response(request)

    return answer
