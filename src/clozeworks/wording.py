"""How messages count things."""


def counted(number: int, what: str, several: str | None = None) -> str:
    """A number of things in words: "1 step", "2,000 steps".

    Args:
        number: How many.
        what: What one of them is called.
        several: What more of them are called, if an s does not do.
    """
    return f"{number:,} {what if number == 1 else several or what + 's'}"
