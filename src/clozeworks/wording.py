"""How messages count, shorten and show things."""

import json
import unicodedata
from typing import Any


def counted(number: int, what: str, several: str | None = None) -> str:
    """A number of things in words: "1 step", "2,000 steps".

    Args:
        number: How many.
        what: What one of them is called.
        several: What more of them are called, if neither s nor ies does.
    """
    if number == 1:
        return f"{number:,} {what}"
    usual = f"{what[:-1]}ies" if what[-1] == "y" and what[-2] not in "aeiou" else f"{what}s"
    return f"{number:,} {several or usual}"


def shortened(text: str, longest: int = 160) -> str:
    """The beginning of a text, with an ellipsis where something was left out."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def size_in_words(count: float) -> str:
    """A number of bytes: 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit in ("bytes", "kB") else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


# Joiners are part of how Persian, Hindi and emoji are written, and move nothing.
_JOINERS = "\u200c\u200d"
# Control characters, invisible marks such as those that reverse the direction, halves of
# surrogate pairs, and separators of lines.
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Numbers that no character has, and that YAML does not take.
_NO_CHARACTERS = "\ufffe\uffff"


def visible(text: str, *, lines: bool = False) -> str:
    """A text in which what a terminal would obey instead of showing it is written out.

    Whatever comes from a file (names, columns, tokens, templates, texts) goes through here before
    it is printed for a person.

    Args:
        text: Any text.
        lines: Whether it may have several lines; otherwise line feeds and tabs are written out too.
    """
    return text if text.isprintable() else text.translate(_IN_LINES if lines else _ON_ONE_LINE)


def as_json(
    value: Any, *, indent: int | None = None, ascii_only: bool = False, sort_keys: bool = False
) -> str:
    """A value as JSON that a terminal shows: what it would obey is written as JSON writes it.

    Whoever reads the JSON gets the same value.

    Args:
        value: Plain data.
        indent: As for `json.dumps`.
        ascii_only: Whether all other characters are written out as well.
        sort_keys: As for `json.dumps`.
    """
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, sort_keys=sort_keys)
    # Line feeds stand between the parts only; JSON has escaped those inside strings itself.
    return text.translate(_IN_JSON)


class _Escapes(dict[int, str | None]):
    """For `str.translate`: what becomes of each character, decided when it is first met."""

    def __init__(self, kept: str, *, json_escapes: bool = False) -> None:
        super().__init__()
        self._kept = kept
        self._json_escapes = json_escapes

    def __missing__(self, code: int) -> str:
        character = shown = chr(code)
        obeyed = unicodedata.category(character) in _OBEYED or character in _NO_CHARACTERS
        if character not in self._kept and obeyed:
            shown = character.encode("unicode_escape").decode()
            if self._json_escapes:
                shown = json.dumps(character)[1:-1] if code != 0x7F else "\\u007f"
        self[code] = shown
        return shown


_ON_ONE_LINE = _Escapes(_JOINERS)
_IN_LINES = _Escapes(_JOINERS + "\n\t")
_IN_JSON = _Escapes(_JOINERS + "\n", json_escapes=True)
