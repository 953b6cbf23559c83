"""What a notebook shows: where lines can be renewed, and results as tables."""

import html
import sys
from collections.abc import Mapping
from typing import TextIO

from clozeworks.wording import visible


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter, which shows what is printed below a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def progress_stream() -> TextIO:
    """Where progress goes: standard error; in a notebook, which colours that red, the output."""
    return sys.stdout if in_notebook() else sys.stderr


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """Names and values as a table."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(visible(name))}</th>"
        f"<td style='text-align:left'>{html.escape(visible(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{html.escape(visible(title))}</caption>{cells}</table>"
