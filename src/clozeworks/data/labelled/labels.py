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

from clozeworks.data.files.fields import json_type
from clozeworks.data.labelled.columns import is_number
from clozeworks.data.labelled.items import (
    ChatItem,
    Item,
    Label,
    PairItem,
    SourceItem,
    TextItem,
    WordsItem,
)
from clozeworks.errors import InputError

if TYPE_CHECKING:
    from clozeworks.data.labelled.reading import Labelled

LabelKind = Literal["one", "several", "numbers", "tags", "answers", "targets", "none"]
AskedKind = Literal["one", "several", "numbers"]

# So many of the labels must be numbers for the others to be taken for mistakes.
_MOSTLY = 0.95
_WHOLE = re.compile(r"[+-]?[0-9]+")
_SHOWN = 12
_ENTITY = re.compile(r"[BIOEMSLU][-_](.+)")
# What is wrong with chats that have no target.
NO_TURN = (
    "them: in no chat the assistant speaks last; end each with a turn of the role assistant, or, "
    "if that stands in a column of its own, name it with --columns target=NAME."
)


@dataclass(frozen=True, slots=True)
class Learnable:
    """What training needs to know about labels.

    Attributes:
        labels: All labels, sorted; empty for numbers and answers.
        warnings: Sentences about what may go wrong.
    """

    labels: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def kind_of_labels(values: Sequence[Any], separator: str | None = None) -> LabelKind:
    """Decides what kind of labels a column holds.

    Lists, or a separator, make several labels. Numbers of which at least one is not whole are
    numbers; a few that cannot be read as such are then mistakes. Anything else is one label, also
    `0` and `1`.

    Args:
        values: The cells.
        separator: What stands between several labels of one cell.

    Returns:
        The kind; none if every cell is empty.
    """
    given = [value for value in values if not is_empty(value)]
    if not given:
        return "none"
    if separator is not None or 2 * sum(isinstance(v, list | tuple) for v in given) > len(given):
        return "several"
    numbers = [float(value) for value in given if not isinstance(value, bool) and is_number(value)]
    fractions = any(math.isfinite(number) and number != int(number) for number in numbers)
    return "numbers" if fractions and len(numbers) >= _MOSTLY * len(given) else "one"


def is_empty(value: object) -> bool:
    """Whether a cell holds no label; an empty list does hold one: that none applies."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_label(value: Any, kind: LabelKind, separator: str | None = None) -> Label:
    """Reads a cell that is not empty.

    Args:
        value: The cell.
        kind: What kind of label it holds.
        separator: What stands between several labels.

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


def labels_of_item(item: Item) -> tuple[str, ...]:
    """The labels or tags that an item has, or the task it belongs to; none for numbers."""
    if isinstance(item, SourceItem | ChatItem):
        return (item.task,) if item.task else ()
    if isinstance(item, WordsItem):
        return item.tags or ()
    if isinstance(item, TextItem | PairItem):
        if isinstance(item.label, str):
            return (item.label,)
        if isinstance(item.label, tuple):
            return item.label
    return ()


def label_set(items: Iterable[Item]) -> tuple[str, ...]:
    """All labels or tags of some items, sorted."""
    return ordered(label for item in items for label in labels_of_item(item))


def are_chats(items: Sequence[Item]) -> bool:
    """Whether there are items, and all of them are chats."""
    return bool(items) and all(isinstance(item, ChatItem) for item in items)


def entity_type(tag: str) -> str:
    """The type in a tag such as `B-PER`; the tag itself if it names none."""
    found = _ENTITY.fullmatch(tag)
    return found[1] if found else tag


