"""Matches the labels of a file with those of a checkpoint: by name, or by number."""

from collections.abc import Sequence
from difflib import get_close_matches

from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.labels import label_set
from clozeworks.errors import InputError
from clozeworks.tasks.labels.names import shown

_NAMED = 5  # unknown labels a message names


def fitted(items: Sequence[Item], labels: Sequence[str]) -> tuple[Sequence[Item], str]:
    """Items with labels that a checkpoint knows.

    Numbers are taken for the labels of these numbers if the checkpoint has no other names
    (`LABEL_0`), or if the file has exactly as many, from 0 on; then a sentence says so.

    Raises:
        InputError: If the file has labels that the checkpoint does not know.
    """
    given = label_set(items)
    unknown = [label for label in given if label not in labels]
    if not unknown:
        return items, ""
    names = _by_number(given, labels)
    if names:
        pairs = [f"{number} is {names[number]}" for number in given]
        return [item.renamed(names) for item in items], f"Labels by number: {shown(pairs)}."
    raise _unknown(items, unknown, labels)


def _by_number(given: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    numbers = {str(number): label for number, label in enumerate(labels)}
    nameless = all(label == f"LABEL_{number}" for number, label in enumerate(labels))
    if all(label in numbers for label in given) and (nameless or len(given) == len(labels)):
        return numbers
    return {}


def _unknown(items: Sequence[Item], unknown: Sequence[str], labels: Sequence[str]) -> InputError:
    first = next(item for item in items if set(item.labels) & set(unknown))
    label = next(label for label in first.labels if label in unknown)
    near = {name: get_close_matches(name, labels, n=1) for name in unknown}
    hints = [f"{name!r} may be {match[0]!r}" for name, match in near.items() if match]
    more = [name for name in unknown if name != label]
    others = f" (also {', '.join(more[:_NAMED])}" if more else ""
    if others:
        rest = len(more) - _NAMED
        others += f" and {rest:,} more)" if rest > 0 else ")"
    hint = f" {', '.join(hints[:_NAMED])}." if hints else ""
    return InputError(
        f"{first.source_location or 'the item'}: the label is {label!r}{others}; the model knows: "
        f"{shown(labels)}; correct the labels, or evaluate a model that knows them.{hint}"
    )
