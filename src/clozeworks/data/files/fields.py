"""Values of JSON and columns of tables: what messages call them, and which one is meant."""

from collections.abc import Sequence
from difflib import get_close_matches

from clozeworks.errors import InputError

TEXT_COLUMN = "text"


def json_type(value: object) -> str:
    """Names the type of a JSON value in a message."""
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    if isinstance(value, bool):
        return "true" if value else "false"
    return names.get(type(value), "a number")


def not_a_string(value: object, where: str, field: str) -> InputError:
    """Makes the error for a field that holds something other than a text."""
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


def column_index(names: Sequence[str], column: str, where: str) -> int:
    """The index of a column of a table, by its name or else by its number, counted from 1.

    Raises:
        InputError: If there is no such column, or there are several of that name.
    """
    count = names.count(column)
    if count > 1:
        raise InputError(
            f"{where} has {count} columns {column!r}; a name must be unique; rename the others, or "
            f"give the number of one: --column {names.index(column) + 1}."
        )
    if count:
        return names.index(column)
    if column.isdecimal() and 1 <= int(column) <= len(names):
        return int(column) - 1
    raise absent(where, "column", column, names)
