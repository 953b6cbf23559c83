"""Label names: what a task knows, what an item says, what a published config writes."""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from clozeworks.data.labelled.items import Label
from clozeworks.errors import CheckpointError, InputError, SettingError


def check_names(labels: Sequence[str]) -> None:
    """Insists on names that can be told apart.

    Raises:
        SettingError: If there is none, one is empty, or one occurs twice.
    """
    if not labels:
        raise SettingError("labels", labels, "a task needs at least one label", "name them")
    for number, label in enumerate(labels):
        if not label.strip():
            raise SettingError(f"labels[{number}]", label, "it needs a visible name", "give one")
        if label in labels[:number]:
            raise SettingError(f"labels[{number}]", label, "it occurs twice", "remove one")


def right_label(label: Label, labels: Sequence[str], source_location: str) -> int:
    """The number of an item's label.

    Raises:
        InputError: If it has none, or one that is not known.
    """
    if isinstance(label, str) and label in labels:
        return labels.index(label)
    where = source_location or "the item"
    if label is None:
        raise InputError(f"{where} has no label; give it one of: {shown(labels)}.")
    near = get_close_matches(str(label), labels, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(
        f"{where}: the label is {label!r}; the model knows: {shown(labels)}; correct it, or train "
        f"a model that knows it.{hint}"
    )


def number_of(label: Label, source_location: str) -> float:
    """The number an item is labelled with.

    Raises:
        InputError: If it has none, or it is not a finite number.
    """
    try:
        value = float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        where = source_location or "the item"
        raise InputError(f"{where}: the label is {label!r}; it must be a number; correct it.")
    return value


def shown(labels: Sequence[str], limit: int = 12) -> str:
    """Labels in a message."""
    more = f" and {len(labels) - limit:,} more" if len(labels) > limit else ""
    return ", ".join(labels[:limit]) + more


def published_labels(labels: Sequence[str]) -> dict[str, Any]:
    """Labels as published configs write them."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def labels_of(config: Mapping[str, Any], count: int, source_location: str) -> tuple[str, ...]:
    """The labels a published config names, in the order of the head.

    Raises:
        CheckpointError: If they are not numbered from 0, or not as many as the head has.
    """
    stated = config.get("id2label")
    if not isinstance(stated, Mapping) or not stated:
        return tuple(f"LABEL_{number}" for number in range(count))
    try:
        by_number = {int(number): str(label) for number, label in stated.items()}
    except ValueError:
        by_number = {}
    if sorted(by_number) != list(range(count)):
        raise CheckpointError(
            f"{source_location}: id2label names {len(stated):,} labels; the head has {count:,}, "
            f"and they must be numbered from 0 to {count - 1:,}; correct config.json."
        )
    labels = tuple(by_number[number] for number in range(count))
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise CheckpointError(
            f"{source_location}: id2label names {twice!r} twice; labels must differ; correct "
            "config.json."
        )
    return labels
