"""Columns in a terminal, where a Chinese character is as wide as two letters."""

from collections.abc import Collection, Sequence

from clozeworks.wording import visible


def width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def filled(text: str, wide: int) -> str:
    """A text followed by spaces, up to a width."""
    return text + " " * (wide - width(text))


def cut(text: str, wide: int) -> str:
    """A text, or as much of its beginning as fits into a width."""
    from rich.cells import set_cell_size

    return text if width(text) <= wide else set_cell_size(text, wide - 1).rstrip() + "…"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Lines of a table; the columns with the numbers `left` are aligned left, the others right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            filled(cell, wide) if index in left else " " * (wide - width(cell)) + cell
            for index, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
