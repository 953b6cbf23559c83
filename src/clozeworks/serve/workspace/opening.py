"""Opens models, runs and data in a browser: a server on this machine, and its page."""

import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from clozeworks.display.notebook import in_notebook
from clozeworks.errors import ClozeworksError, MissingExtra, SettingError

if TYPE_CHECKING:
    from clozeworks.serve.app import Answering
    from clozeworks.serve.workspace.workspace import Workspace

LOOPBACK = "127.0.0.1"
# Who closes the page waits for nobody for long.
_DRAIN = 5.0


class OpenedPage:
    """A page that is open: its address, and the way to close it."""

    def __init__(self, url: str, close: Callable[[], None]) -> None:
        self.url = url
        """Where a browser finds it."""
        self._close = close

    def close(self) -> None:
        """Ends the server; runs that train go on."""
        self._close()

    def __repr__(self) -> str:
        return f"OpenedPage({self.url!r})"


def open(
    *sources: str | Path,
    port: int = 0,
    host: str = LOOPBACK,
    browser: bool = True,
    wait: bool | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> OpenedPage:
    """Opens models, runs, indexes, corpora and labelled files in a browser.

    Args:
        sources: Models (folders or hub names), runs, indexes, corpora, labelled files, and folders
            that hold some of these; the current folder if none is given.
        port: The port; any that is free if 0.
        host: The address to listen at.
        browser: Whether a browser is opened, where there is one.
        wait: Whether to wait until Ctrl-C; if not given, not in a notebook or at a prompt.
        device: Where models compute, and
        dtype: in which number type; as for `cw.load`.

    Returns:
        The page, with its address (`.url`); `.close()` ends it.

    Raises:
        InputError: If a source does not exist, or the port cannot be had.
        MissingExtra: If a library for serving is not installed.
    """
    if not 0 <= port < 1 << 16:
        raise SettingError("port", port, "it must be between 0 and 65,535")
    answering, workspace = opened(sources, host=host, device=device, dtype=dtype)
    found: SimpleQueue[str | BaseException] = SimpleQueue()

    def serve() -> None:
        try:
            serve_opened(answering, workspace, host, port, found.put)
        except BaseException as error:
            found.put(error)

    thread = Thread(target=serve, name="page", daemon=True)
    thread.start()
    url = found.get()
    if isinstance(url, BaseException):
        raise url

    def close() -> None:
        answering.draining = True
        thread.join(_DRAIN + 5)

    page = OpenedPage(url, close)
    if browser:
        show_in_browser(url)
    at_prompt = in_notebook() or hasattr(sys, "ps1")
    print(f"Opened at {url}" + (" (close it with .close())" if at_prompt else ""))
    if wait if wait is not None else not at_prompt:
        try:
            while thread.is_alive():
                thread.join(0.2)
        except KeyboardInterrupt:
            page.close()
    return page


def opened(
    sources: tuple[str | Path, ...],
    *,
    host: str = LOOPBACK,
    device: str | None = None,
    dtype: str | None = None,
) -> "tuple[Answering, Workspace]":
    """What answers for everything that is found, and what was found.

    Raises:
        InputError: If a source does not exist.
        MissingExtra: If a library for serving is not installed.
    """
    try:
        from clozeworks.serve.app import Answering
        from clozeworks.serve.application import all_endpoints, limit_kernel_caches
        from clozeworks.serve.limits import ServerLimits
        from clozeworks.serve.scheduler import Scheduler
        from clozeworks.serve.workspace.endpoints import workspace_endpoints
        from clozeworks.serve.workspace.workspace import Workspace
    except ModuleNotFoundError as error:
        raise MissingExtra("Serving", str(error.name), "serve") from error
    limit_kernel_caches()
    workspace = Workspace(sources or (Path(),), device=device, dtype=dtype)
    answering = Answering(
        workspace.models,
        Scheduler(),
        all_endpoints(workspace_endpoints(workspace)),
        limits=ServerLimits(drain=_DRAIN),
        host=host,
    )
    return answering, workspace


def serve_opened(
    answering: "Answering",
    workspace: "Workspace",
    host: str,
    port: int,
    ready: Callable[[str], None],
) -> int:
    """Serves until somebody ends it; returns how many requests got no answer.

    Args:
        answering: What answers.
        workspace: What was found.
        host: The address.
        port: The port; any that is free if 0.
        ready: Called with the address once it can be asked.

    Raises:
        InputError: If the address cannot be had.
    """
    from clozeworks.serve.server import run

    def begin(address: str) -> None:
        # What models are is read before somebody asks; a model that cannot be read says so then.
        Thread(target=_read_ahead, args=(workspace,), name="outlines", daemon=True).start()
        ready(address)

    try:
        return run(answering, host, port, ready=begin)
    finally:
        workspace.close()


def _read_ahead(workspace: "Workspace") -> None:
    for model in workspace.models:
        with suppress(ClozeworksError, OSError):
            _ = model.abilities


def show_in_browser(url: str) -> None:
    """Opens a page where there is a browser with windows; waits for nothing, and never fails."""
    has_windows = (
        sys.platform in ("win32", "darwin")
        or bool(os.environ.get("DISPLAY"))
        or bool(os.environ.get("WAYLAND_DISPLAY"))
    )
    if not has_windows or os.environ.get("SSH_CONNECTION"):
        return

    def show() -> None:
        with suppress(Exception):  # a browser is a convenience; the address was printed
            webbrowser.open(url)

    Thread(target=show, name="browser", daemon=True).start()
