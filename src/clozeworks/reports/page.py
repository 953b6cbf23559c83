"""A page that needs nothing beside itself: the pieces that reports are put together from.

Everything a person wrote is escaped here, so that a text may hold HTML and stays a text.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

_DOT = re.compile(r"\.(?=[^\W\d])")
_SESSION = ("began", "clozeworks", "torch", "python", "machine", "device", "threads", "ranks")


def whole_page(title: str, parts: Sequence[str]) -> str:
    """The whole page.

    Args:
        title: What the browser calls it.
        parts: HTML elements.
    """
    style = files("clozeworks.reports").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def paragraph(sentence: str, kind: str = "") -> str:
    """A sentence or some of them."""
    style = f' class="{kind}"' if kind else ""
    return f"<p{style}>{escape(sentence)}</p>"


def heading(words: str) -> str:
    """What stands over a part of the page."""
    return f"<h2>{escape(words)}</h2>"


def box(state: str, sentences: Sequence[str], command: str | None = None) -> str:
    """Sentences that are not to be missed.

    Args:
        state: finished, stopped or failed; decides the colour.
        sentences: What is said.
        command: What to type to go on.
    """
    inside = "".join(map(paragraph, sentences))
    if command is not None:
        inside += f"<p>Go on with: <code>{escape(command)}</code></p>"
    return f'<div class="ended {state}">{inside}</div>'


def folded(summary: str, inside: str, *, is_open: bool = False) -> str:
    """What is shown when somebody asks for it."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{escape(summary)}</summary>{inside}</details>"


def bullets(sentences: Sequence[str]) -> str:
    """A list of sentences."""
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], kind: str = "") -> str:
    """A table; with `numbers`, all columns but the first are numbers.

    A row with one entry is a heading for those below it.
    """
    style = ' class="number"' if kind == "numbers" else ""
    head = "".join(
        f'<th scope="col"{style if place else ""}>{escape(name)}</th>'
        for place, name in enumerate(header)
    )
    body = "".join(
        f'<tr><th scope="row">{_breakable(str(first))}</th>'
        + "".join(f"<td{style}>{escape(str(cell))}</td>" for cell in rest)
        + "</tr>"
        if rest
        else f'<tr><th colspan="{len(header)}" class="group">{escape(str(first))}</th></tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _breakable(name: str) -> str:
    """A name that may go on in the next line behind a dot; a number may not."""
    return _DOT.sub(".<wbr>", escape(name))


def sessions_table(sessions: Sequence[Mapping[str, Any]], more: Sequence[str] = ()) -> str:
    """When the sessions of a run began, and what they ran on.

    Args:
        sessions: Lines of `sessions.jsonl`.
        more: Further entries of them that come first.
    """
    columns = (*more, *_SESSION)
    rows = [[str(session.get(column, "")) for column in columns] for session in sessions]
    began = columns.index("began")
    for row in rows:
        row[began] = row[began].replace("T", " ").replace("+00:00", " UTC")
    return table(columns, rows)


def settings_table(pairs: Sequence[tuple[str, Any]]) -> str:
    """Settings with their paths."""
    return table(["setting", "value"], [[*pair] for pair in pairs], "settings")


def value_text(value: Any, form: str) -> str:
    """A number in a form; nothing if it is none."""
    return format(value, form) if isinstance(value, int | float) else ""
