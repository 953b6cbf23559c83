"""What people read: nothing reaches a terminal that it would obey instead of showing it.

File names, columns, tokens, labels and messages come from files that somebody else may have made.
While a command runs, all that is printed goes through `VisibleOutput`; what draws on the terminal
itself, such as a progress bar, asks for the `drawing_output` below it, and what is data rather
than a page asks for the `exact_output`.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from clozeworks.wording import visible


class VisibleOutput:
    """A stream of text in which control characters are written out; lines and tabs stay.

    Args:
        stream: Where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes a text."""
        self.stream.write(visible(text, lines=True))
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        """Writes several texts."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def visible_outputs() -> Iterator[None]:
    """While it is open, standard output and standard error show control characters."""
    with redirect_stdout(_shown(sys.stdout)), redirect_stderr(_shown(sys.stderr)):
        yield


def drawing_output(stream: TextIO) -> TextIO:
    """The stream itself, for what moves the cursor or changes colours."""
    return stream.stream if isinstance(stream, VisibleOutput) else stream


def exact_output(stream: TextIO) -> TextIO:
    """The stream for texts that are data: as they are in files and pipes, not on a terminal."""
    return stream if stream.isatty() else drawing_output(stream)


def open_missing_streams() -> None:
    """Gives a process that was started with closed streams (`>&-`) something in their place.

    Otherwise the next file that is opened would take their number, and be written over. Nothing is
    read from a closed input, and what is written to a closed error output is lost; but a closed
    standard output refuses what is written to it, as it should.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _shown(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, VisibleOutput) else cast(TextIO, VisibleOutput(stream))
