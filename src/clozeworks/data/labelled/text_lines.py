"""A text file as items: each line that is not blank is a text."""

from collections.abc import Callable
from pathlib import Path

from clozeworks.data.files.encodings import printable
from clozeworks.data.files.lines import numbered_lines, read_lines
from clozeworks.data.files.tables import nothing
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.reading import FileItems, Reading


def items_of_lines(
    path: Path, reading: Reading, bad: BadRows, make: Callable[[str, str], Item]
) -> FileItems:
    """The lines of a text file as items.

    Args:
        path: The file.
        reading: How it is read; columns cannot be named.
        bad: Collects notes.
        make: From a text and where it stands to an item.

    Raises:
        InputError: If there is no text, or columns are named.
    """
    origin = printable(path)
    reading.refuse_columns(f"each line of {origin} is a text")
    items = [
        make(line, f"{origin}, line {number:,}")
        for number, line in numbered_lines(
            read_lines(path, reading, notes=bad.notes), origin, bad.notes
        )
        if line.strip()
    ]
    if not items:
        raise nothing(origin)
    return FileItems(items, layout="Each line is a text.")
