"""Which column of a table is the text, which the label: named by a person or found.

A column is found by its name, if that is one of the usual ones, or else by what it holds: texts are
the longest strings, labels repeat. Either way the choice is stated, so that nobody trains on the
wrong column without having been told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clozeworks.data.files.fields import column_index, is_number, listed, plain_name
from clozeworks.data.files.tables import Table
from clozeworks.data.labelled.items import Item, Role
from clozeworks.errors import InputError, SettingError, UnknownName

How = Literal["named", "known", "place", "content"]

# Rows that are looked at to see what a column holds.
_LOOKED_AT = 1_000
_LONG = 80

# Usual names of columns that several kinds of items have.
TEXT_COLUMNS = (
    *("text", "sentence", "review", "content", "document", "body", "comment", "message", "tweet"),
    *("utterance", "review_body", "review_text", "abstract", "headline", "question", "query"),
    *("input", "inputs", "title", "文本", "内容", "评论", "句子"),
)
LABEL_COLUMNS = (
    *("label", "labels", "gold_label", "class", "category", "categories", "target", "sentiment"),
    *("polarity", "intent", "topic", "emotion", "score", "scores", "similarity", "rating", "stars"),
    *("relatedness_score", "is_duplicate", "quality", "label_text", "标签", "类别"),
)
_ROW_NAMES = ("id", "idx", "index", "guid", "uid")


@dataclass(frozen=True, slots=True)
class Column:
    """A column and what it was taken to be."""

    role: str
    """What for."""
    number: int
    """Which, counted from 1."""
    name: str
    """Its name; empty if the table has no header."""
    how: How
    """Whether a person named it, or it has a usual name or place, or by what it holds."""

    def __str__(self) -> str:
        reason = {
            "named": "as named",
            "known": "by its name",
            "place": "by its place",
            "content": "by what it holds",
        }
        return f"{self.role}={self.name or self.number} ({reason[self.how]})"


def parse_columns(written: str, item: type[Item]) -> dict[str, str]:
    """Reads `text=review,label=stars`: roles with names of columns, or numbers counted from 1.

    Raises:
        SettingError: If it is not written so, or names a role twice.
        UnknownName: If such items have no such role.
    """
    roles = [role.name for role in item.roles]
    named: dict[str, str] = {}
    for part in written.split(","):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            example = ",".join(f"{name}={number}" for number, name in enumerate(roles[:3], 1))
            rule = "it must name columns or their numbers"
            raise SettingError("--columns", written, rule, f"write it like --columns {example}")
        if role not in roles:
            raise UnknownName(f"--columns for {item.command}", role, roles)
        if role in named:
            rule = f"it names {role!r} twice, and a role has one column"
            raise SettingError("--columns", written, rule)
        named[role] = column
    return named


def named_columns(columns: Any, item: type[Item]) -> dict[str, str]:
    """The columns that a program names: a dict by role, or what `parse_columns` reads.

    Raises:
        SettingError: If it is neither.
        UnknownName: If such items have no such role.
    """
    if columns is None or isinstance(columns, str):
        return parse_columns(columns, item) if columns else {}
    if not isinstance(columns, Mapping) or not all(
        isinstance(role, str) and isinstance(column, str | int) for role, column in columns.items()
    ):
        example = {role.name: "…" for role in item.roles[:2]}
        rule = "it must say which column is what"
        raise SettingError("columns", columns, rule, f"write it like {example}")
    return {role: str(column) for role, column in columns.items()}


def find_columns(
    table: Table, item: type[Item], named: Mapping[str, str], header: bool | None = None
) -> tuple[Table, tuple[Column, ...]]:
    """Finds out what the columns of a table are.

    Args:
        table: The table.
        item: What its rows become.
        named: The columns a person named: by role, a name or a number counted from 1. What can be
            a number is one.
        header: Whether the first row of csv or tsv is a header; None to find out.

    Returns:
        The table, whose rows begin with the first one if that is data, and its columns.

    Raises:
        InputError: If a column is not there, or the first row seems to be data.
    """
    if header is None:
        header = _has_header(table, item, named)
    if not header and table.doubtful is not None:
        table = table.without_header()
    columns: dict[str, Column] = {}
    for role, column in named.items():
        number = 1 + column_index(
            table.names, column, table.origin, option=f"--columns {role}=", number_first=True
        )
        other = next((each.role for each in columns.values() if each.number == number), None)
        if other is not None:
            raise InputError(
                f"--columns gives column {column} of {table.origin} to {other} and to {role}; a "
                "column has one role; correct --columns."
            )
        columns[role] = Column(role, number, table.names[number - 1], "named")
    if any(table.names):
        _find_known(table, item, columns)
    _find_by_content(table, item, columns)
    return table, tuple(columns[role.name] for role in item.roles if role.name in columns)


def _find_known(table: Table, item: type[Item], columns: dict[str, Column]) -> None:
    names = [plain_name(name) for name in table.names]
    numbers = {name: names.index(name) + 1 for name in names}

    def take(role: str, name: str) -> None:
        number = numbers[name]
        columns[role] = Column(role, number, table.names[number - 1], "known")

    # Names that go together are found together, or not at all.
    paired = [role.name for role in item.roles[:2]] if item.known_pairs else []
    needs_both = all(role.required for role in item.roles[:2])
    if paired and not {*paired} & {*columns}:
        for pair in item.known_pairs:
            if all(name in numbers for name in pair):
                for role_name, name in zip(paired, pair, strict=True):
                    take(role_name, name)
                break
    for role in item.roles:
        if role.name in columns or (role.name in paired and needs_both):
            continue
        taken = {column.number for column in columns.values()}
        for name in role.known:
            if numbers.get(name, 0) and numbers[name] not in taken:
                take(role.name, name)
                break


def _find_by_content(table: Table, item: type[Item], columns: dict[str, Column]) -> None:
    required = {role.name for role in item.roles if role.required}
    found_by_content = {role.name for role in item.roles if role.holds == "text"}
    for role in item.roles:
        if role.name in columns or any(
            each.suffices and each.name in columns for each in item.roles
        ):
            continue
        taken = {column.number for column in columns.values()}
        free = [n for n in range(1, len(table.names) + 1) if n not in taken]
        number = 0
        if role.holds == "text" and role.partner:
            alone = role.partner in columns or role.partner not in found_by_content
            pair = sorted(_texts(table, free)[: 1 if alone else 2])
            both = role.partner in required and not alone
            number = pair[0] if len(pair) > both else 0
        elif role.holds == "text":
            number = next(iter(_texts(table, free)), 0)
        elif role.holds == "label":
            number = _labels(table, free)
        if number:
            columns[role.name] = Column(role.name, number, table.names[number - 1], "content")
        elif role.required:
            raise InputError(
                f"{table.origin} has no column that looks like the {role.name}; "
                f"{listed(table.names)}; name it with --columns {role.name}=NAME."
            )


def _texts(table: Table, numbers: Sequence[int]) -> list[int]:
    """The columns of strings that are not all numbers, the longest first."""
    lengths: dict[int, float] = {}
    for number in numbers:
        cells = [cell for cell in _some(table, number) if cell is not None]
        if cells and all(isinstance(cell, str) for cell in cells):
            total = sum(map(len, cells))
            if total and not all(is_number(cell) for cell in cells):
                lengths[number] = total / len(cells)
    return sorted(lengths, key=lambda number: (-lengths[number], number))


def _labels(table: Table, numbers: Sequence[int]) -> int:
    """The only column whose cells repeat; 0 if there is none, or are several."""
    able = []
    for number in numbers:
        cells = [repr(cell) for cell in _some(table, number) if cell not in (None, "")]
        if plain_name(table.names[number - 1]) not in _ROW_NAMES and 1 < len(set(cells)) < len(
            cells
        ):
            able.append(number)
    return able[0] if len(able) == 1 else 0


def _some(table: Table, number: int) -> list[Any]:
    return [cells[number - 1] for _, cells in table.rows[:_LOOKED_AT]]


def _has_header(table: Table, item: type[Item], named: Mapping[str, str]) -> bool:
    """Whether the first row is a header; if it may be data and no number was named, an error."""
    if table.doubtful is None:
        return True
    if not all(column.isdecimal() for column in named.values()):
        return True  # then it is a header, or the name is wrong
    known = {name for role in item.roles for name in role.known} | {*_ROW_NAMES}
    known |= {name for pair in item.known_pairs for name in pair}
    for number, name in enumerate(table.names, start=1):
        if plain_name(name) in known and name not in _some(table, number):
            return True
    evidence = _data_in_header(table)
    if not evidence or named:
        return not evidence
    raise InputError(
        f"{table.location(table.doubtful)} looks like data, not like a header ({evidence}); name "
        f"the columns by number, for example --columns {_example(table, item.roles)}, or say "
        "--header (data.header=true in a recipe)."
    )


def _data_in_header(table: Table) -> str:
    """What makes the first row look like data; empty if nothing does."""
    for number, name in enumerate(table.names, start=1):
        cells = [cell for cell in _some(table, number) if cell]
        if name.strip() and name in cells:
            return f"{_short(name)!r} stands in column {number} again"
        if is_number(name) and all(map(is_number, cells)):
            return f"column {number} holds numbers, and {_short(name)!r} is one"
        if len(name) > _LONG:
            return f"column {number} is {len(name):,} characters long"
    return ""


def _example(table: Table, roles: Sequence[Role]) -> str:
    whole = table.without_header()
    numbers = list(range(1, len(whole.names) + 1))
    wanted = list(
        dict.fromkeys(
            name for role in roles if role.holds == "text" for name in (role.name, role.partner)
        )
    )
    wanted = [name for name in wanted if name]
    texts = sorted(_texts(whole, numbers)[: len(wanted)])
    example = dict(zip(wanted, texts, strict=False))
    rest = [number for number in numbers if number not in texts]
    label = next((role.name for role in roles if role.holds == "label"), None)
    if rest and label is not None:
        example[label] = min(rest, key=lambda number: len(set(map(repr, _some(whole, number)))))
    if not example:
        example = {role.name: number for number, role in enumerate(roles, start=1)}
    return ",".join(f"{role}={number}" for role, number in example.items())


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
