"""The text in a line of JSON or in a row of a table, and the sentences for when it is not there."""

import csv
import json
from collections.abc import Sequence
from difflib import get_close_matches

from clozeworks.data.files.encodings import lone_surrogate
from clozeworks.errors import InputError
from clozeworks.wording import counted

TEXT_COLUMN = "text"
LARGEST_FIELD = 2**31 - 1  # the most the csv module accepts on every system


def json_value(line: str, where: str) -> object:
    """Reads a line of JSON.

    Args:
        line: The line.
        where: How messages name it.

    Raises:
        InputError: If it is not one whole JSON value.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}, character {error.colno:,}: this is not valid JSON ({error.msg}); "
            "write one whole JSON object per line."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: a number is too long or the nesting too deep to read; "
            "write one JSON object with the text per line."
        ) from error


def check_characters(text: str, where: str) -> None:
    """Insists on whole characters.

    Args:
        text: The text.
        where: How messages name it.

    Raises:
        InputError: If it holds half a character, which JSON escapes can produce.
    """
    if surrogate := lone_surrogate(text):
        raise InputError(
            f"{where} holds the lone surrogate {surrogate}; that is half a character; "
            "write the whole character."
        )


def json_type(value: object) -> str:
    """Names the type of a JSON value in a message."""
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    if isinstance(value, bool):
        return "true" if value else "false"
    return names.get(type(value), "a number")


def not_an_object(value: object, where: str, fields: Sequence[str]) -> InputError:
    """Makes the error for a line of JSON that has no fields."""
    named = " and ".join(map(repr, fields))
    return InputError(
        f"{where} is {json_type(value)}; it must be an object"
        + (f" with the field {named}." if fields else " or a string.")
    )


def not_a_string(value: object, where: str, field: str) -> InputError:
    """Makes the error for a field that holds something else than a text."""
    return InputError(
        f"{where}: the field {field!r} is {json_type(value)}; it must be a string; "
        "choose another field with --column, or put quotation marks around it."
    )


def absent(where: str, kind: str, name: str, names: Sequence[str]) -> InputError:
    """Makes the error for a column or field that is not there, with the nearest that is."""
    plain = {known.casefold().strip(): known for known in reversed(names)}
    near = get_close_matches(name.casefold().strip(), plain, n=1)
    hint = f" Did you mean {plain[near[0]]!r}?" if near else ""
    listed = ", ".join(names) if names else "none"
    return InputError(
        f"{where} has no {kind} {name!r}; its {kind}s: {listed}; choose one with --column.{hint}"
    )


def column_place(header: Sequence[str], column: str, where: str) -> int | None:
    """Finds a column of a table.

    Args:
        header: The names of the columns.
        column: The one looked for.
        where: How messages name the header.

    Returns:
        Its place, or None.

    Raises:
        InputError: If there are several of that name.
    """
    if header.count(column) > 1:
        raise InputError(
            f"{where}: the header has {header.count(column)} columns {column!r}; "
            "a name must be unique; rename the others."
        )
    return header.index(column) if column in header else None


def check_one_column(header: Sequence[str], where: str, suffix: str) -> None:
    """Insists that a table of one column is one.

    Args:
        header: The names of the columns; there is one.
        where: How messages name the header.
        suffix: `.csv` or `.tsv`.

    Raises:
        InputError: If it looks like a table whose columns are separated by something else.
    """
    separator = next((mark for mark in ";|\t," if mark in header[0]), None)
    if separator is not None:
        expected = "a comma" if suffix == ".csv" else "a tab"
        raise InputError(
            f"{where}: the header is one column, {header[0]!r}; in a {suffix} file {expected} "
            "separates columns; convert the file, or name this column with --column."
        )


def wrong_width(row: Sequence[str], header: Sequence[str], where: str, suffix: str) -> InputError:
    """Makes the error for a row that has more or fewer cells than the header."""
    advice = (
        "put quotation marks around a text with commas in it"
        if suffix == ".csv"
        else "take tabs and line ends out of the texts"
    )
    return InputError(
        f"{where} has {counted(len(row), 'cell')}; the header has {len(header):,}, and each "
        f"row must have as many; {advice}, or mend the row."
    )


def unmatched_quotes(where: str, error: csv.Error) -> InputError:
    """Makes the error for a row that the csv module cannot read."""
    return InputError(
        f"{where}: the quotation marks do not match ({error}); close "
        'each one, and write "" for a quotation mark inside a text.'
    )
