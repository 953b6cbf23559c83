"""One schema of predictions: a JSON object per item, in files, on the command line, over HTTP."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from clozeworks.data.labelled.items import Item
from clozeworks.storage.atomic import atomic_file
from clozeworks.wording import as_json

Record = dict[str, Any]


class Prediction(Protocol):
    """What a task predicts about an item.

    Its class also has `from_dict`, which makes the same of what `to_dict` wrote and of the item.
    """

    @property
    def windows(self) -> int:
        """Through how many windows the item was read."""

    def to_dict(self, top: int | None = None) -> Record:
        """As JSON can hold it; `top` limits labels or candidates."""


def record_of(
    item: Item, prediction: Prediction, top: int | None = None, *, gold: bool = False
) -> Record:
    """An item and what a model predicts about it; with `gold` also what is right.

    `top` is how many labels or candidates are kept; all if not given.
    """
    predicted, inputs = prediction.to_dict(top), item.echo()
    if "text" in inputs and "text" in predicted:  # one is read, the other written for it
        inputs["source"] = inputs.pop("text")
    right = {"gold": item.gold_json()} if gold else {}
    where = {"source_location": item.source_location} if item.source_location else {}
    return {**inputs, **predicted, **right, **where}


def best_scores(scores: Mapping[str, float], top: int | None) -> dict[str, float]:
    """The labels with the highest scores, highest first."""
    return dict(sorted(scores.items(), key=lambda each: -each[1])[:top])


def write_records(path: Path, records: Sequence[Record], *, overwrite: bool = True) -> None:
    """Writes a line of JSON for each record.

    Raises:
        OutputError: If the file cannot be written.
    """
    with atomic_file(path, "w", overwrite=overwrite) as file:
        for record in records:
            file.write(as_json(record) + "\n")
