"""Conditions on the columns of documents: `year>=2020`, `language=en`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clozeworks.data.files.fields import is_number
from clozeworks.errors import SettingError

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_ORDERED = frozenset({"<", "<=", ">", ">="})
_CONDITION = re.compile(r"([^!=<>]+?)\s*([!=<>]+)\s*(.*)", re.DOTALL)
# What other languages write.
_MEANT = {"==": "=", "=>": ">=", "=<": "<=", "<>": "!=", "!": "!=", "===": "="}


@dataclass(frozen=True)
class Condition:
    """What a column of a document must hold.

    Numbers are compared as numbers, everything else as strings. A document without the column
    meets no condition.
    """

    column: str
    comparison: str
    value: str

    @classmethod
    def read(cls, written: str) -> "Condition":
        """Reads `column=value`; also `!=`, `<`, `<=`, `>`, `>=`.

        Raises:
            SettingError: If it is not written so.
        """
        match = _CONDITION.fullmatch(written.strip())
        if match is None:
            rule = "a condition is a column, one of = != < <= > >=, and a value"
            raise SettingError("where", written, rule, "write it as in year>=2020")
        column, comparison, value = match[1].strip(), match[2], match[3].strip()
        if comparison not in _COMPARISONS:
            meant = _MEANT.get(comparison)
            advice = f"write {column}{meant}{value}" if meant else "write it as in year>=2020"
            rule = f"{comparison} is none of = != < <= > >="
            raise SettingError("where", written, rule, advice)
        if comparison in _ORDERED and not value:
            rule = f"there is no value after {comparison}"
            raise SettingError("where", written, rule, "write it as in year>=2020")
        return cls(column, comparison, value)

    def holds(self, columns: Mapping[str, Any]) -> bool:
        """Whether a document with these columns meets it.

        Raises:
            SettingError: If a number is to be less or more than what is not a number.
        """
        found = columns.get(self.column)
        if found is None:
            return False
        compare = _COMPARISONS[self.comparison]
        if not isinstance(found, bool) and is_number(found):
            if is_number(self.value):
                return compare(_exact(found), _exact(self.value))
            if self.comparison in _ORDERED and not isinstance(found, str):
                written = f"{self.column}{self.comparison}{self.value}"
                rule = f"{self.column} holds numbers, and {self.value!r:.80} is not one"
                advice = "one condition for each --where; write it as in year>=2020"
                raise SettingError("where", written, rule, advice)
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return compare(text, self.value)


def conditions(where: str | Sequence[str] | Mapping[str, Any] | None) -> list[Condition]:
    """All conditions of a query: one or several as they are written, or values by column.

    Raises:
        SettingError: If one is not written as conditions are.
    """
    if where is None:
        return []
    if isinstance(where, Mapping):
        return [Condition(name, "=", _written(value)) for name, value in where.items()]
    return [Condition.read(each) for each in ([where] if isinstance(where, str) else where)]


def _exact(value: Any) -> int | float:
    """A number as it is: whole numbers may have more digits than a float holds."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[+-]?\d{1,1000}", text) else float(text)


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
