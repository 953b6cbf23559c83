"""Labels: what kind they are, what a cell says, which there are, and whether one can learn them.

The set of labels is sorted: whole numbers by value, anything else by its characters. So it does not
depend on the order of the rows.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clozeworks.data.files.fields import is_number, json_type
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import NO_LABELS, Item, Label
from clozeworks.errors import InputError
from clozeworks.wording import shortened

if TYPE_CHECKING:
    from clozeworks.data.labelled.reading import Labelled

AskedKind = Literal["one", "several", "numbers"]
LabelKind = Literal["one", "several", "numbers", "none"]

# So many of the labels must be numbers for the others to be taken for mistakes.
_MOSTLY = 0.95
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")  # Python refuses to read thousands of digits
_LARGEST = 10**300
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Learnable:
    """What training needs to know about labels."""

    labels: tuple[str, ...]
    """All labels, sorted; empty for numbers and answers."""
    warnings: tuple[str, ...] = ()
    """Sentences about what may go wrong."""


def kind_of_labels(values: Sequence[Any], separator: str | None = None) -> LabelKind:
    """Decides what kind of labels the cells of a column hold; none if every cell is empty.

    Lists, or a separator between several labels of one cell, make several labels. Numbers of which
    at least one is not whole are numbers; a few that cannot be read as such are then mistakes.
    Anything else is one label, also `0` and `1`.
    """
    filled = [value for value in values if not is_empty(value)]
    if not filled:
        return "none"
    if separator is not None or 2 * sum(isinstance(v, list | tuple) for v in filled) > len(filled):
        return "several"
    numbers = [float(value) for value in filled if not isinstance(value, bool) and is_number(value)]
    fractions = any(math.isfinite(number) and number != int(number) for number in numbers)
    return "numbers" if fractions and len(numbers) >= _MOSTLY * len(filled) else "one"


def is_empty(value: object) -> bool:
    """Whether a cell holds no label; an empty list does hold one: that none applies."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_label(value: Any, kind: LabelKind, separator: str | None = None) -> Label:
    """Reads a cell that is not empty; a separator may stand between several labels.

    Raises:
        ValueError: If it is of another kind; the message says so.
    """
    if kind == "numbers":
        return _number(value)
    if kind == "several":
        if isinstance(value, str) and separator is not None:
            value = [part for part in value.split(separator) if part.strip()]
        if not isinstance(value, list | tuple):
            raise ValueError(f"the label is {_kind_of(value)}; others are lists; write a list")
        return tuple(dict.fromkeys(map(_name, value)))
    return _name(value)


