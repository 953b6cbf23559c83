"""How messages count and shorten things."""


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
