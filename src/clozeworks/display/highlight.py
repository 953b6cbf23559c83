"""Predictions for people: texts cut to the width of the terminal, with spans marked in them.

A span is coloured where there are colours; otherwise (`NO_COLOR`, a plain terminal, a file) it is
in brackets.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clozeworks.runtime.terminal import drawing_output
from clozeworks.wording import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from clozeworks.tasks.results.details import MarkedText
    from clozeworks.tasks.task import ShownPrediction

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
_WHITE = re.compile(r"\s+")


def terminal() -> "Console":
    """Standard output, written with colours where it shows them."""
    from rich.console import Console

    return Console(
        file=drawing_output(sys.stdout), highlight=False, markup=False, emoji=False, soft_wrap=True
    )


def has_colours(console: "Console") -> bool:
    """Whether colours are shown and wanted."""
    return console.color_system is not None and not console.no_color


def _visible(text: str) -> str:
    # Colours are written beside it, so that the stream cannot tell them from those of the text.
    return visible(text, lines=True)


def shortened(text: str, width: int) -> "Text":
    """A text on one line, cut to a width of at least 10; East Asian characters count two."""
    from rich.text import Text

    width = max(10, width)
    # No more than this can be shown, and a text may be a whole book.
    shown = Text(_visible(_WHITE.sub(" ", text[: 20 * width].strip())))
    if len(text) > 20 * width:
        shown.append(" …")
    shown.truncate(width, overflow="ellipsis")
    return shown


def marked(
    text: str, spans: Sequence[tuple[int, int, str]], types: Sequence[str], *, colours: bool
) -> "Text":
    """A text with spans marked by colours or brackets, each followed by its type.

    Args:
        text: The text.
        spans: Begin, end and type of each, in order; the type may be empty.
        types: All types, in the order of their colours.
        colours: Whether there are colours; otherwise brackets are used.
    """
    from rich.text import Text

    order = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(types)}
    shown, done = Text(), 0
    for begin, end, kind in spans:
        colour = order.get(kind, COLOURS[0])
        inner = _visible(text[begin:end])
        shown.append(_visible(text[done:begin]))
        if colours:
            shown.append(inner, style=f"bold {colour}")
            shown.append(f" {_visible(kind)}" if kind else "", style=f"dim {colour}")
        else:
            shown.append(f"[{inner}{' ' + _visible(kind) if kind else ''}]")
        done = end
    shown.append(_visible(text[done:]))
    return shown


def around(text: str, begin: int, end: int, width: int, *, colours: bool) -> "Text":
    """About `width` characters of a text on one line, around a marked span in their middle."""
    from rich.text import Text

    beside = max(10, (width - (end - begin)) // 2 - 2)
    first, last = max(0, begin - beside), min(len(text), end + beside)
    # One character for one, so that the span stays where it is.
    stretch = re.sub(r"\s", " ", text[first:last])
    inner = marked(stretch, [(begin - first, end - first, "")], (), colours=colours)
    shown = Text("…" if first > 0 else "").append_text(inner)
    return shown.append("…" if last < len(text) else "")


def show(console: "Console", shown: "ShownPrediction") -> None:
    """Prints a prediction: its headline beside the texts, marked spans, and more lines."""
    from rich.text import Text

    headline = shortened(shown.headline, console.width - 9) if shown.headline else Text()
    if shown.score is not None:
        headline.append(f"  {shown.score:.3f}")
    headline.stylize("bold")
    if shown.texts:
        room = console.width - headline.cell_len - 2 - 3 * (len(shown.texts) - 1)
        texts = [shortened(text, room // len(shown.texts)) for text in shown.texts]
        headline = headline.append("  ").append_text(Text(" | ").join(texts))
    if headline:
        console.print(headline)
    if shown.marked is not None:
        console.print(_spans(console, shown.marked, whole=shown.whole))
    for line in (*(f"{score:.3f}  {name}" for name, score in shown.scores), *shown.lines):
        console.print(
            _visible(line) if shown.whole or not shown.headline else f"  {_visible(line)}"
        )


def _spans(console: "Console", text: "MarkedText", *, whole: bool) -> "Text":
    from rich.text import Text

    colours = has_colours(console)
    if not whole:
        mark = text.marks[0]
        stretch = around(text.text, mark.begin, mark.end, console.width - 2, colours=colours)
        return Text("  ").append_text(stretch)
    spans = [(mark.begin, mark.end, mark.name) for mark in text.marks]
    names = sorted({mark.name for mark in text.marks})
    return marked(text.text, spans, names, colours=colours)
