"""How messages count, shorten and show things."""

import unicodedata


def counted(number: int, what: str, several: str | None = None) -> str:
    """A number of things in words: "1 step", "2,000 steps".

    Args:
        number: How many.
        what: What one of them is called.
        several: What more of them are called, if an s does not do.
    """
    return f"{number:,} {what if number == 1 else several or what + 's'}"


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


def visible(text: str, *, lines: bool = False) -> str:
    """A text in which what a terminal would obey instead of showing it is written out.

    Whatever comes from a file (names, columns, tokens, templates, texts) goes through here before
    it is printed for a person.

    Args:
        text: Any text.
        lines: Whether it may have several lines; otherwise line feeds and tabs are written out too.
    """
    if text.isprintable():
        return text
    kept = _JOINERS + "\n\t" if lines else _JOINERS
    return "".join(
        character.encode("unicode_escape").decode()
        if character not in kept and unicodedata.category(character) in _OBEYED
        else character
        for character in text
    )
