"""Values of JSON and columns of tables: what messages call them, and which one is meant."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from clozeworks.errors import InputError
from clozeworks.wording import shortened

TEXT_COLUMN = "text"
_MOST_DIGITS = 18
# How many columns a message lists.
_LISTED = 30


def json_type(value: object) -> str:
    """Names the type of a JSON value in a message."""
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    return names.get(type(value), f"a value of type {type(value).__name__}")


def absent(
    where: str, kind: str, name: str, names: Sequence[str], option: str = "--column"
) -> InputError:
    """Makes the error for a column or field that is not there, with the nearest that is."""
    plain = {plain_name(known): known for known in reversed(names)}
    near = get_close_matches(plain_name(name), plain, n=1)
    hint = f" Did you mean {plain[near[0]]!r}?" if near and plain[near[0]] else ""
    return InputError(
        f"{where} has no {kind} {name!r}; {listed(names, kind)}; choose one with {option}.{hint}"
    )


def listed(names: Sequence[str], kind: str = "column") -> str:
    """The columns or fields there are, as a clause."""
    if names and not any(names):
        return f"it has {len(names):,} columns and no header"
    some = [shortened(name, 80) for name in names[:_LISTED]]
    more = [f"and {len(names) - _LISTED:,} more"] if len(names) > _LISTED else []
    return f"its {kind}s: {', '.join([*some, *more]) or 'none'}"


def plain_name(name: str) -> str:
    """The name of a column as names are compared."""
    return name.casefold().strip().replace(" ", "_").replace("-", "_")


def column_index(
    names: Sequence[str],
    column: str,
    where: str,
    kind: str = "column",
    *,
    option: str = "--column ",
    number_first: bool = False,
) -> int:
    """The index of a column by its name, or else by its number, counted from 1.

    With `number_first` what can be a number is one. Messages call the table `where`, a column
    `kind`, and advise to write a number after `option`.

    Raises:
        InputError: If there is no such column, or there are several of that name.
    """
    count = names.count(column)
    number = whole_number(column) or 0
    if 1 <= number <= len(names) and (number_first or not count):
        return number - 1
    if not count:
        raise absent(where, kind, column, names, option.split()[0])
    if count > 1:
        raise InputError(
            f"{where} has {count} columns {column!r}; a name must be unique; rename the others, or "
            f"give the number of one: {option}{names.index(column) + 1}."
        )
    return names.index(column)


def text_columns(
    names: Sequence[str],
    columns: Sequence[str] | None,
    where: str,
    holds_text: Callable[[int], bool],
    kind: str = "column",
) -> list[int]:
    """The indices of columns that a person named; else of `text`, or of the only one with text.

    Raises:
        InputError: If there is no such column, or there are several of a name.
    """
    if not columns:
        texts = [index for index in range(len(names)) if holds_text(index)]
        if TEXT_COLUMN not in names and len(texts) == 1:
            return texts
        columns = [TEXT_COLUMN]
    return [column_index(names, column, where, kind) for column in columns]


def is_number(cell: object) -> bool:
    """Whether a cell is a number, or a string that says one."""
    if isinstance(cell, str) and "_" in cell:  # Python reads 1_000, people do not mean it
        return False
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def whole_number(written: str) -> int | None:
    """The whole number that digits say; None if they say none, or one no file or text has."""
    digits = written.strip()
    # Trap: Python refuses to read thousands of digits, with an error of its own.
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None
