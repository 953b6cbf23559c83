"""How `--help` is shown: sentences as wide as the terminal, whatever the width of the source."""

import re
from collections.abc import Sequence
from typing import Any

from cyclopts.help import DefaultFormatter
from rich.text import Text

# A line end inside a paragraph; lists and blank lines stay.
_WRAPPED = re.compile(r"(?<=\S)\n(?=[^\s\-*])")


class HelpText(DefaultFormatter):
    """The usual help, where lines that were wrapped in the source are joined first.

    Args:
        optional: The arguments that may be left out; the usage names them.
    """

    def __init__(self, optional: Sequence[str]) -> None:
        super().__init__()
        self._optional = optional

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Shows how the command is typed."""
        text = getattr(usage, "plain", str(usage))
        for general, dots in (("[ARGS...]", "..."), ("[ARGS]", "")):
            names = [f"[{name}]" for name in self._optional]
            if names:
                names[-1] = f"[{self._optional[-1]}{dots}]"
            text = text.replace(general, " ".join(names))
        super().render_usage(console, options, Text(text))

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Shows a panel of options or arguments."""
        for entry in panel.entries:
            _join(entry.description)
        super().__call__(console, options, panel)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Shows what a command does."""
        _join(description)
        super().render_description(console, options, description)


def _join(shown: Any) -> None:
    """Joins the lines of what the parser made of a docstring."""
    text = getattr(shown, "primary_renderable", None)
    if isinstance(text, Text):
        shown.primary_renderable = Text(_WRAPPED.sub(" ", text.plain), end=text.end)