def check_labels(train: "Labelled", dev: "Labelled | None" = None) -> Learnable:
    """Insists that something can be learned from labels, and that development data asks no more.

    Args:
        train: What is trained on.
        dev: What the model is judged by.

    Returns:
        The labels, and warnings.

    Raises:
        InputError: If there are no labels, only one, or one that only the development data has.
    """
    named = ", ".join(train.files)
    if train.task == "fill":
        return Learnable(())
    if train.kind == "none":
        role = ROLE_OF_LABELS.get(train.task, "label")
        absent = "targets" if role == "target" else "labels"
        if are_chats(train.items):
            raise InputError(f"{named} has no targets, and training needs {NO_TURN} {train.found}")
        raise InputError(
            f"{named} has no {absent}, and training needs them; name their column with --columns "
            f"{role}=NAME. {train.found}"
        )
    if dev is not None and dev.kind == "none" and are_chats(dev.items):
        raise InputError(
            f"{', '.join(dev.files)} has no targets, and judging a model needs {NO_TURN} "
            f"{dev.found}"
        )
    if dev is not None and dev.kind != train.kind:
        raise InputError(
            f"{', '.join(dev.files)} has {KINDS[dev.kind]}, and {named} has {KINDS[train.kind]}; "
            "both must be of one kind; correct one, or name the column of the label with --columns."
        )
    if train.kind in ("answers", "targets"):
        return Learnable(())
    if train.kind == "numbers":
        numbers = {item.label for item in train.items if isinstance(item, TextItem | PairItem)}
        if len(numbers) == 1:
            raise InputError(
                f"{named}: every label is {numbers.pop()}; there is nothing to learn; add rows "
                "with other numbers."
            )
        return Learnable(())
    labels = label_set(train.items)
    # One of several labels may apply or not, so there one label can be learned.
    if len(labels) < (1 if train.kind == "several" else 2):
        said = f"the only label is {labels[0]!r}" if labels else "no row has any label"
        raise InputError(
            f"{named}: {said}; there must be at least "
            f"{'one' if train.kind == 'several' else 'two'} to learn from; add rows with others."
        )
    if dev is not None:
        _check_known(train, dev)
    return Learnable(labels, _warnings(train, named))


def _warnings(train: "Labelled", named: str) -> tuple[str, ...]:
    """A sentence about labels that stand in one row only."""
    counts = Counter(label for item in train.items for label in set(_learned(train, item)))
    once = ordered(label for label, count in counts.items() if count == 1)
    if not once:
        return ()
    what, unit = ("type", "sentence") if train.kind == "tags" else ("label", "row")
    if len(once) == 1:
        said = f"The {what} {once[0]!r} stands in one {unit} of {named}"
    else:
        said = f"These {what}s stand in one {unit} each of {named}: {shown(once)}"
    return (f"{said}; that is too little to learn from.",)


def _learned(of: "Labelled", item: Item) -> tuple[str, ...]:
    """What must be known beforehand: of tags the type, as which of B, I, E, S occurs is chance."""
    labels = labels_of_item(item)
    return tuple(map(entity_type, labels)) if of.kind == "tags" else labels


# The column that says what is right, where it is not the label.
ROLE_OF_LABELS = {"tag": "tags", "answer": "answers", "text-to-text": "target"}

# What a person calls the kinds.
KINDS: dict[LabelKind, str] = {
    "one": "one label per row",
    "several": "several labels per row",
    "numbers": "numbers as labels",
    "tags": "a tag per word",
    "answers": "answers",
    "targets": "texts to write",
    "none": "no labels",
}

# What the label of a row is.
CELLS: dict[LabelKind, str] = {
    "one": "one name",
    "several": "several names",
    "numbers": "a number",
    "none": "empty everywhere",
}


def _check_known(train: "Labelled", dev: "Labelled") -> None:
    known = {label for item in train.items for label in _learned(train, item)}
    for item in dev.items:
        for label in _learned(dev, item):
            if label not in known:
                what = "type" if dev.kind == "tags" else "label"
                raise InputError(
                    f"{item.place}: the {what} {label!r} does not occur in the training data, "
                    f"which has: {shown(ordered(known))}; correct it, or add such rows to the "
                    "training data."
                )


def shown(labels: Sequence[str]) -> str:
    """Labels in a message."""
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    return ", ".join(labels[:_SHOWN]) + more