def _name(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise ValueError("a label is a number of more than 300 digits; correct it")
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(int(value) if value == int(value) else value)
    what = "empty" if is_empty(value) else _kind_of(value)
    raise ValueError(f"a label is {what}; it must be a string or a number; correct it")


def _number(value: object) -> float:
    number = float(value) if is_number(value) and not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
    if not math.isfinite(number):
        shown = repr(value) if isinstance(value, str) else _kind_of(value)
        point = " with a point" if isinstance(value, str) and "," in value else ""
        raise ValueError(f"the label is {shown}; it must be a number; write it{point}, like 3.5")
    return number


def _kind_of(value: object) -> str:
    return json_type(list(value) if isinstance(value, tuple) else value)


def ordered(labels: Iterable[str]) -> tuple[str, ...]:
    """Sorts labels: whole numbers by value, anything else by characters."""
    names = set(labels)
    if all(map(_WHOLE.fullmatch, names)):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def label_set(items: Iterable[Item]) -> tuple[str, ...]:
    """All labels or tags of some items, sorted."""
    return ordered(label for item in items for label in item.labels)


def check_labels(train: "Labelled", dev: "Labelled | None" = None) -> Learnable:
    """Insists that something can be learned from labels, and that development data asks no more.

    Raises:
        InputError: If there are no labels, only one, or one that only the development data has.
    """
    named, item = ", ".join(train.files), train.item
    if not item.labels_needed:
        return Learnable(())
    if train.kind == NO_LABELS:
        usual = f"them; name their column with --columns {item.label_role}=NAME."
        needed = item.missing_labels(train.items) or usual
        raise InputError(
            f"{named} has no {item.gold_word}, and training needs {needed} {train.description}"
        )
    if dev is not None and dev.kind == NO_LABELS and (why := item.missing_labels(dev.items)):
        raise InputError(
            f"{', '.join(dev.files)} has no {item.gold_word}, and judging a model needs {why} "
            f"{dev.description}"
        )
    if dev is not None and dev.kind != train.kind:
        kinds = item.label_kinds
        raise InputError(
            f"{', '.join(dev.files)} has {kinds[dev.kind]}, and {named} has {kinds[train.kind]}; "
            "both must be of one kind; correct one, or name the column of the label with --columns."
        )
    if train.kind == "numbers":
        numbers = {each.gold for each in train.items}
        if len(numbers) == 1:
            raise InputError(
                f"{named}: every label is {numbers.pop()}; there is nothing to learn; add rows "
                "with other numbers."
            )
    if not item.has_label_set(train.kind):
        return Learnable(())
    labels = label_set(train.items)
    # One of several labels may apply or not, so there one label can be learned.
    if len(labels) < (1 if train.kind == "several" else 2):
        present = f"the only label is {labels[0]!r}" if labels else "no row has any label"
        needed = "one" if train.kind == "several" else "two"
        raise InputError(
            f"{named}: {present}; there must be at least {needed} to learn from; add rows with "
            "others."
        )
    if dev is not None:
        _check_known(train, dev)
    return Learnable(labels, _warnings(train, named))


def _warnings(train: "Labelled", named: str) -> tuple[str, ...]:
    """A sentence about labels that stand in one row only."""
    counts = Counter(name for item in train.items for name in set(item.label_names))
    once = ordered(label for label, count in counts.items() if count == 1)
    if not once:
        return ()
    what, unit = train.item.label_word, train.item.unit
    if len(once) == 1:
        rare = f"The {what} {shortened(once[0], 60)!r} stands in one {unit} of {named}"
    else:
        rare = f"These {what}s stand in one {unit} each of {named}: {shown(once)}"
    return (f"{rare}; that is too little to learn from.",)


# What a person calls the kinds of labels that texts may have.
TEXT_LABELS: dict[str, str] = {
    "one": "one label per row",
    "several": "several labels per row",
    "numbers": "numbers as labels",
    NO_LABELS: "no labels",
}
_CELLS: dict[str, str] = {
    "one": "one name",
    "several": "several names",
    "numbers": "a number",
    NO_LABELS: "empty everywhere",
}


def described_labels(has_column: bool, kind: str) -> str:
    """What the label of a row is, as the end of a sentence about columns."""
    return f"; the label is {_CELLS[kind]}" if has_column else "; no column looks like the label"


def read_labels(
    cells: Sequence[tuple[Any, str]], asked: AskedKind | None, separator: str | None, bad: BadRows
) -> tuple[dict[int, Label], LabelKind]:
    """Reads the label cells of all rows, whose kind is decided together.

    Args:
        cells: The cell of each row, and its source location.
        asked: The kind a person named.
        separator: What stands between several labels of one cell.
        bad: Collects rows whose label cannot be used.

    Returns:
        The label of each row that can be used, by the number of the row, and the kind.
    """
    values = [cell for cell, _ in cells]
    kind: LabelKind = kind_of_labels(values, separator)
    if kind != "none" and asked is not None:
        kind = asked
    if kind == "none":
        return dict.fromkeys(range(len(cells))), kind
    labels: dict[int, Label] = {}
    advice = _advice(values, kind)
    for number, (value, source_location) in enumerate(cells):
        # Where several labels are written in one cell, an empty one says that none applies.
        if is_empty(value) and not (separator and value == ""):
            bad.add(source_location, f"the label is empty; {advice}")
            continue
        try:
            labels[number] = read_label(value, kind, separator)
        except ValueError as error:
            bad.add(source_location, str(error))
    return labels, kind


def _advice(values: Sequence[Any], kind: LabelKind) -> str:
    if kind != "one":
        return "give it a number" if kind == "numbers" else "give it a list"
    names = {str(value).strip() for value in values if not is_empty(value)}
    return f"give it one of: {shown(ordered(names))}"


def _check_known(train: "Labelled", dev: "Labelled") -> None:
    known = {name for item in train.items for name in item.label_names}
    for item in dev.items:
        for label in item.label_names:
            if label not in known:
                raise InputError(
                    f"{item.source_location}: the {dev.item.label_word} {label!r} does not occur "
                    f"in the training data, which has: {shown(ordered(known))}; correct it, or add "
                    "such rows to the training data."
                )


def shown(labels: Sequence[str]) -> str:
    """Labels in a message."""
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    return ", ".join(shortened(label, 60) for label in labels[:_SHOWN]) + more
