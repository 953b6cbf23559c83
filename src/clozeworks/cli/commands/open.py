"""`clozeworks open`: models, runs and data in a browser."""

import logging
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.errors import SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.serve.workspace.contents import Contents

app = App(name="clozeworks open", help_format="plaintext", version_flags=[])


@app.default
def open_page(
    *sources: str,
    port: Annotated[int, Parameter(alias="-p")] = 0,
    host: str = "127.0.0.1",
    no_browser: Annotated[bool, Parameter(negative="")] = False,
    computing: ComputingOptions | None = None,
) -> None:
    """Look at models, runs and data in a browser: ask, watch, compare. Nothing leaves the machine.

    Models are loaded when they are first asked. Runs can be stopped and continued, by a browser on
    this machine alone. Ctrl-C ends it; runs that train go on.

    Args:
        sources: Models (folders or hub names), runs, indexes, corpora, labelled files, and folders
            that hold some of these; the current folder if not given.
        port: The port; 0 for any that is free.
        host: The address to listen at.
        no_browser: Print the address only.
        computing: Where models compute.
    """
    from clozeworks.serve.workspace.opening import LOOPBACK, opened, serve_opened, show_in_browser

    computing = computing or ComputingOptions()
    if not 0 <= port < 1 << 16:
        raise SettingError("--port", port, "it must be between 0 and 65,535")
    answering, workspace = opened(
        sources, host=host, device=computing.device, dtype=computing.dtype
    )
    from clozeworks.serve.server import log_to

    print(_overview(workspace.contents), file=sys.stderr)
    if host not in (LOOPBACK, "::1", "localhost"):
        print(
            f"Anybody who reaches {host} can see and ask what was opened; without --host only this "
            "machine can.",
            file=sys.stderr,
        )
    log_to(level=logging.WARNING)

    def ready(address: str) -> None:
        print(f"Opened at {address}; stop with Ctrl-C.", file=sys.stderr, flush=True)
        if not no_browser:
            show_in_browser(address)

    serve_opened(answering, workspace, host, port, ready)
    print("Closed.", file=sys.stderr)


def _overview(contents: "Contents") -> str:
    """What was found, in a line."""
    several = [
        counted(len(contents.models), "model or index", "models and indexes"),
        counted(len(contents.runs), "run"),
        counted(len(contents.corpora), "corpus", "corpora"),
        counted(len(contents.files), "labelled file"),
    ]
    there = [each for each in several if not each.startswith("0 ")]
    if not there:
        return "There is nothing to show yet; runs that begin here will appear."
    more = "; there is more than is looked at: name what you want to see" if contents.is_cut else ""
    return f"Found {', '.join(there)}{more}."
