"""Cells that hold one value or a list: documents, negatives, a teacher's scores.

A reader of rows calls these; what is wrong with a cell is a `ValueError` whose text is the rest of
the sentence about its row.
"""

import math
from typing import Any

from clozeworks.data.files.fields import is_number, json_type
from clozeworks.data.labelled.items import wrong_text
from clozeworks.data.labelled.labels import is_empty


def texts_of(cell: Any, name: str, *, required: bool = False) -> tuple[str, ...]:
    """The texts of a cell: none, one, or a list of them.

    Args:
        cell: What a row holds.
        name: What it is called in a message.
        required: Whether an empty text is wrong; otherwise it is none, as an empty cell of a table.

    Raises:
        ValueError: If one of them is not a text, or is empty.
    """
    if cell is None or cell == [] or (cell == "" and not required):
        return ()
    texts = cell if isinstance(cell, list | tuple) else [cell]
    for text in texts:
        if wrong := wrong_text(text, name):
            raise ValueError(wrong)
    return tuple(texts)


def numbers_of(cell: Any, name: str) -> tuple[float, ...]:
    """The numbers of a cell: none, one, or a list of them.

    Raises:
        ValueError: If one of them is not a finite number.
    """
    if is_empty(cell):
        return ()
    numbers = cell if isinstance(cell, list | tuple) else [cell]
    for value in numbers:
        if not is_number(value) or not math.isfinite(float(value)):
            shown = repr(value) if isinstance(value, str) else json_type(value)
            raise ValueError(f"the {name} is {shown:.60}; it must be a finite number; correct it")
    return tuple(float(value) for value in numbers)
